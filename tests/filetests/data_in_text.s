# An object among the code, in the middle of a function. Its bytes form no instruction.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f data 12
# expect: f blocks 2
# expect: f edge f -> rest jump
# expect: no function at object
        .globl f
        .type f, @function
f:      movl object(%rip), %eax
        jmp rest
        .type object, @object
object: .long 0x06060606, 0x06060606, 0x06060606
        .size object, . - object
rest:   ret
        .size f, . - f
