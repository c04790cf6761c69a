// Wants accesses to memory to be aligned for a while, as who finds out by that flag what the processor is.
#include "start.h"

static long *chain[64];
static long long words[256];

static void align(int on) {
    long flags = 1 << 18;
    if (on)
        __asm__ volatile("pushfq; or %0, (%%rsp); popfq" : : "r"(flags) : "memory", "cc");
    else
        __asm__ volatile("pushfq; not %0; and %0, (%%rsp); not %0; popfq" : : "r"(flags) : "memory", "cc");
}

int run(int argc, char **argv) {
    for (int i = 0; i < 64; i++)
        chain[i] = (long *)&chain[i * 37 % 64];
    long sum = 0;
    for (int round = 0; round < 3; round++) {
        align(1);
        long **at = chain;
        // One value and two in turn: some are written where they are aligned.
        for (int i = 0; i < 500; i++) {
            at = (long **)*at;
            sum += (long)at;
            if (i % 3 == 0)
                words[(unsigned char)sum]++;
        }
        align(0);
        for (int i = 0; i < 10; i++)
            at = (long **)*at;
        sum += (long)at;
    }
    return sum == 0;
}
