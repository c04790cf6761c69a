# Hand-written code that goes on into the next function.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> g fall-through
# expect: f returns
# expect: f pieces 1
# expect: g understood
# expect: g entries 1
        .globl f
        .type f, @function
f:      movl $1, %edi
        .size f, . - f

        .globl g
        .type g, @function
g:      movl %edi, %eax
        ret
        .size g, . - g
