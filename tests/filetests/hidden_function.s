# Functions without symbol or unwind entry: one is called, one is jumped to, one is stored in a table.
# build: gcc -nostdlib -static
# expect: called understood
# expect: called blocks 1
# expect: called padding 0
# expect: jumped understood
# expect: jumped blocks 3
# expect: stored understood
# expect: f understood
# expect: f edge next -> jumped tail-call
        .globl f
        .type f, @function
f:      call called
next:   jmp jumped
        .size f, . - f

        .balign 16
called: movl $1, %eax
        ret
        .balign 16
jumped: testl %edi, %edi
        je over
        movl $2, %eax
over:   ret
        .balign 16
stored: movl $3, %eax
        ret

        .section .rodata
        .quad stored
