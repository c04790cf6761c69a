# Imports that never return, through a stub and through a slot. Nothing sound follows the calls.
# build: gcc -nostdlib -shared
# expect: f understood
# expect: f never returns
# expect: f unreached 0
# expect: g understood
# expect: g never returns
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je other
        call abort@PLT
other:  movl $1, %edi
        call exit@PLT
        .size f, . - f

        .globl g
        .type g, @function
g:      subq $8, %rsp
        call *abort@GOTPCREL(%rip)
        .size g, . - g
