# When `c` is read, `f` is known to end in a jump to `g`, and `g` is not read yet: it may return, and so may `f`.
# build: gcc -nostdlib -static
# expect: c understood
# expect: c blocks 2
# expect: c edge c -> rest call-return
# expect: c returns
# expect: f returns
# expect: no function at rest
        .globl _start
        .type _start, @function
_start: call c
        ud2
        .size _start, . - _start

        .type f, @function
f:      jmp g
        .size f, . - f

        .balign 16
c:      call f
rest:   movl $1, %eax
        ret

        .balign 16
g:      xorl %eax, %eax
        ret
