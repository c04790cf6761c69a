# The table stands among the code; its bytes are data because the jump reads them.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f data 16
# expect: f unreached 0
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
        movl %edi, %edi
        jmp *table(, %rdi, 8)
table:  .quad case0, case1
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f
