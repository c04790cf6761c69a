# A mask bounds the index as well as a compare does: the table is as long as the mask says.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 4 entries compared
# expect: f edge f -> case0 case
# expect: f edge f -> case3 case
# expect: f blocks 5
        .globl f
        .type f, @function
f:      andl $3, %edi
        jmp *table(, %rdi, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
case2:  movl $12, %eax
        ret
case3:  movl $13, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1, case2, case3
        .quad case0
