# A call into the middle of a named function gives it a second entry.
# build: gcc -nostdlib -static
# expect: f understood
# expect: g understood
# expect: g entries 2
# expect: no function at middle
        .globl f
        .type f, @function
f:      call middle
        ret
        .size f, . - f

        .globl g
        .type g, @function
g:      movl $2, %eax
middle: addl %edi, %eax
        ret
        .size g, . - g
