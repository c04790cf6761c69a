# A cold part that neither a name nor the stack gives away: only one function jumps to it, and it jumps
# back into the middle of that.
# build: gcc -nostdlib -static
# hide: cold
# expect: f understood
# expect: f pieces 2
# expect: f entries 1
# expect: f edge cold -> back jump
# expect: no function at cold
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je cold
back:   ret
        .size f, . - f

        .globl g
        .type g, @function
g:      ret
        .size g, . - g

        .type cold, @function
cold:   movl $1, %eax
        jmp back
        .size cold, . - cold
