/* A program with a `gs` of its own: every kind of instruction that goes through it, sets it or reads it, with faults and
   signals meanwhile, in threads and children. */
#define _GNU_SOURCE
#include "../../instrument/programs/expect.h"
#include <asm/prctl.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static uint64_t area[64] __attribute__((aligned(64)));
static sigjmp_buf out;
static volatile long ticks;
static void *fault;
static uint64_t registers[8];

static void tick(int number) { ticks++; }

static void jump_out(int number, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    fault = info->si_addr;
    registers[0] = state->uc_mcontext.gregs[REG_RAX];
    registers[1] = state->uc_mcontext.gregs[REG_RCX];
    registers[2] = state->uc_mcontext.gregs[REG_RSI];
    siglongjmp(out, 1);
}

static uint64_t get_base(void)
{
    uint64_t base = 1;
    return syscall(SYS_arch_prctl, ARCH_GET_GS, &base) ? ~0ul : base;
}

KEEP static int five(void) { return 5; }

KEEP static uint64_t every_kind(void)
{
    uint64_t sum = 0, value = 3, other = 2;
    uint32_t small = 0;
    for (int i = 0; i < 64; i++)
        area[i] = i * 0x0101;
    area[40] = (uint64_t)five;
    __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
    sum = sum * 3 + value;
    __asm__ volatile("mov %%gs:(,%1,8), %0" : "=r"(value) : "r"(other));
    sum = sum * 3 + value;
    __asm__ volatile("mov %%gs:16(%1,%2,4), %k0" : "=r"(value) : "r"(8ul), "r"(2ul));
    sum = sum * 3 + value;
    __asm__ volatile("addr32 mov %%gs:8(%k1), %0" : "=r"(value) : "r"(0x100000010ul));
    sum = sum * 3 + value;
    __asm__ volatile("movabs %%gs:0x18, %%rax" : "=a"(value));
    sum = sum * 3 + value;
    __asm__ volatile("movabs %%al, %%gs:0x20" : : "a"(0x77));
    __asm__ volatile("stc; adcq $1, %%gs:0x28; setc %b0; lock incq %%gs:0x30" : "+r"(small) : : "cc", "memory");
    sum = sum * 3 + area[4] + area[5] + area[6] + small;
    __asm__ volatile("xchg %0, %%gs:0x38; movzbl %%gs:0x41, %k1; bts $7, %%gs:0x48; imul $3, %%gs:0x50, %1"
                     : "+r"(value), "+r"(other)
                     :
                     : "cc", "memory");
    sum = sum * 3 + value + other + area[7] + area[9];
    __asm__ volatile("pushq %%gs:0x58; popq %%gs:0x60; pushq %%gs:0x60; pop %0" : "=r"(value) : : "memory");
    sum = sum * 3 + value;
    uint64_t a = area[8], d = area[9], ok = 0;
    __asm__ volatile("lock cmpxchg16b %%gs:0x40; setz %b2" : "+a"(a), "+d"(d), "+r"(ok) : "b"(1ul), "c"(2ul) : "cc", "memory");
    sum = sum * 3 + ok + area[8] + area[9];
    __asm__ volatile("movups %%gs:0x80, %%xmm1; paddq %%gs:0x90, %%xmm1; movq %%xmm1, %0" : "=r"(value) : : "xmm1");
    sum = sum * 3 + value;
    if (__builtin_cpu_supports("avx2")) {
        __asm__ volatile("vmovdqu %%gs:0x80, %%ymm2; vpaddq %%gs:16(%1), %%ymm2, %%ymm2; vmovq %%xmm2, %0; vzeroupper"
                         : "=r"(value)
                         : "r"(0x90ul)
                         : "xmm2");
        sum = sum * 3 + value;
    }
    if (__builtin_cpu_supports("avx512f")) {
        __asm__ volatile("vpaddq %%gs:64(%1), %%zmm17, %%zmm17; vmovdqu64 %%gs:0x80, %%zmm17; vpaddq %%gs:64(%1), %%zmm17, "
                         "%%zmm17; vmovq %%xmm17, %0; vzeroupper"
                         : "=r"(value)
                         : "r"(0x40ul)
                         : "memory");
        sum = sum * 3 + value;
    }
    char copy[64];
    uint64_t from = 0x100, count = 40;
    void *to = copy;
    __asm__ volatile("rep movsb %%gs:(%%rsi), (%%rdi)" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
    sum = sum * 3 + copy[9] + from + count;
    from = 0x108;
    __asm__ volatile("lodsq %%gs:(%%rsi), %%rax" : "=a"(value), "+S"(from));
    sum = sum * 3 + value + from;
    __asm__ volatile("xlatb %%gs:(%%rbx)" : "=a"(value) : "a"(8ul), "b"(0x100ul));
    sum = sum * 3 + (value & 0xff);
    __asm__ volatile("sub $128, %%rsp; call *%%gs:0x140; add $128, %%rsp" : "=a"(value) : : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
    sum = sum * 3 + (int)value;
    __asm__ volatile("lea 1f(%%rip), %%rax; mov %%rax, %%gs:0x148; mov $0x140, %%eax; jmp *%%gs:8(%%rax); ud2; 1:" : : : "rax", "memory");
    return sum;
}

static void *in_thread(void *argument)
{
    uint64_t first = get_base();
    syscall(SYS_arch_prctl, ARCH_SET_GS, argument);
    uint64_t value;
    __asm__ volatile("mov %%gs:8, %0" : "=r"(value));
    return (void *)(value + (first == (uint64_t)area));
}

int main(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = jump_out;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);

    printf("nothing %lx\n", get_base());
    if (!sigsetjmp(out, 1))
        __asm__ volatile("mov $5, %%eax; mov $6, %%ecx; mov %%gs:0x10(%%rcx), %%rsi" : : : "rax", "rcx", "rsi");
    else
        printf("fault %p, %lx %lx\n", fault, registers[0], registers[1]);

    long result = syscall(SYS_arch_prctl, ARCH_SET_GS, area);
    printf("set %ld %lx\n", result, get_base() - (uint64_t)area);
    printf("kinds %lx\n", every_kind());
    result = syscall(SYS_arch_prctl, ARCH_SET_GS, ~0ul);
    printf("wrong %ld %d\n", result, errno);
    result = syscall(SYS_arch_prctl, ARCH_GET_GS, 8);
    printf("wrong %ld %d\n", result, errno);
    if (!sigsetjmp(out, 1))
        __asm__ volatile("mov $5, %%eax; mov $6, %%ecx; mov $-1, %%rsi; shl $60, %%rsi; mov %%gs:(%%rsi), %%al" : : : "rax", "rcx", "rsi", "cc");
    else
        printf("fault %p, %lx %lx\n", fault, registers[0], registers[1]);
    if (!sigsetjmp(out, 1))
        __asm__ volatile("mov $5, %%eax; mov $6, %%ecx; mov $0x8000000000, %%rsi; rep lodsb %%gs:(%%rsi), %%al" : : : "rax", "rcx", "rsi", "cc");
    else
        printf("string fault %d, %lx %lx %lx\n", fault == (char *)area + 0x8000000000, registers[0], registers[1], registers[2]);

    if (getauxval(AT_HWCAP2) & 2) {
        uint64_t base;
        uint32_t low;
        __asm__ volatile("rdgsbase %0; rdgsbase %k1" : "=r"(base), "=r"(low));
        printf("read %d %d\n", base == (uint64_t)area, low == (uint32_t)(uint64_t)area);
        __asm__ volatile("wrgsbase %0; mov %%gs:8, %0" : "+r"(base) : : "memory");
        __asm__ volatile("wrgsbase %k0; rdgsbase %0" : "+r"(base));
        printf("written %lx\n", base);
        __asm__ volatile("wrgsbase %0" : : "r"(area));
    }
    uint16_t selector = 7;
    __asm__ volatile("mov %%gs, %0" : "=r"(selector));
    printf("selector %x\n", selector);

    action.sa_handler = tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    struct itimerval fast = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    uint64_t expected = every_kind();
    long wrong = 0;
    setitimer(ITIMER_REAL, &fast, 0);
    for (int i = 0; i < 20000; i++)
        wrong += every_kind() != expected;
    setitimer(ITIMER_REAL, &off, 0);
    printf("under signals %ld\n", wrong);

    pthread_t threads[3];
    static uint64_t other[3][8];
    for (int i = 0; i < 3; i++) {
        other[i][1] = i * 10;
        pthread_create(&threads[i], 0, in_thread, other[i]);
    }
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("thread %ld\n", (long)result);
    }
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(get_base() == (uint64_t)area ? 3 : 4);
    int status;
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    EXPECT_ENTRIES(every_kind, 20002);
    EXPECT_ENTRIES(five, 20002);
    return 0;
}
