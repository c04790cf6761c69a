# Branches on a counter.
# build: gcc -nostdlib -static
# expect: f understood
# expect: f blocks 3
# expect: f edge f -> done taken
# expect: f edge f -> again fall-through
# expect: f edge again -> again taken
# expect: f edge again -> done fall-through
        .globl f
        .type f, @function
f:      jrcxz done
again:  incq %rax
        loop again
done:   ret
        .size f, . - f
