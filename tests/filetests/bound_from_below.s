# Small indices leave and large ones go to the table: the compare bounds it from below only.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge jump -> case2 case
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        jbe case0
jump:   movl %edi, %edi
        jmp *table(, %rdi, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
case2:  movl $12, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad other, case1, case2
        .quad -1
