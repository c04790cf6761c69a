# Control-flow enforcement: functions begin with endbr64, and jumps through tables do without.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 5
# expect: f table 2 entries compared
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      endbr64
        cmpl $1, %edi
        ja other
jump:   movl %edi, %edi
        notrack jmp *table(, %rdi, 8)
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
