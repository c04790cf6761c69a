# The index is checked before the loop and grows in it.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> last case
        .globl f
        .type f, @function
f:      movl %edi, %edi
        cmpl $1, %edi
        ja case2
jump:   jmp *table(, %rdi, 8)
case0:  incl %edi
        jmp jump
case1:  incl %edi
        jmp jump
case2:  movl %edi, %eax
        ret
last:   movl $1, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1, last
        .quad -1
