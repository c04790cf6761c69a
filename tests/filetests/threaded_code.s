# Direct-threaded code: the program is made of addresses of labels, which somebody put in memory before.
# The jump leads to every label whose address is taken.
# build: gcc -nostdlib -shared
# expect: run understood
# expect: run table 3 entries labels
# expect: run edge next -> push case
# expect: run edge next -> add case
# expect: run edge next -> halt case
# expect: run unreached 0
        .globl run
        .type run, @function
run:    testq %rdi, %rdi
        jne start
        leaq push(%rip), %rax
        movq %rax, (%rsi)
        leaq add(%rip), %rax
        movq %rax, 8(%rsi)
        leaq halt(%rip), %rax
        movq %rax, 16(%rsi)
        ret
start:  pushq %rbx
        movq %rdi, %rbx
next:   movq (%rbx), %rax
        addq $8, %rbx
        jmp *%rax
push:   incq %rsi
        jmp next
add:    addq %rsi, %rdx
        jmp next
halt:   movq %rdx, %rax
        popq %rbx
        ret
        .size run, . - run
