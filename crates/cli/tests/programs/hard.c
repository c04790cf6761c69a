/* What analysis alone does not understand. See cc.rs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

/* The bound of the table is not checked: the compiler was told. */
NOINLINE int unchecked(unsigned x, int y) {
    switch (x) {
    case 0: return y + 1;
    case 1: return y * 3;
    case 2: return y ^ 5;
    case 3: return y - 7;
    case 4: return y / 3;
    case 5: return puts("x");
    default: __builtin_unreachable();
    }
}

NOINLINE int unchecked_too(unsigned x, int y) {
    switch (x) {
    case 0: return y + 11;
    case 1: return y * 13;
    case 2: return y ^ 15;
    case 3: return y - 17;
    case 4: return y / 13;
    case 5: return puts("y");
    default: __builtin_unreachable();
    }
}

/* Labels in memory that is written to. */
NOINLINE int computed(const unsigned char *p, void **labels) {
    static void *const first[] = {&&add, &&mul, &&end, &&sub};
    int s = 0;
    if (!p) {
        memcpy(labels, first, sizeof first);
        return 0;
    }
    goto *labels[*p++];
add: s += *p; goto *labels[*p++];
mul: s *= 3; goto *labels[*p++];
sub: s -= 1; goto *labels[*p++];
end: return s;
}

/* Distances between labels. */
NOINLINE int distances(const unsigned char *p) {
    static const int steps[] = {&&add - &&add, &&mul - &&add, &&end - &&add};
    int s = 0;
    goto *(&&add + steps[*p++]);
add: s += 2; goto *(&&add + steps[*p++]);
mul: s *= 3; goto *(&&add + steps[*p++]);
end: return s;
}

/* Data among code, found by a call over it. */
NOINLINE int called_over(int x) {
    const char *p;
    __asm__ volatile("sub $128, %%rsp\n\tcall 1f\n\t.asciz \"in the code\"\n1:\tpop %0\n\tadd $128, %%rsp" : "=r"(p) : : "memory", "cc");
    return x + p[x & 7];
}

/* Data among code, jumped over. */
NOINLINE int jumped_over(long x) {
    long r;
    __asm__ volatile("lea 2f(%%rip), %0\n\tmovslq (%0,%1,4), %0\n\tjmp 3f\n\t.balign 4\n2:\t.long 0x0ff0f0ff, 0x20efffff, 3, 4\n3:"
                     : "=&r"(r) : "r"(x & 3) : "memory");
    return (int)r;
}

/* A whole function by hand, with its table among the code: nothing but the text says how long that is. */
int by_hand(unsigned x);
__asm__(".pushsection .text\n\t.globl by_hand\n\t.type by_hand, @function\nby_hand:\n\tlea 1f(%rip), %rax\n\tmov %edi, %edi\n"
        "\tmovslq (%rax,%rdi,4), %rdx\n\tadd %rdx, %rax\n\tjmp *%rax\n\t.balign 4\n1:\t.long 10f - 1b, 11f - 1b\n\t.long 12f - 1b\n"
        "10:\tmov $10, %eax\n\tret\n11:\tmov $11, %eax\n\tret\n12:\tmov $12, %eax\n\tret\n\t.size by_hand, . - by_hand\n\t.popsection");

static NOINLINE __attribute__((noreturn)) void die(void) { exit(3); }

NOINLINE int may_end(int x, __attribute__((noreturn)) void (*end)(void)) {
    if (x > 100000) end();
    if (x > 1000000) die();
    return x * 2;
}

int main(void) {
    void *labels[4];
    long sum = 0;
    computed(0, labels);
    for (int i = 0; i < 60; i++) {
        sum += unchecked(i % 5, i) + unchecked_too((i + 1) % 5, i);
        sum += computed((const unsigned char *)"\0\1\3\2", labels) + distances((const unsigned char *)"\0\1\0\2");
        sum += called_over(i) + jumped_over(i) + may_end(i, die) + by_hand(i % 3);
    }
    printf("%ld\n", sum);
    return 0;
}
