# A compiler marks jumps of its own with notrack: not a tail call, whatever the stack.
# build: gcc -nostdlib -static
# expect: f not understood: unresolved-jump at jump
        .globl f
        .type f, @function
f:      movq %rsi, %rax
jump:   notrack jmp *%rax
        .size f, . - f
