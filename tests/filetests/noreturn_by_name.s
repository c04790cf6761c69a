# abort never returns, whatever its code: it is known by name. What follows the call is data.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f never returns
# expect: f data 8
# expect: f no edge f -> behind
# expect: abort never returns
        .globl f
        .type f, @function
f:      subq $8, %rsp
        call abort
        .type behind, @object
behind: .quad 0x0606060606060606
        .size behind, . - behind
        .size f, . - f

        .globl abort
        .type abort, @function
abort:  ret
        .size abort, . - abort
