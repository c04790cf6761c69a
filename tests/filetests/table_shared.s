# Two jumps go through the same table, each with a check of its own.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f tables 2
# expect: f table 2 entries compared
# expect: f edge first -> case0 case
# expect: f edge first -> case1 case
# expect: f edge second -> case0 case
# expect: f edge second -> case1 case
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
first:  movl %edi, %edi
        jmp *table(, %rdi, 8)
case0:  cmpl $1, %esi
        ja other
second: movl %esi, %esi
        jmp *table(, %rsi, 8)
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1
        .quad other
