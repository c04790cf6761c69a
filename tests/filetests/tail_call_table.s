# A tail call through a constant table of functions: the edges lead to the functions.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> g tail-call
# expect: f edge jump -> h tail-call
# expect: g understood
# expect: g entries 1
# expect: f returns
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
jump:   movl %edi, %edi
        jmp *table(, %rdi, 8)
other:  ret
        .size f, . - f

        .type g, @function
g:      movl $1, %eax
        ret
        .size g, . - g

        .type h, @function
h:      movl $2, %eax
        ret
        .size h, . - h

        .section .rodata
table:  .quad g, h
