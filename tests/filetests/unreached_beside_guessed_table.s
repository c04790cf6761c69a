# Nothing bounds the table, it seems to have two entries, and there is code nothing leads to: the table may
# be longer than it seems.
# build: gcc -nostdlib -static
# expect: f not understood: unreached-beside-guessed-table at case2
# expect: f table 2 entries scanned
# expect: f unreached 1
        .globl f
        .type f, @function
f:      jmp *table(, %rdi, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
case2:  movl $12, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1
        .quad -1
