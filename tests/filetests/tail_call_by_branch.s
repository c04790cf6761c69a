# A conditional branch to another function is a tail call too.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> g tail-call
# expect: f edge f -> rest fall-through
# expect: g entries 1
        .globl f
        .type f, @function
f:      testl %edi, %edi
        jne g
rest:   ret
        .size f, . - f

        .type g, @function
g:      ret
        .size g, . - g
