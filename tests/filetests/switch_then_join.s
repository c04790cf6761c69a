# Between the look-up in the table and the jump, paths part and meet: right before the jump nothing shows
# that this is a switch, and with the stack as at entry it looks like a tail call.
# build: gcc -nostdlib -shared
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f unreached 0
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
        movl %edi, %edi
        leaq table(%rip), %rax
        movslq (%rax, %rdi, 4), %rdx
        addq %rdx, %rax
        testl %esi, %esi
        je jump
        incq (%rcx)
jump:   jmp *%rax
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
        .balign 4
table:  .long case0 - table, case1 - table
        .long other - table
