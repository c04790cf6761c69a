# The callee spins, but whoever wrote the call did not know: code follows it, and keeps its edge.
# build: gcc -nostdlib -static
# expect: spin never returns
# expect: f understood
# expect: f edge f -> rest call-return
# expect: f unreached 0
# expect: f returns
        .globl f
        .type f, @function
f:      subq $8, %rsp
        call spin
rest:   xorl %eax, %eax
        addq $8, %rsp
        ret
        .size f, . - f

        .type spin, @function
spin:   pause
        jmp spin
        .size spin, . - spin
