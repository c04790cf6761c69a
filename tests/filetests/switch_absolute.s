# A switch through a table of absolute addresses. What follows the table looks like one more entry: only
# the compare tells that it is none.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 6
# expect: f tables 1
# expect: f table 3 entries compared
# expect: f edge f -> other taken
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> case2 case
# expect: f no edge jump -> other
        .globl f
        .type f, @function
f:      cmpl $2, %edi
        ja other
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
        .quad other
