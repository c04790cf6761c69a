# The stack is not as at entry, so this is no tail call; and nobody can tell where it leads.
# build: gcc -nostdlib -static
# expect: f not understood: unresolved-jump at jump
# expect: f edge f -> elsewhere unknown
# expect: f returns
        .globl f
        .type f, @function
f:      pushq %rbx
        movq %rdi, %rbx
jump:   jmp *%rbx
        .size f, . - f
