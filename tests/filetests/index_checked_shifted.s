# The cases begin at 10: what is checked is the index less 10, but the index as it was is used, with the
# table's address moved down instead.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case10 case
# expect: f edge jump -> case11 case
# expect: f no edge jump -> other
        .globl f
        .type f, @function
f:      leaq -10(%rdi), %rax
        cmpq $1, %rax
        ja other
jump:   jmp *table - 80(, %rdi, 8)
case10: movl $10, %eax
        ret
case11: movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
        .fill 80, 1, 0x55
table:  .quad case10, case11
        .quad other
