/* Faults whose handlers look at what was interrupted and change it: registers, flags, vectors, the program counter. Jumps
   out of handlers, many times. No room on the stack. A program that goes through itself step by step. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf out;
static volatile int zero, seven = 7;
static volatile long count;
static char *page;

static void handle(int number, int flags, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = flags | SA_SIGINFO;
    sigaction(number, &action, 0);
}

/* Reads every register, and gives back others. */
static void change(int number, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    greg_t *r = state->uc_mcontext.gregs;
    struct _libc_fpstate *f = state->uc_mcontext.fpregs;
    static const unsigned char load[] = {0x8b, 0x39};
    unsigned char *at = (unsigned char *)r[REG_RIP];
    int is_known = at[0] == 0x0f || !memcmp(at, load, 2) || at[0] == 0xf4 || at[0] == 0xf7;
    printf("signal %d code %d known %d: %llx %llx %llx %llx %llx carry %lld xmm7 %x st0 %x\n", number, info->si_code,
           is_known, r[REG_RAX], r[REG_RBX], r[REG_RDX], r[REG_R8], r[REG_R15], r[REG_EFL] & 1,
           f->_xmm[7].element[1], f->_st[0].significand[3]);
    r[REG_RAX] = 0x1111;
    r[REG_RBX] = 0x2222;
    r[REG_R15] = 0x3333;
    r[REG_EFL] ^= 1;
    f->_xmm[7].element[1] = 0x4444;
    f->_st[0].significand[3] = 0xc000;
    r[REG_RIP] += at[0] == 0xf4 ? 1 : 2;
}

/* Executes two bytes (or one) that fail, with known registers, and shows them afterwards. */
#define FAIL(name, bytes)                                                                                              \
    do {                                                                                                               \
        uint64_t a = 10, b = 11, d = 0, e, f, x, carry;                                                                \
        double top;                                                                                                    \
        __asm__ volatile("mov $8, %%r8\n\tmov $15, %%r15\n\tmov $7, %%ecx\n\tmovq %%rcx, %%xmm7\n\t"                   \
                         "pshufd $0, %%xmm7, %%xmm7\n\tfld1\n\txor %%ecx, %%ecx\n\tstc\n\t" bytes                      \
                         "\n\tsetc %%cl\n\tmovzx %%cl, %%ecx\n\tmov %%rcx, %6\n\tmov %%r8, %3\n\tmov %%r15, %4\n\t"    \
                         "pshufd $1, %%xmm7, %%xmm7\n\tmovq %%xmm7, %5\n\tfstpl %7"                                    \
                         : "+a"(a), "+b"(b), "+d"(d), "=m"(e), "=m"(f), "=m"(x), "=m"(carry), "=m"(top)                \
                         :                                                                                             \
                         : "rcx", "rdi", "r8", "r15", "xmm7", "cc");                                                   \
        printf(name " %lx %lx %lx %lx %x carry %ld top %g\n", a, b, e, f, (unsigned)x, carry, top);                    \
    } while (0)

static void jump_out(int number, siginfo_t *info, void *context)
{
    count++;
    siglongjmp(out, number);
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    count++;
    if (count == 1)
        printf("trap code %d\n", info->si_code);
}

static void overflow(int number, siginfo_t *info, void *context)
{
    count++;
    siglongjmp(out, 1);
}

static int deeper(int n)
{
    volatile char room[4096];
    room[n & 4095] = (char)n;
    return deeper(n + 1) + room[n & 4095];
}

static uint64_t steps_sum;

static void on_step(int number, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    count++;
    steps_sum = steps_sum * 31 + (uint64_t)state->uc_mcontext.gregs[REG_RCX];
}

static void protect_and_go_on(int number, siginfo_t *info, void *context)
{
    count++;
    mprotect((void *)((uintptr_t)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 300;
    static char other[65536];
    stack_t stack = {other, 0, sizeof other};
    sigaltstack(&stack, 0);

    handle(SIGSEGV, SA_ONSTACK, change);
    handle(SIGFPE, 0, change);
    handle(SIGILL, 0, change);
    FAIL("load", ".byte 0x8b, 0x39");
    FAIL("divide", "xor %%edx, %%edx; .byte 0xf7, 0xf1; stc");
    FAIL("invalid", "ud2");
    FAIL("privileged", "hlt");

    handle(SIGTRAP, 0, on_trap);
    count = 0;
    for (int i = 0; i < 5; i++)
        __asm__ volatile("int3; nop; .byte 0xcd, 3");
    printf("traps %ld\n", count);

    /* Out of handlers, again and again: by a fault in the middle of a loop. */
    handle(SIGSEGV, SA_ONSTACK | SA_NODEFER, jump_out);
    handle(SIGFPE, 0, jump_out);
    handle(SIGILL, SA_NODEFER, jump_out);
    volatile int done = 0;
    count = 0;
    for (;;) {
        int number = sigsetjmp(out, 1);
        if (++done > rounds)
            break;
        if (done % 3 == 0)
            *(volatile int *)16 = 1;
        else if (done % 3 == 1)
            zero = seven / zero;
        else
            __asm__ volatile("ud2");
        printf("never %d\n", number);
    }
    printf("jumps %ld\n", count);

    /* Pages that appear when they are touched, by every kind of access. */
    page = mmap(0, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    handle(SIGSEGV, SA_ONSTACK, protect_and_go_on);
    count = 0;
    memset(page, 5, 16 * 4096);
    void *to = page + 16 * 4096, *from = page;
    size_t n = 16 * 4096;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    for (int i = 32; i < 64; i++) {
        __asm__ volatile("xor %%eax, %%eax; lock incq 40(%0); push 48(%0); pop 56(%0); movups %%xmm0, 72(%0)"
                         :
                         : "r"(page + i * 4096)
                         : "rax", "memory", "cc");
    }
    printf("pages %ld %d\n", count, page[31 * 4096]);

    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_STACK, &limit);
    handle(SIGSEGV, SA_ONSTACK, overflow);
    count = 0;
    for (volatile int i = 0; i < 5; i++)
        if (!sigsetjmp(out, 1))
            printf("%d\n", deeper(0));
    printf("overflows %ld\n", count);

    /* Step by step. */
    handle(SIGTRAP, 0, on_step);
    count = 0;
    __asm__ volatile("pushf\n\torq $0x100, (%%rsp)\n\tpopf\n\t"
                     "mov $3, %%ecx\n"
                     "1:\tpush %%rcx\n\tnop\n\tpop %%rcx\n\tcall 2f\n\tdec %%ecx\n\tjnz 1b\n\t"
                     "pushf\n\tandq $~0x100, (%%rsp)\n\tpopf\n\tnop\n\t"
                     ".subsection 1\n2:\tlea 5(%%rcx), %%rax\n\tret\n\t.previous"
                     :
                     :
                     : "rax", "rcx", "memory", "cc");
    printf("steps %ld %lx\n", count, steps_sum);
    fflush(stdout);
    signal(SIGSEGV, SIG_DFL);
    return deeper(0);
}
