# A jump spelt as push and return.
# build: gcc -nostdlib -static
# expect: f edge f -> label case
        .globl f
        .type f, @function
f:      leaq label(%rip), %rax
        pushq %rax
        ret
label:  movl $1, %eax
        ret
        .size f, . - f
