# A conditional move chooses between two labels.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 3
# expect: f unreached 0
# expect: f edge f -> one case
# expect: f edge f -> two case
        .globl f
        .type f, @function
f:      leaq one(%rip), %rax
        leaq two(%rip), %rdx
        testl %esi, %esi
        cmoveq %rdx, %rax
        jmp *%rax
one:    movl $1, %eax
        ret
two:    movl $2, %eax
        ret
        .size f, . - f
