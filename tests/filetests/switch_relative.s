# A switch as position-independent code has it: entries of four bytes, relative to the table.
# build: gcc -nostdlib -shared
# build: gcc -nostdlib -static-pie
# expect: f understood
# expect: f blocks 5
# expect: f table 3 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> other case
        .globl f
        .type f, @function
f:      cmpl $2, %edi
        ja other
jump:   leaq table(%rip), %rdx
        movl %edi, %edi
        movslq (%rdx, %rdi, 4), %rax
        addq %rdx, %rax
        jmp *%rax
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
        .balign 4
table:  .long case0 - table, other - table, case1 - table
        .long case0 - table
