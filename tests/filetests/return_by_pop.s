# A return spelt as pop and jump.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> elsewhere tail-call
# expect: f returns
        .globl f
        .type f, @function
f:      popq %rcx
        jmp *%rcx
        .size f, . - f
