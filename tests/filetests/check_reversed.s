# The limit is in a register and the operands are the other way round.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f no edge jump -> case2
        .globl f
        .type f, @function
f:      movl $1, %eax
        cmpl %edi, %eax
        jb case2
        cmpl $5, %esi
        je other
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
