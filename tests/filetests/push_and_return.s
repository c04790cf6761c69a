# A jump spelt as push and return. What calls pushes is none: that return goes back.
# build: gcc -nostdlib -static
# build: gcc -nostdlib -static-pie
# expect: f understood
# expect: f unreached 0
# expect: f edge f -> label jump
# expect: f returns
# expect: out understood
# expect: out edge out -> f tail-call
# expect: away understood
# expect: away edge away -> elsewhere return
        .globl f
        .type f, @function
f:      leaq label(%rip), %rax
        pushq %rax
        ret
        int3
label:  movl $1, %eax
        ret
        .size f, . - f

        .type out, @function
out:    leaq f(%rip), %rdx
        pushq %rdx
        ret
        .size out, . - out

        .type away, @function
away:   pushq %rdi
        ret
        .size away, . - away
