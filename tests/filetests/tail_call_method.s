# A tail call of a virtual function.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge jump -> elsewhere tail-call
# expect: f returns
        .globl f
        .type f, @function
f:      pushq %rbx
        movq %rdi, %rbx
        call g
        movq %rbx, %rdi
        popq %rbx
        movq (%rdi), %rax
jump:   jmp *8(%rax)
        .size f, . - f

        .type g, @function
g:      ret
        .size g, . - g
