# Two named functions, and one jumps into the middle of the other: that has two entries.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> middle tail-call
# expect: g understood
# expect: g entries 2
# expect: g blocks 2
# expect: g edge g -> middle fall-through
# expect: no function at middle
        .globl f
        .type f, @function
f:      movl $1, %eax
        jmp middle
        .size f, . - f

        .globl g
        .type g, @function
g:      movl $2, %eax
middle: addl %edi, %eax
        ret
        .size g, . - g
