# The last instruction goes on, and no function begins behind it.
# build: gcc -nostdlib -static
# expect: f not understood: runs-off-the-end
# expect: f returns
        .globl f
        .type f, @function
f:      movl $1, %edi
        .size f, . - f
        .fill 16, 1, 0x06
