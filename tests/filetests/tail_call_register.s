# A jump through a register with the stack as at entry is a tail call.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> elsewhere tail-call
# expect: f returns
        .globl f
        .type f, @function
f:      movq %rsi, %rax
        jmp *%rax
        .size f, . - f
