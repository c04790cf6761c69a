/* Signals as fast as they come, in loops that never call the kernel: by timers, by other threads, one handler inside
   another, on other stacks, with jumps out of them. What the loops compute, with every kind of register, must not change. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3 };

static volatile int stop;
static volatile long handled, nested, jumped;
static pid_t threads[WORKERS];
static volatile int ready;
static __thread sigjmp_buf out;
static __thread volatile int may_jump;
/* Signals that may interrupt their own handler: nobody sends more of them than a stack has room for. */
static volatile int sent[WORKERS];
static __thread volatile int *finished;
static volatile int finished_all[WORKERS];
static __thread int started;

/* Overwrites what a handler may overwrite. */
static void disturb(void)
{
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm5, %%xmm5; pcmpeqd %%xmm15, %%xmm15; fld1; fstp %%st(0); "
                     "mov $-1, %%rcx; mov $-1, %%r8; mov $-1, %%r11; cmp $5, %%rcx; std; cld"
                     :
                     :
                     : "xmm0", "xmm5", "xmm15", "rcx", "r8", "r11", "cc");
}

static void on_timer(int number, siginfo_t *info, void *context)
{
    disturb();
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
}

static void on_other(int number, siginfo_t *info, void *context)
{
    int nests = number == SIGRTMIN + 4;
    started += nests;
    disturb();
    __atomic_add_fetch(&nested, 1, __ATOMIC_RELAXED);
    if (may_jump) {
        may_jump = 0;
        __atomic_add_fetch(&jumped, 1, __ATOMIC_RELAXED);
        siglongjmp(out, 1);
    }
    *finished += nests;
}

/* Carries, overflows, parities, the x87 stack, vectors and a string instruction: all of it in flight. */
static uint64_t compute(uint64_t seed, int rounds)
{
    uint64_t a = seed, b = ~seed, c = seed * 3, count;
    static __thread char from[512], to[512];
    double x = (double)(seed & 1023), y;
    memset(from, 0, sizeof from);
    for (int i = 0; i < rounds; i++) {
        __asm__ volatile("movq %0, %%xmm3\n\t"
                         "movq %1, %%xmm9\n\t"
                         "mov $40, %3\n"
                         "1:\n\t"
                         "add %1, %0\n\t"
                         "adc %2, %1\n\t"
                         "rcl $3, %2\n\t"
                         "seto %%r9b\n\t"
                         "movzx %%r9b, %%r9d\n\t"
                         "add %%r9, %0\n\t"
                         "paddq %%xmm9, %%xmm3\n\t"
                         "dec %3\n\t"
                         "jnz 1b\n\t"
                         "movq %%xmm3, %%r9\n\t"
                         "xor %%r9, %0\n\t"
                         : "+r"(a), "+r"(b), "+r"(c), "=&r"(count)
                         :
                         : "r9", "xmm3", "xmm9", "cc");
        __asm__ volatile("fldl %1; fld1; faddp; fldl %1; fmulp; fsqrt; fstpl %0" : "=m"(y) : "m"(x));
        x = y > 1e6 ? (double)(a & 1023) : y + 1;
        from[a & 511] ^= (char)b;
        void *s = from, *d = to;
        size_t n = sizeof from;
        __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n) : : "memory");
        b ^= (uint64_t)(unsigned char)to[c & 511] << 7 ^ (uint64_t)x;
    }
    return a ^ b ^ c;
}

static uint64_t expected[WORKERS];

static void *work(void *argument)
{
    long self = (long)argument;
    stack_t stack = {malloc(65536), 0, 65536};
    sigaltstack(&stack, 0);
    finished = &finished_all[self];
    threads[self] = syscall(SYS_gettid);
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    volatile long wrong = 0;
    while (!stop) {
        wrong += compute(self + 7, 200) != expected[self];
        if (self == 0 && !sigsetjmp(out, 1)) {
            may_jump = 1;
            for (int i = 0; i < 20; i++)
                wrong += compute(self + 7, 20) == 1;
        }
        may_jump = 0;
        *finished = started;
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
    return (void *)wrong;
}

static void handle(int number, int flags, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = flags | SA_SIGINFO;
    sigaction(number, &action, 0);
}

static long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
    long duration = argc > 1 ? atol(argv[1]) : 300;
    for (long i = 0; i < WORKERS; i++)
        expected[i] = compute(i + 7, 200);
    handle(SIGALRM, SA_RESTART | SA_ONSTACK, on_timer);
    handle(SIGPROF, SA_RESTART | SA_NODEFER, on_timer);
    handle(SIGUSR1, SA_ONSTACK, on_other);
    handle(SIGRTMIN + 4, SA_ONSTACK | SA_NODEFER, on_other);
    handle(SIGUSR2, SA_RESTART, on_other);
    handle(SIGRTMIN + 3, SA_RESTART | SA_ONSTACK, on_other);
    pthread_t all[WORKERS];
    for (long i = 0; i < WORKERS; i++)
        pthread_create(&all[i], 0, work, (void *)i);
    while (ready < WORKERS)
        usleep(100);
    struct itimerval fast = {{0, 150}, {0, 150}};
    setitimer(ITIMER_REAL, &fast, 0);
    setitimer(ITIMER_PROF, &fast, 0);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR2;
    event._sigev_un._tid = threads[1];
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec every = {{0, 230000}, {0, 230000}};
    timer_settime(timer, 0, &every, 0);
    static const int numbers[] = {SIGUSR1, SIGUSR2};
    long end = milliseconds() + duration;
    for (long i = 0; milliseconds() < end; i++) {
        long to = i % WORKERS;
        syscall(SYS_tgkill, getpid(), threads[to], numbers[i / WORKERS % 2]);
        if (i % 5 == 0)
            pthread_sigqueue(all[to], SIGRTMIN + 3, (union sigval){.sival_int = (int)i});
        if (sent[to] - finished_all[to] < 5) {
            sent[to]++;
            pthread_sigqueue(all[to], SIGRTMIN + 4, (union sigval){.sival_int = (int)i});
        }
        for (volatile int pause = 0; pause < 3000; pause++)
            ;
    }
    stop = 1;
    long wrong = 0;
    for (int i = 0; i < WORKERS; i++) {
        void *result;
        pthread_join(all[i], &result);
        wrong += (long)result;
    }
    timer_delete(timer);
    memset(&fast, 0, sizeof fast);
    setitimer(ITIMER_REAL, &fast, 0);
    setitimer(ITIMER_PROF, &fast, 0);
    printf("wrong %ld, handled %d, nested %d, jumped %d\n", wrong, handled > 10, nested > 10, jumped > 0);
    return 0;
}
