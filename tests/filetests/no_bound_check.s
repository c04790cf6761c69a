# The default cannot happen, so there is no check. The table is read until something else is known to
# begin: here another table that follows right behind it, whose entries would make sense too.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 2 entries scanned
# expect: f table 1 entries compared
# expect: f edge f -> case0 case
# expect: f edge f -> case1 case
# expect: f no edge f -> case2
# expect: f edge again -> case2 case
        .globl f
        .type f, @function
f:      jmp *table(, %rdi, 8)
case0:  movl $10, %eax
        ret
case1:  cmpl $0, %esi
        ja case2
again:  movl %esi, %esi
        jmp *second(, %rsi, 8)
case2:  movl $12, %eax
        ret
        .size f, . - f

        .section .rodata
table:  .quad case0, case1
second: .quad case2
        .quad -1
