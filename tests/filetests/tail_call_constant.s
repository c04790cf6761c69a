# A jump through a register that holds the address of a function, which begins right behind this one.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> g tail-call
# expect: g understood
        .globl f
        .type f, @function
f:      leaq g(%rip), %rax
        jmp *%rax
        .size f, . - f

        .globl g
        .type g, @function
g:      ret
        .size g, . - g
