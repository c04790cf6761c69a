# A call of the next instruction only reads the program counter: no function begins there.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> next call-return
# expect: f entries 1
# expect: no function at next
        .globl f
        .type f, @function
f:      call next
next:   popq %rax
        ret
        .size f, . - f
