# Control reaches bytes that form no instruction in 64-bit code.
# build: gcc -nostdlib -static
# expect: f not understood: undecodable at bad
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je good
bad:    .byte 0x06
good:   ret
        .size f, . - f
