/* Signals of every kind: in loops that never call the kernel, faults whose handlers repair the cause or the registers,
   jumps out of handlers, nested ones, another stack, queues, traps, interrupted calls, and no handler any more. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int seven = 7, zero, done, ticks;
static volatile long depth;
static sigjmp_buf back;
static char *page;
static int queued[64], queue_len;

static void handle(int number, int flags, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = flags | SA_SIGINFO;
    sigaction(number, &action, 0);
}

static void tick(int number, siginfo_t *info, void *context)
{
    if (++ticks >= 20)
        done = 1;
}

static void repair(int number, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    if (info->si_addr == page) {
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
        return;
    }
    state->uc_mcontext.gregs[REG_RIP] += 2;
    state->uc_mcontext.gregs[REG_RAX] = 77;
}

static void jump_out(int number, siginfo_t *info, void *context) { siglongjmp(back, info->si_code); }

static void nest(int number, siginfo_t *info, void *context)
{
    if (++depth < 5)
        raise(SIGUSR1);
}

static void on_other_stack(int number, siginfo_t *info, void *context)
{
    stack_t now;
    sigaltstack(0, &now);
    printf("on the other stack %d\n", now.ss_flags & SS_ONSTACK);
}

static void take(int number, siginfo_t *info, void *context) { queued[queue_len++] = info->si_value.sival_int; }

static void trap(int number, siginfo_t *info, void *context) { printf("trap %d\n", info->si_code); }

static void set_timer(long first, long then)
{
    struct itimerval timer = {{0, then}, {0, first}};
    setitimer(ITIMER_REAL, &timer, 0);
}

static void divide(void)
{
    int code = sigsetjmp(back, 1);
    if (!code)
        printf("%d\n", seven / zero);
    else
        printf("division %d\n", code);
}

int main(void)
{
    unsigned long rounds = 0;
    long value;
    handle(SIGALRM, 0, tick);
    set_timer(2000, 2000);
    while (!done)
        rounds++;
    set_timer(0, 0);
    printf("ticks %d\n", rounds > 0 && ticks >= 20);

    handle(SIGSEGV, 0, repair);
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 5;
    printf("page %d\n", page[0]);
    __asm__ volatile("xor %%ecx, %%ecx; mov $1, %%eax; .byte 0x8b, 0x01" : "=a"(value) : : "rcx", "cc");
    printf("a load that was skipped %ld\n", value);

    handle(SIGFPE, SA_NODEFER, jump_out);
    divide();
    divide();
    handle(SIGUSR1, SA_NODEFER, nest);
    raise(SIGUSR1);
    printf("depth %ld\n", depth);

    static char other[65536];
    stack_t stack = {other, 0, sizeof other};
    sigaltstack(&stack, 0);
    handle(SIGUSR2, SA_ONSTACK, on_other_stack);
    raise(SIGUSR2);

    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    handle(SIGRTMIN + 1, 0, take);
    for (int i = 0; i < 10; i++)
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i});
    sigprocmask(SIG_SETMASK, &before, 0);
    for (int i = 0; i < queue_len; i++)
        printf("%d ", queued[i]);
    puts("");

    handle(SIGTRAP, 0, trap);
    __asm__ volatile("int3");

    int ends[2];
    char byte;
    if (pipe(ends))
        return 1;
    set_timer(20000, 0);
    value = read(ends[0], &byte, 1);
    printf("read %ld, interrupted %d\n", value, errno == EINTR);

    handle(SIGTERM, SA_RESETHAND, tick);
    raise(SIGTERM);
    puts("once");
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        raise(SIGTERM);
        _exit(3);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        ;
    printf("child %d\n", status);
    signal(SIGFPE, SIG_DFL);
    fflush(stdout);
    return seven / zero;
}
