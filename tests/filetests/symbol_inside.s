# A symbol inside a function of stated size names another way in.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f entries 2
# expect: f blocks 2
# expect: no function at inner
        .globl f
        .type f, @function
f:      movl $2, %eax
        .globl inner
        .type inner, @function
inner:  addl %edi, %eax
        ret
        .size f, . - f
