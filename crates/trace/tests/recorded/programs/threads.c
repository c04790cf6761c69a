// Two threads count up one number.
// threads PATH: often and at the same time, and the values that each has found are written to a file.
#include "start.h"

enum { FEW = 100, MANY = 200000, LEN = 16384 };
static int times = FEW;
static volatile int ready = 2;
static long counter, exchanged;
static long found[2][MANY];
static char stacks[2][LEN] __attribute__((aligned(16)));
static int done[2];
static long local[2][4];

__attribute__((noinline)) static void work(long number) {
    if (times == MANY) {
        __asm__ volatile("lock decl %0" : "+m"(ready)::"memory");
        while (ready) {}
    }
    for (int i = 0; i < times; i++) {
        long one = 1;
        __asm__ volatile("lock xaddq %0, %1" : "+r"(one), "+m"(counter)::"memory");
        found[number][i] = one;
        // What is relative to `fs` is the thread's own.
        __asm__ volatile("incq %%fs:8" ::: "memory");
    }
    __asm__ volatile("xchgq %%rdx, %0" : "+m"(exchanged)::"rdx", "memory");
}

__attribute__((used)) static void thread(long number) {
    work(number);
    call(__NR_write, done[1], &number, 1);
    call(__NR_exit, 0);
}

static void start(long number) {
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
    long *stack = (long *)(stacks[number] + LEN);
    *--stack = number;
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = (long)local[number];
    long result;
    __asm__ volatile("syscall\n test %%rax, %%rax\n jnz 1f\n pop %%rdi\n xor %%ebp, %%ebp\n call thread\n 1:"
                     : "=a"(result)
                     : "a"(__NR_clone), "D"(flags), "S"(stack), "d"(0), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
}

int run(int argc, char **argv) {
    char byte;
    call(__NR_pipe, done);
    if (argc == 2) times = MANY;
    start(0);
    start(1);
    call(__NR_read, done[0], &byte, 1);
    call(__NR_read, done[0], &byte, 1);
    if (argc == 2) {
        long file = call(__NR_open, argv[1], 0101, 0600);
        call(__NR_write, file, found, sizeof found);
    }
    // The others may not be quite over.
    return call(__NR_exit, 0);
}
