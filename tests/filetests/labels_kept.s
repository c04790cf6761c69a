# Labels are read from a table, which nothing checks the index of, kept in memory, and jumped to. Of the first jump the table
# can be seen, and it names all labels; the others are no tail calls for that.
# build: gcc -nostdlib -shared
# build: gcc -nostdlib -static
# expect: f understood
# expect: f table 3 entries masked
# expect: f tables 3
# expect: f edge first -> add case
# expect: f edge second -> add case
# expect: f edge second -> neg case
# expect: f edge second -> end case
# expect: f edge third -> neg case
# expect: f unreached 0
        .globl f
        .type f, @function
f:      leaq labels(%rip), %r8
        movzbl (%rdi), %eax
        movzbl 1(%rdi), %edx
        movq (%r8, %rax, 8), %rax
        movq (%r8, %rdx, 8), %rdx
        movq %rdx, (%rsi)
        addq $8, %rsi
first:  jmp *%rax
add:    movq (%rsi), %rdx
        addl $2, %ecx
        addq $8, %rsi
second: jmp *%rdx
neg:    movq (%rsi), %rdx
        negl %ecx
        addq $8, %rsi
third:  jmp *%rdx
end:    movl %ecx, %eax
        ret
        .size f, . - f

        .section .data.rel.ro, "aw"
        .type labels, @object
        .size labels, 24
labels: .quad add, neg, end
