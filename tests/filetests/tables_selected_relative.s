# A conditional move chooses between two tables whose entries are relative to them. Nobody can tell where
# this leads; but the stack being as at entry does not make it a tail call, nor the cases dead code: the
# address is added up.
# build: gcc -nostdlib -shared
# expect: f not understood: unresolved-jump at last
# expect: f edge jump -> elsewhere unknown
        .globl f
        .type f, @function
f:      cmpl $1, %edi
        ja other
jump:   movl %edi, %edi
        leaq table1(%rip), %rax
        leaq table2(%rip), %rdx
        testl %esi, %esi
        cmoveq %rdx, %rax
        movslq (%rax, %rdi, 4), %rdx
        addq %rdx, %rax
last:   jmp *%rax
case0:  movl $10, %eax
        ret
case1:  movl $11, %eax
        ret
case2:  movl $12, %eax
        ret
case3:  movl $13, %eax
        ret
other:  xorl %eax, %eax
        ret
        .size f, . - f

        .section .rodata
table1: .long case0-table1, case1-table1
table2: .long case2-table2, case3-table2
        .long 0x7fffffff
