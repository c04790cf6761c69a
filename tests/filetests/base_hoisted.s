# The table's address is loaded before the loop that switches.
# build: gcc -nostdlib -shared
# expect: f understood
# expect: f tables 1
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      pushq %rbx
        leaq table(%rip), %rbx
next:   movzbl (%rdi), %eax
        incq %rdi
        cmpl $1, %eax
        ja done
jump:   movslq (%rbx, %rax, 4), %rax
        addq %rbx, %rax
        jmp *%rax
case0:  incq %rsi
        jmp next
case1:  decq %rsi
        jmp next
done:   movq %rsi, %rax
        popq %rbx
        ret
        .size f, . - f

        .section .rodata
        .balign 4
table:  .long case0 - table, case1 - table
        .long done - table
