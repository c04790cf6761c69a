# The index is checked as a byte and used as a word without being widened: whoever does so knows that the
# rest is clear.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      cmpb $1, %dil
        ja other
jump:   jmp *table(, %rdi, 8)
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
