# glibc of old jumped over the lock prefix where there was one thread only: the same instruction, entered
# at its first or its second byte.
# build: gcc -nostdlib -static
# expect: f not understood: overlapping-instructions
        .globl f
        .type f, @function
f:      cmpl $0, %fs:0x18
        je single
        .byte 0xf0
single: cmpxchgl %ecx, (%rdi)
        ret
        .size f, . - f
