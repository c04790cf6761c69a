# xbegin goes on, or to its handler when the transaction is aborted.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> handler taken
# expect: f edge f -> inside fall-through
# expect: f unreached 0
        .globl f
        .type f, @function
f:      xbegin handler
inside: incq (%rdi)
        xend
        ret
handler: movl $1, %eax
        ret
        .size f, . - f
