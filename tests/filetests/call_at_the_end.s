# Nothing follows the call but fill: the compiler knew that it does not come back.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f never returns
# expect: f no edge f -> g
# expect: f padding 3
# expect: g returns
        .globl f
        .type f, @function
f:      subq $8, %rsp
        call *%rdi
        nopl (%rax)
        .size f, . - f

        .type g, @function
g:      ret
        .size g, . - g
