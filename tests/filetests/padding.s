# Three kinds of fill between blocks: nops, breakpoints, zeros.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 5
# expect: f unreached 0
# expect: f padding 24
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je b
        jmp c
        .nops 8
b:      jmp d
        .fill 8, 1, 0xcc
c:      ret
        .fill 8, 1, 0
d:      ret
        .size f, . - f
