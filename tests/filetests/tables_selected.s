# A conditional move chooses between two tables.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> case2 case
# expect: f edge jump -> case3 case
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
jump:   movl %edi, %edi
        leaq table1(%rip), %rax
        leaq table2(%rip), %rdx
        testl %esi, %esi
        cmoveq %rdx, %rax
        jmp *(%rax, %rdi, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
case2:  movl $12, %eax
        ret
case3:  movl $13, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table1: .quad case0, case1
table2: .quad case2, case3
        .quad other
