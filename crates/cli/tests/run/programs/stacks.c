/* Stacks that are switched, by the library and by hand, and state that signals must not change: x87, vectors of all
   lengths, mask registers, string instructions half way; and memory from `brk`. */
#define _GNU_SOURCE
#include "../../instrument/programs/expect.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile long ticks;

__attribute__((target("avx512f,avx512bw"))) static void disturb_512(void)
{
    __asm__ volatile("vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0; vmovdqa64 %%zmm0, %%zmm17; vmovdqa64 %%zmm0, %%zmm5; "
                     "kxnorq %%k1, %%k1, %%k1; kmovq %%k1, %%k5"
                     :
                     :
                     : "xmm0", "xmm5");
}

static int has_512;

static void tick(int number, siginfo_t *info, void *context)
{
    ticks++;
    if (has_512)
        disturb_512();
    __asm__ volatile("fninit; fld1; fstp %%st(0)" ::: "memory");
    double one = ticks;
    __asm__ volatile("movsd %0, %%xmm5; movsd %0, %%xmm12" : : "m"(one) : "xmm5", "xmm12");
}

__attribute__((target("avx512f,avx512bw"))) KEEP static uint64_t with_512(int rounds)
{
    uint64_t low, mask;
    __asm__ volatile("mov $1, %%eax; vpbroadcastq %%rax, %%zmm17; vpxorq %%zmm5, %%zmm5, %%zmm5; kxorq %%k5, %%k5, %%k5\n\t"
                     "mov $0x5555, %%eax; kmovq %%rax, %%k1; mov %2, %%ecx\n"
                     "1:\tvpaddq %%zmm17, %%zmm5, %%zmm5; kxorq %%k1, %%k5, %%k5; kshiftlq $1, %%k1, %%k1; "
                     "kortestq %%k1, %%k1; jnz 2f; kmovq %%rax, %%k1\n"
                     "2:\tdec %%ecx; jnz 1b\n\t"
                     "vextracti64x2 $3, %%zmm5, %%xmm5; movq %%xmm5, %0; kmovq %%k5, %1; vzeroupper"
                     : "=&r"(low), "=&r"(mask)
                     : "r"(rounds)
                     : "rax", "rcx", "xmm5", "xmm17", "cc");
    return low * 31 + mask;
}

__attribute__((target("avx"))) KEEP static uint64_t with_256(int rounds)
{
    double lanes[4], step[4] = {1, 2, 3, 4};
    __asm__ volatile("vmovupd %1, %%ymm12; vxorpd %%ymm5, %%ymm5, %%ymm5; mov %2, %%ecx\n"
                     "1:\tvaddpd %%ymm12, %%ymm5, %%ymm5; dec %%ecx; jnz 1b; vmovupd %%ymm5, %0; vzeroupper"
                     : "=m"(lanes)
                     : "m"(step), "r"(rounds)
                     : "rcx", "xmm5", "xmm12", "cc");
    return (uint64_t)(lanes[0] + lanes[1] * 3 + lanes[2] * 5 + lanes[3] * 7);
}

/* A deep x87 stack, another precision and rounding. */
KEEP static uint64_t with_x87(int rounds)
{
    uint16_t control = 0x0e7f, old;
    double result;
    uint16_t status;
    __asm__ volatile("fnstcw %1; fldcw %3; fldz; fld1; fldpi; fldl2e; fldln2; mov %4, %%ecx\n"
                     "1:\tfadd %%st(3), %%st; fxch %%st(4); fadd %%st(1), %%st; fxch %%st(4); dec %%ecx; jnz 1b\n\t"
                     "fstp %%st(0); faddp; faddp; faddp; fnstsw %2; fstpl %0; fldcw %1"
                     : "=m"(result), "=m"(old), "=m"(status)
                     : "m"(control), "r"(rounds)
                     : "rcx", "cc", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
    uint64_t bits;
    memcpy(&bits, &result, 8);
    return bits ^ (status & 0x3f00);
}

static uint64_t strings(int rounds)
{
    static unsigned char a[1 << 16], b[1 << 16];
    uint64_t sum = 0;
    for (int i = 0; i < rounds; i++) {
        memset(a, i, sizeof a);
        void *s = a + sizeof a - 8, *d = b + sizeof b - 8;
        size_t n = sizeof a / 8;
        __asm__ volatile("std; rep movsq; cld" : "+S"(s), "+D"(d), "+c"(n) : : "memory", "cc");
        d = b;
        n = sizeof b;
        __asm__ volatile("repe scasb" : "+D"(d), "+c"(n) : "a"(i) : "memory", "cc");
        sum = sum * 3 + b[i * 77 & 0xffff] + n;
    }
    return sum;
}

static ucontext_t main_context, contexts[3];
static uint64_t trail;

KEEP static void coroutine(int number)
{
    for (int i = 0; i < 200; i++) {
        trail = trail * 5 + number;
        swapcontext(&contexts[number], &contexts[(number + 1) % 3]);
    }
}

static void library_contexts(void)
{
    for (int i = 0; i < 3; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = malloc(65536);
        contexts[i].uc_stack.ss_size = 65536;
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
    }
    swapcontext(&main_context, &contexts[0]);
}

/* By hand: saves what a call preserves and changes the stack pointer. */
void switch_to(void **from, void *to);
__asm__(".globl switch_to\n.type switch_to, @function\nswitch_to:\n\tpush %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n\t"
        "mov %rsp, (%rdi); mov %rsi, %rsp\n\t"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n\t"
        ".size switch_to, . - switch_to");

static void *here, *there;

static void other_side(void)
{
    for (int i = 0;; i++) {
        trail = trail * 7 + i;
        switch_to(&there, here);
    }
}

static void by_hand(void)
{
    char *stack = malloc(65536);
    void **top = (void **)(stack + 65536 - 16);
    *--top = 0;
    *--top = (void *)other_side;
    top -= 6;
    memset(top, 0, 48);
    there = top;
    for (int i = 0; i < 1000; i++) {
        trail = trail * 3 + i;
        switch_to(&here, there);
    }
}

static jmp_buf levels[8];

static void jumps(int depth)
{
    int value = setjmp(levels[depth]);
    trail = trail * 11 + value;
    if (value < 3 && depth < 7)
        jumps(depth + 1);
    if (depth > 0 && trail % 5 != 0)
        longjmp(levels[depth - 1], value + 1);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200000;
    has_512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    struct itimerval fast = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &fast, 0);
    for (int i = 0; i < 5; i++) {
        if (has_512)
            printf("512 %lx\n", with_512(rounds));
        if (__builtin_cpu_supports("avx"))
            printf("256 %lx\n", with_256(rounds));
        printf("x87 %lx\n", with_x87(rounds));
        printf("strings %lx\n", strings(rounds / 1000));
        library_contexts();
        by_hand();
        jumps(0);
        printf("trail %lx\n", trail);
    }
    setitimer(ITIMER_REAL, &off, 0);
    char *start = sbrk(0);
    long sum = 0;
    for (int i = 0; i < 20; i++) {
        char *at = sbrk(8192);
        memset(at, i, 8192);
        sum += at[100] + (at - start);
    }
    sbrk(-20 * 8192);
    printf("brk %ld %d\n", sum, sbrk(0) == start);
    struct {
        uint32_t words[8];
    } area __attribute__((aligned(32)));
    memset(&area, 0, sizeof area);
    /* A library may have registered one already, or there may be none: then it fails in a known way. */
    long result = syscall(334, &area, 32, 0, 0x53053053);
    printf("rseq %d\n", result == 0 || result == -1);
    /* Where there are none, there is no barrier for them either. */
    int is_none = result == -1 && errno == ENOSYS;
    int has_barrier = syscall(324, 1 << 8, 0, 0) != -1 || syscall(324, 1 << 7, 0, 0) != -1 || syscall(324, 0, 0, 0) & 3 << 7;
    printf("barrier %d\n", !(is_none && has_barrier));
    printf("ticks %d\n", ticks > 3);
    EXPECT_ENTRIES(with_x87, 5);
    EXPECT_ENTRIES(switch_to, 10000);
    EXPECT_ENTRIES(coroutine, 15);
    return 0;
}
