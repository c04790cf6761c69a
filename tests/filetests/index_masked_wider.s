# The mask allows more than there are cases: the compiler knew better. The table ends where an entry makes
# no sense.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries masked
# expect: f edge f -> case0 case
# expect: f edge f -> case1 case
        .globl f
        .type f, @function
f:      andl $3, %edi
        jmp *table(, %rdi, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1
        .ascii "no address"
