# The cases begin at 10: what is checked is the index less 10, and that is used.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case10 case
# expect: f edge jump -> case11 case
# expect: f no edge jump -> other
        .globl f
        .type f, @function
f:      subl $10, %edi
        cmpl $1, %edi
        ja other
jump:   jmp *table(, %rdi, 8)
case10: movl $10, %eax
        ret
case11: movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case10, case11
        .quad other
