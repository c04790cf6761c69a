# As far away as the check is, it is right: what lies behind the table looks like more of it, and where
# something else is mentioned even further behind, only what the whole function tells is believed.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries compared
# expect: f no edge jump -> dead
# expect: f unreached 1
        .globl f
        .type f, @function
f:      pushq %rbx
        movl %edi, %ebx
        cmpl $1, %ebx
        ja other
        testl %esi, %esi
        je meet
        incl %esi
meet:   movl %esi, %edi
        call g
jump:   jmp *table(, %rbx, 8)
case0:  movl $10, %eax
        popq %rbx
        ret
case1:  movl $11, %eax
        popq %rbx
        ret
dead:   movl $12, %eax
        popq %rbx
        ret
other:  xorl %eax, %eax
        popq %rbx
        ret
        .size f, . - f

        .type g, @function
g:      leaq table + 24(%rip), %rax
        ret
        .size g, . - g

        .section .rodata
table:  .quad case0, case1
        .quad dead, other
