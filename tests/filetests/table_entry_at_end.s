# A case that cannot happen: its entry points to the very end of the function, where the next begins.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 3 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case2 case
# expect: f no edge jump -> g
        .globl f
        .type f, @function
f:      cmpl $2, %edi
        ja other
jump:   movl %edi, %edi
        jmp *table(, %rdi, 8)
case0:  movl $10, %eax
        ret
case2:  movl $12, %eax
        ret
other:  xorl %eax, %eax
        ret
end:    .size f, . - f

        .globl g
        .type g, @function
g:      ret
        .size g, . - g

        .section .rodata
table:  .quad case0, end, case2
