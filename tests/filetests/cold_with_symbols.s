# A cold part that has a name is a piece of its function.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f pieces 2
# expect: f entries 1
# expect: f edge f -> f.cold taken
# expect: f edge f.cold -> back jump
# expect: f unreached 0
# expect: no function at f.cold
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je f.cold
back:   ret
        .size f, . - f

        .section .text.unlikely, "ax", @progbits
        .type f.cold, @function
f.cold: movl $1, %eax
        jmp back
        .size f.cold, . - f.cold
