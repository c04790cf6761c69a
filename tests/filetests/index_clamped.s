# The index is cut to the largest case instead of leaving for a default.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> case2 case
        .globl f
        .type f, @function
f:      testq %rsi, %rsi
        je other
jump:   movl $2, %eax
        cmpl $2, %edi
        cmovbl %edi, %eax
        jmp *table(, %rax, 8)
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
