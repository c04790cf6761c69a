// Writes down masks and little else: records of 12 bytes, and now and then one of 20 bytes, so that they end at all places where
// buffers may end.
#include "start.h"

static unsigned char memory[64] __attribute__((aligned(64)));

static int has_masks(void) {
    unsigned a = 7, b, c = 0, d, low, high;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (!(b >> 16 & 1)) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 0xe6) == 0xe6;
}

int run(int argc, char **argv) {
    if (!has_masks()) return 0;
#define LOAD "vmovdqu32 (%1), %%zmm0%{%%k1%}%{z%}\n"
    for (int i = 0; i < 600000; i++) {
        unsigned bits = i * 0x9e37u & 0xffff;
        if (i % 20000 == 0)
            __asm__ volatile("kmovw %0, %%k1\n" LOAD "kshiftrw $1, %%k1, %%k1\n" LOAD ::"r"(bits), "r"(memory) : "xmm0", "memory");
        __asm__ volatile("kmovw %0, %%k1\n" LOAD ::"r"(bits), "r"(memory) : "xmm0", "memory");
    }
    return 0;
}
