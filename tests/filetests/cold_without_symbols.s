# A cold part without a name: its unwind entry shows a stack that no call leaves behind.
# build: gcc -nostdlib -static
# hide: cold
# expect: f understood
# expect: f pieces 2
# expect: f entries 1
# expect: f edge hot -> cold taken
# expect: f never returns
# expect: no function at cold
        .globl f
        .type f, @function
f:      .cfi_startproc
        pushq %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
hot:    testl %edi, %edi
        je cold
        ud2
        .cfi_endproc
        .size f, . - f

        .section .text.unlikely, "ax", @progbits
        .type cold, @function
cold:   .cfi_startproc
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
        movl $1, %eax
        ud2
        .cfi_endproc
        .size cold, . - cold
