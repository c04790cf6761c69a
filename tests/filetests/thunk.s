# A retpoline: the call overwrites its own return address. No function begins inside, and the trap that
# speculation runs into is a loop.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f edge f -> trap call-return
# expect: f returns
        .globl f
        .type f, @function
f:      call set
trap:   pause
        lfence
        jmp trap
set:    movq %rax, (%rsp)
        ret
        .size f, . - f
