// Calls of the kernel, signals that interrupt them, and segments. Ends itself by `kill -9`.
#include "start.h"

static volatile int seen;
static int channel[2];
static long words[2][8] = {{1, 2, 3}, {4, 5, 6}};

static void count(int signal, void *info, uint64_t *context) { seen += signal; }

static void answer(int signal, void *info, uint64_t *context) { call(__NR_write, channel[1], &seen, 1); }

static void alarm_soon(void) {
    long when[4] = {0, 0, 0, 50000};
    call(__NR_setitimer, 0, when, 0);
}

static long through_fs(void) {
    long value;
    __asm__ volatile("movq %%fs:8, %0\n addq %%fs:16, %0" : "=r"(value)::"memory");
    return value;
}

static long through_gs(void) {
    long value;
    __asm__ volatile("movq %%gs:8, %0\n addq %%gs:16, %0" : "=r"(value)::"memory");
    return value;
}

int run(int argc, char **argv) {
    call(__NR_getpid);
    call(__NR_write, -1, words, 8);
    call(__NR_pipe, channel);

    call(__NR_arch_prctl, ARCH_SET_FS, words[0]);
    long sum = through_fs();
    call(__NR_arch_prctl, ARCH_SET_FS, words[1]);
    sum += through_fs();
    call(__NR_arch_prctl, ARCH_SET_GS, words[0]);
    sum += through_gs();
    unsigned long *rest = (unsigned long *)argv + argc + 1;
    while (*rest++) {}
    int has_bases = 0; // HWCAP2
    for (; rest[0]; rest += 2) has_bases |= rest[0] == 26 && rest[1] & 2;
    if (has_bases) {
        __asm__ volatile("wrfsbase %0" ::"r"(words[0]));
        sum += through_fs();
        __asm__ volatile("wrgsbase %0\n movq %%gs:8, %%rax" ::"r"(words[1]) : "rax");
        sum += through_gs();
    }
    int selector = 0;
    __asm__ volatile("mov %0, %%fs\n" ::"r"(selector));
    call(__NR_arch_prctl, ARCH_SET_FS, words[1]);
    sum += through_fs();

    // As a 32-bit program calls it: the engine is not concerned, and is.
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20 /* getpid */) : "memory");
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(91 /* munmap */), "b"(0x10000), "c"(4096) : "memory");
    sum += result;

    handle(10, count, 0);
    long self = call(__NR_getpid);
    call(__NR_kill, self, 10);
    sum += seen;
    handle(14, count, 0);
    alarm_soon();
    call(__NR_pause);
    alarm_soon();
    long time[2] = {5, 0};
    call(__NR_nanosleep, time, time);
    handle(14, answer, 0x10000000 /* RESTART */);
    alarm_soon();
    call(__NR_read, channel[0], words, 1);
    alarm_soon();
    // Watched by the engine, and waits with another mask.
    long set = 0, poll[1] = {(long)channel[0] | 1l << 32};
    call(__NR_ppoll, poll, 1, 0, &set, 8);
    handle(14, count, 0);
    alarm_soon();
    call(__NR_rt_sigsuspend, &set, 8);
    words[0][0] = sum;
    call(__NR_kill, self, 9);
    return 1;
}
