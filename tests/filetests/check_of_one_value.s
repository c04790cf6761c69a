# The index is known to be 2 where the jump stands, yet the table has more entries: the compiler did not see
# that they are never used, and what they lead to is there.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f unreached 0
# expect: f table 4 entries scanned
# expect: f edge jump -> case3 case
        .globl f
        .type f, @function
f:      cmpl $2, %edi
        jne case0
        movl %edi, %eax
        leaq table(%rip), %rdx
        movslq (%rdx, %rax, 4), %rax
        addq %rdx, %rax
jump:   jmp *%rax
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
case2:  movl $12, %eax
        ret
case3:  movl $13, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .long case0 - table, case1 - table, case2 - table, case3 - table
