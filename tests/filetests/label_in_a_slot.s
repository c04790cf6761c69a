# A label is put into memory, and jumped to from there: the slot is fixed, but it is no tail call.
# build: gcc -nostdlib -shared
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries labels
# expect: f edge jump -> one case
# expect: f edge jump -> two case
# expect: f unreached 0
        .globl f
        .type f, @function
f:      pushq %rbx
        leaq one(%rip), %rax
        leaq two(%rip), %rdx
        testl %edi, %edi
        cmoveq %rdx, %rax
        movq %rax, slot(%rip)
        call g
        movq slot(%rip), %rax
jump:   jmp *%rax
one:    movl $1, %eax
        popq %rbx
        ret
two:    movl $2, %eax
        popq %rbx
        ret
        .size f, . - f
        .type g, @function
g:      incl %esi
        ret
        .size g, . - g
        .bss
        .type slot, @object
        .size slot, 8
slot:   .zero 8
