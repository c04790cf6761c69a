# Two tables in a row: the first, of bytes, says which entry of the second to take.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f tables 1
# expect: f table 2 entries masked
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      cmpl $5, %edi
        ja other
jump:   movl %edi, %edi
        movzbl bytes(%rdi), %eax
        jmp *table(, %rax, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1
bytes:  .byte 0, 1, 0, 1, 1, 0
