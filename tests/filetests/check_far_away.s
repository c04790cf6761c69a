# Between the check and the jump the paths part and meet again, and a call is made; the index waits in a
# register that calls preserve.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f tables 1
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
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
other:  xorl %eax, %eax
        popq %rbx
        ret
        .size f, . - f

        .type g, @function
g:      ret
        .size g, . - g

        .section .rodata
table:  .quad case0, case1
        .quad other
