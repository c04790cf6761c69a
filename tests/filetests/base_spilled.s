# The table's address waits on the stack.
# build: gcc -nostdlib -shared
# expect: f understood
# expect: f tables 1
# expect: f table 2 entries compared
# expect: f edge jump -> case0 case
# expect: f edge jump -> case1 case
        .globl f
        .type f, @function
f:      subq $24, %rsp
        leaq table(%rip), %rax
        movq %rax, 8(%rsp)
next:   movzbl (%rdi), %eax
        incq %rdi
        cmpl $1, %eax
        ja done
        testq %rsi, %rsi
        je done
jump:   movq 8(%rsp), %rcx
        movslq (%rcx, %rax, 4), %rax
        addq %rcx, %rax
        jmp *%rax
case0:  incq %rsi
        jmp next
case1:  decq %rsi
        jmp next
done:   movq %rsi, %rax
        addq $24, %rsp
        ret
        .size f, . - f

        .section .rodata
        .balign 4
table:  .long case0 - table, case1 - table
        .long done - table
