# Two switches with tables of their own end in the same jump.
# build: gcc -nostdlib -shared
# expect: f understood
# expect: f tables 2
# expect: f table 2 entries compared
# expect: f table 3 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> case2 case
# expect: f edge jump -> case3 case
        .globl f
        .type f, @function
f:      testl %esi, %esi
        je second
        cmpl $1, %edi
        ja other
        leaq table1(%rip), %rdx
        movl %edi, %edi
        movslq (%rdx, %rdi, 4), %rax
        jmp jump
second: cmpl $2, %edi
        ja other
        leaq table2(%rip), %rdx
        movl %edi, %edi
        movslq (%rdx, %rdi, 4), %rax
jump:   addq %rdx, %rax
        jmp *%rax
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
        .balign 4
table1: .long case0 - table1, case1 - table1
table2: .long case2 - table2, case3 - table2, case2 - table2
        .long other - table2
