# The check is far from the jump, and something else mentions an address inside the table: only the check
# tells how long it is. All its cases are reached otherwise, so nothing else would show.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 3 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
# expect: f edge jump -> case2 case
        .globl f
        .type f, @function
f:      pushq %rbx
        movl %edi, %ebx
        cmpl $2, %ebx
        ja case2
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
case2:  xorl %eax, %eax
        popq %rbx
        ret
        .size f, . - f

        .type g, @function
g:      leaq table + 16(%rip), %rax
        ret
        .size g, . - g

        .section .rodata
table:  .quad case0, case1, case2
