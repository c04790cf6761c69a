// Signal handlers that run measured code: on the usual stack, on another, in the middle of anything.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include "expect.h"

static volatile unsigned long handled, worked, sink;
KEEP unsigned helper(unsigned n) { return n * 5 + 1; }
static unsigned (*volatile pointer)(unsigned) = helper;
KEEP void on_alarm(int signal) {
    (void)signal;
    handled++;
    sink += pointer(handled);
}
KEEP unsigned work(unsigned n) {
    worked++;
    return n % 3 ? n + sink : helper(n);
}
static sigjmp_buf back;
static volatile int faults;
static char *page;
KEEP void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal;
    char here;
    faults++;
    if (info->si_addr != (void *)16) _exit(98);
    // It runs on the other stack.
    if (&here < page || &here > page + 65536) _exit(97);
    if (faults % 2) {
        siglongjmp(back, 1);
    } else {
        // Goes on with a pointer that is good: the instruction runs again.
        ucontext_t *c = context;
        for (int r = REG_R8; r <= REG_RCX; r++)
            if (r != REG_RSP && c->uc_mcontext.gregs[r] == 16) c->uc_mcontext.gregs[r] = (long)&sink;
    }
}
static unsigned long *volatile where = (unsigned long *)16;
KEEP unsigned long peek(unsigned long *where) { return *where * 3 + 1; }

int main(void) {
    signal(SIGALRM, on_alarm);
    struct itimerval every = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &every, NULL);
    unsigned sum = 0;
    unsigned long i = 0;
    for (; handled < 50; i++) sum += work(i);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    sink = sum;

    page = malloc(65536);
    stack_t stack = {.ss_sp = page, .ss_size = 65536};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    volatile int jumped = 0;
    for (volatile int i = 0; i < 10; i++) {
        if (sigsetjmp(back, 1) == 0) sink += peek(where);
        else jumped++;
    }
    printf("%d %d\n", jumped, faults);
    EXPECT_ENTRIES(on_alarm, handled);
    EXPECT_ENTRIES(work, worked);
    EXPECT_ENTRIES(on_fault, 10);
    EXPECT_ENTRIES(peek, 10);
    EXPECT_CALLS(on_alarm, helper, handled);
    return 0;
}
