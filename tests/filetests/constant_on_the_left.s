# The constant of the check is in a register, and on the left; behind the table lies what could be more of it.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f no edge jump -> other
        .globl f
        .type f, @function
f:      movl %edi, %eax
        movl $1, %ecx
        cmpl %eax, %ecx
        jb other
jump:   jmp *table(, %rax, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1
        .quad other
