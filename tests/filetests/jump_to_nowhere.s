# A jump to data.
# build: gcc -nostdlib -static
# expect: f not understood: jump-to-nowhere at jump
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je rest
jump:   jmp nowhere
rest:   ret
        .size f, . - f

        .data
nowhere: .quad 0
