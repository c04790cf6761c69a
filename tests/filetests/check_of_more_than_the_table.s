# The check lets more through than the table has entries: the compiler knew better. What lies behind the
# table is that of another function, whose cases are not those of this one.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 3 entries scanned
# expect: f edge jump -> case2 case
# expect: f no edge jump -> other0
# expect: g understood
# expect: g entries 1
# expect: g table 2 entries compared
        .globl f
        .type f, @function
f:      cmpl $255, %edi
        ja case0
        movzbl %dil, %eax
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
        .size f, . - f

        .type g, @function
g:      cmpl $1, %edi
        ja other0
        movl %edi, %eax
        leaq next(%rip), %rdx
        movslq (%rdx, %rax, 4), %rax
        addq %rdx, %rax
        jmp *%rax
other0: movl $20, %eax
        ret
other1: movl $21, %eax
        ret
        .size g, . - g

        .section .rodata
table:  .long case0 - table, case1 - table, case2 - table
next:   .long other0 - next, other1 - next
