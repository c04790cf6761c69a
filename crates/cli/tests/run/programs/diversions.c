/* Known work, over and over again, while signals lead elsewhere: to handlers that return, that work themselves, that fork,
   that are interrupted, or that jump out of something else. The work is always done to its end, so that each of its blocks and
   edges is executed a multiple of what one round takes, whatever happens meanwhile. Says how many rounds there were, if it is told
   how many signals to wait for. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); _exit(9); } } while (0)

static atomic_long *rounds;
static volatile sig_atomic_t may_jump, ticks;
static sigjmp_buf back;

/* Branches that go either way, loops in loops, and calls. */
__attribute__((noinline)) unsigned steps(unsigned n) {
    unsigned count = 0;
    while (n != 1) {
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
        count++;
    }
    return count;
}

static unsigned (*volatile pick[])(unsigned) = {steps, steps};

__attribute__((noinline)) unsigned choose(unsigned n) {
    switch (n % 5) {
    case 0: return n + 1;
    case 1: return n * 3;
    case 2: return n ^ 5;
    case 3: return n / 2;
    default: return n - 1;
    }
}

__attribute__((noinline)) void work(void) {
    unsigned sum = 0;
    for (unsigned n = 1; n < 40; n++) {
        if (n % 3 == 0 || n % 7 == 2) sum += pick[n % 2](n);
        else sum += choose(n);
    }
    CHECK(sum == 871);
    atomic_fetch_add(rounds, 1);
}

/* What is jumped out of. */
__attribute__((noinline)) unsigned interrupted(unsigned n) {
    unsigned sum = 0;
    for (volatile unsigned i = 0; i < n; i++) sum += i % 3 == 0 ? i : 1;
    return sum;
}

static void on_tick(int number) {
    switch (ticks++ % 5) {
    case 0: work(); break;
    case 1:
        if (ticks % 20 == 2) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                /* Some return from the handler, into what the parent is doing. */
                if (!may_jump) {
                    work();
                    _exit(0);
                }
                signal(SIGALRM, SIG_IGN);
                ticks = 1 << 20;
                return;
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
        break;
    case 2: raise(SIGUSR1); break;
    case 3:
        if (may_jump) siglongjmp(back, 1);
        break;
    default: break;
    }
    (void)number;
}

static void on_user(int number) {
    (void)number;
    work();
}

/* Until the process ends, in the middle of something. */
static void *spin(void *unused) {
    for (;;) interrupted(1000);
    return unused;
}

int main(int argc, char **argv) {
    int most = argc > 1 ? atoi(argv[1]) : 400;
    rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(rounds != MAP_FAILED);
    pid_t first = getpid();
    struct sigaction action = {.sa_handler = on_tick};
    sigaction(SIGALRM, &action, NULL);
    struct sigaction user = {.sa_handler = on_user};
    sigaction(SIGUSR1, &user, NULL);
    if (most > 0) {
        /* Signals are for the first thread. */
        pthread_t thread;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        CHECK(pthread_create(&thread, NULL, spin, NULL) == 0);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        struct itimerval timer = {{0, 300}, {0, 300}};
        CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    }
    do {
        for (int i = 0; i < 20; i++) work();
        if (sigsetjmp(back, 1) == 0) {
            may_jump = 1;
            interrupted(200000);
        }
        may_jump = 0;
    } while (ticks < most);
    if (getpid() != first) _exit(0);
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    if (argc > 1) printf("%ld\n", *rounds);
    return 0;
}
