// String instructions of all kinds, in both directions; some that are interrupted.
#include "start.h"

static unsigned char one[1 << 15] __attribute__((aligned(4096))), other[1 << 15] __attribute__((aligned(4096)));
static volatile long seen;

static void allow(int signal, void *info, uint64_t *context) {
    seen++;
    call(__NR_mprotect, one + 8192, 4096, 3);
}

#define STRINGS(prefix, count)                                                                                       \
    EACH(prefix "movs", count) EACH(prefix "stos", count) EACH(prefix "lods", count) EACH(prefix "scas", count)       \
    EACH(prefix "cmps", count)
#define EACH(text, count) ONE(text "b", count) ONE(text "w", count) ONE(text "l", count) ONE(text "q", count)
#define ONE(text, count)                                                                                             \
    {                                                                                                                \
        long times = count;                                                                                          \
        void *from = one + 4096, *to = other + 4096;                                                                 \
        __asm__ volatile(text : "+S"(from), "+D"(to), "+c"(times)::"rax", "memory", "cc");                           \
    }

static void all(void) {
    STRINGS("", 3)
    STRINGS("rep ", 0)
    STRINGS("rep ", 1)
    STRINGS("rep ", 7)
    STRINGS("repne ", 9)
    STRINGS("addr32 rep ", 5)
}

int run(int argc, char **argv) {
    for (int i = 0; i < 8192; i++) other[i] = one[i] = i * i >> 3;
    for (int i = 0; i < 64; i++) other[4096 + i] = one[4096 + i];
    all();
    __asm__ volatile("std" ::: "cc");
    all();
    __asm__ volatile("cld" ::: "cc");
    // Told in several parts.
    void *to = other, *from = one;
    long times = 20000;
    __asm__ volatile("rep movsb\n mov (%0), %%al" : "+D"(to), "+S"(from), "+c"(times)::"memory", "rax");
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(times)::"memory");
    // Faults in the middle.
    handle(11, allow, 0);
    for (int backwards = 0; backwards < 2; backwards++) {
        call(__NR_mprotect, one + 8192, 4096, 0);
        times = 300, to = one + (backwards ? 12288 + 800 : 8192 - 800), from = other + 4096;
        if (backwards) __asm__ volatile("std" ::: "cc");
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(times)::"memory");
        __asm__ volatile("cld" ::: "cc");
    }
    for (int i = 0; i < 20000; i++) one[i] = other[i];
    call(__NR_mprotect, one + 8192, 4096, 0);
    times = 9000, to = one, from = other;
    __asm__ volatile("cmpsb\n repe cmpsb" : "+D"(to), "+S"(from), "+c"(times)::"memory", "cc");
    call(__NR_mprotect, one + 8192, 4096, 0);
    times = 5000, to = one + 6000;
    __asm__ volatile("mov $0x12345678, %%eax\n repne scasl" : "+D"(to), "+c"(times)::"memory", "cc", "rax");
    return seen == 4 ? 0 : 1;
}
