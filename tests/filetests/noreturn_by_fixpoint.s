# Nobody says that these never return: one spins, one ends in a call of it, and two jump to each other.
# build: gcc -nostdlib -static
# expect: spin never returns
# expect: die never returns
# expect: ping never returns
# expect: pong never returns
# expect: maybe returns
# expect: f understood
# expect: f returns
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je rest
        call die
        nop
rest:   ret
        .size f, . - f

        .type spin, @function
spin:   jmp spin
        .size spin, . - spin

        .type die, @function
die:    subq $8, %rsp
        call spin
        .size die, . - die

        .type ping, @function
ping:   testl %edi, %edi
        je pong
        ud2
        .size ping, . - ping

        .type pong, @function
pong:   jmp ping
        .size pong, . - pong

        .type maybe, @function
maybe:  testl %edi, %edi
        je spin
        ret
        .size maybe, . - maybe
