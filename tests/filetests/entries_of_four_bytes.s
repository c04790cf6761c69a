# A table of absolute addresses of four bytes each.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
jump:   movl %edi, %edi
        movl table(, %rdi, 4), %eax
        jmp *%rax
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .long case0, case1
        .long other
