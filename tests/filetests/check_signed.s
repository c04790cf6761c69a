# A check as signed numbers, in two parts.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        jg case2
        testl %edi, %edi
        js other
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
table:  .quad case0, case1, case2
        .quad -1
