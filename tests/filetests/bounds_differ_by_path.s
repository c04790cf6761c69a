# Two ways lead to the jump, and each checks for another bound: the larger one counts.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f tables 1
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> case2 case
        .globl f
        .type f, @function
f:      movl %edi, %edi
        testl %esi, %esi
        je wide
        cmpl $1, %edi
        jbe jump
        jmp other
wide:   cmpl $2, %edi
        ja other
jump:   jmp *table(, %rdi, 8)
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
