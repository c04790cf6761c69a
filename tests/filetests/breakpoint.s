# A breakpoint in the middle goes on; ud2 and hlt do not.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 5
# expect: f edge f -> trap taken
# expect: f no edge trap -> rest
# expect: f returns
        .globl f
        .type f, @function
f:      int3
        testl %edi, %edi
        je trap
        testl %esi, %esi
        jne rest
        hlt
trap:   ud2
rest:   ret
        .size f, . - f
