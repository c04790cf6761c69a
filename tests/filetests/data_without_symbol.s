# The same without a symbol for the data: nobody vouches for it.
# build: gcc -nostdlib -static
# expect: f not understood: unexplained-bytes at object
# expect: f blocks 2
# expect: f data 0
        .globl f
        .type f, @function
f:      movl object(%rip), %eax
        jmp rest
object: .long 0x06060606, 0x06060606, 0x06060606
rest:   ret
        .size f, . - f
