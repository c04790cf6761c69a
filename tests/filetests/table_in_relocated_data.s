# The table is filled by the loader.
# build: gcc -nostdlib -shared
# build: gcc -nostdlib -static-pie
# expect: f understood
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
jump:   movl %edi, %edi
        leaq table(%rip), %rax
        jmp *(%rax, %rdi, 8)
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .data.rel.ro, "aw"
table:  .quad case0, case1
        .quad other
