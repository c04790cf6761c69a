# Sound code that nothing leads to belongs to the function as dead code.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 3
# expect: f unreached 1
# expect: f edge dead -> rest jump
        .globl f
        .type f, @function
f:      xorl %eax, %eax
        jmp rest
dead:   incl %eax
        jmp rest
rest:   ret
        .size f, . - f
