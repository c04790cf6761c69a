# A tail call of an import through its slot in the global offset table.
# build: gcc -nostdlib -shared
# expect: f understood
# expect: f edge f -> elsewhere tail-call
# expect: f returns
# expect: f blocks 1
        .globl f
        .type f, @function
f:      xorl %eax, %eax
        jmp *imported@GOTPCREL(%rip)
        .size f, . - f
