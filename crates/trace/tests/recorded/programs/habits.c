// Goes the same way so often that it is followed through calls, returns and computed jumps, and leaves it now and then wherever that is possible.
#include "start.h"

#define APART __attribute__((noinline, noclone))

static long words[64];
static void *back[5];

// A function that calls nobody may use what lies below the stack.
APART static long below(long x) {
    long result;
    __asm__ volatile(
        "mov %1, -8(%%rsp)\n\t"
        "mov %1, -120(%%rsp)\n\t"
        "test $63, %1\n\t"
        "jz 1f\n\t"
        "lea 1(%1), %0\n\t"
        "jmp 2f\n"
        "1:\n\t"
        "mov -8(%%rsp), %0\n\t"
        "sub -120(%%rsp), %0\n"
        "2:\n\t"
        "add -8(%%rsp), %0"
        : "=&r"(result)
        : "r"(x)
        : "memory", "cc");
    return result;
}

APART static long usual(long x) { return below(x) + words[x & 7]; }
APART static long other(long x) { return words[x & 63]++; }
static long (*volatile chosen[2])(long) = {usual, other};

// Comes back to where it was called from, or one byte behind that.
APART long returns_elsewhere(long x);
__asm__(
    "returns_elsewhere:\n\t"
    "test $127, %rdi\n\t"
    "jnz 1f\n\t"
    "incq (%rsp)\n"
    "1:\n\t"
    "ret");

APART static long skips(long x) {
    long result = x;
    __asm__ volatile(
        "sub $128, %%rsp\n\t"
        "call returns_elsewhere\n\t"
        ".byte 0x90\n\t"
        "add $128, %%rsp"
        : "+D"(result)
        :
        : "memory", "cc");
    return result;
}

APART static void leave(long x) {
    if ((x & 255) == 255)
        __builtin_longjmp(back, 1);
    words[x & 3] += x;
}

APART static long inner(long x) {
    if (x % 50 == 49)
        return 1;
    leave(x);
    return below(x);
}

APART static long middle(long x) {
    long sum = inner(x);
    return x % 5 < 4 ? sum : sum + inner(x + 1);
}

APART static long by_table(long x) {
    switch (x) {
    case 0: return words[1];
    case 1: return words[2] * 3;
    case 2: return words[4] - words[3];
    case 3: return words[5] ^ 7;
    case 4: return words[6] >> 1;
    case 5: return words[7] | words[8];
    }
    return 0;
}

APART static long round(long i) {
    long sum = chosen[i % 40 == 39](i);
    sum += by_table(i % 16 == 15 ? i % 6 : 2);
    sum += skips(i);
    return sum;
}

int run(int argc, char **argv) {
    // Not in a register: a jump leads back here.
    static volatile long i, sum;
    for (i = 0; i < 4000; i++) {
        sum += round(i);
        if (!__builtin_setjmp(back))
            sum += middle(i);
    }
    return sum == 0;
}
