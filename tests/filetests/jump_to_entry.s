# A jump to the function's own entry stays inside; a call of it does not.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f entries 1
# expect: f edge again -> f jump
# expect: f edge deeper -> again call-return
        .globl f
        .type f, @function
f:      testl %edi, %edi
        je done
deeper: decl %edi
        call f
again:  decl %edi
        jmp f
done:   ret
        .size f, . - f
