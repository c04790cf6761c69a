# A function of hand-written code without a size ends where its code does.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 3
# expect: f padding 0
# expect: g understood
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je over
        incl %edi
over:   ret
        .balign 32
        .globl g
        .type g, @function
g:      ret
