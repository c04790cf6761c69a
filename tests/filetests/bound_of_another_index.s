# What is checked is not what is used: the check says nothing of the table.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 3 entries scanned
# expect: f edge jump -> case2 case
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
jump:   movl %esi, %edi
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
