// Indirect calls at sites that signal handlers, threads and children call through as well, all with other targets: whoever is
// interrupted between the choice of a way and the call must still get to its own target.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "expect.h"

enum { TARGETS = 8, ROUND = 600 };
typedef unsigned long (*target)(unsigned long);
#define TARGET(n) KEEP unsigned long target_##n(unsigned long x) { return x * TARGETS + n; }
TARGET(0) TARGET(1) TARGET(2) TARGET(3) TARGET(4) TARGET(5) TARGET(6) TARGET(7)
static target volatile targets[TARGETS] = {target_0, target_1, target_2, target_3,
                                           target_4, target_5, target_6, target_7};
static unsigned long called[TARGETS];

KEEP unsigned long through(target f, unsigned long x) { return f(x) + 1; }
KEEP unsigned long leap(target f, unsigned long x) { return f(x); }

static void call(unsigned n, unsigned long x) {
    if (through(targets[n], x) != x * TARGETS + n + 1) _exit(90);
    if (leap(targets[n], x) != x * TARGETS + n) _exit(91);
    __atomic_fetch_add(&called[n], 2, __ATOMIC_RELAXED);
}

// Each with a site of its own, to begin with.
#define FRESH(n) KEEP unsigned long fresh_##n(target f, unsigned long x) { return f(x) + 1; }
FRESH(0) FRESH(1) FRESH(2) FRESH(3) FRESH(4) FRESH(5) FRESH(6) FRESH(7)
static volatile unsigned current;

KEEP void call_fresh(unsigned n, unsigned long x) {
    unsigned long result = 0;
    switch (current) {
    case 0: result = fresh_0(targets[n], x); break;
    case 1: result = fresh_1(targets[n], x); break;
    case 2: result = fresh_2(targets[n], x); break;
    case 3: result = fresh_3(targets[n], x); break;
    case 4: result = fresh_4(targets[n], x); break;
    case 5: result = fresh_5(targets[n], x); break;
    case 6: result = fresh_6(targets[n], x); break;
    case 7: result = fresh_7(targets[n], x); break;
    }
    if (result != x * TARGETS + n + 1) _exit(94);
    __atomic_fetch_add(&called[n], 1, __ATOMIC_RELAXED);
}

static volatile unsigned long handled;
static volatile int forks;
static volatile pid_t self;

// Each time another target is the frequent one.
KEEP void on_alarm(int number) {
    (void)number;
    unsigned n = handled++ % TARGETS;
    for (unsigned i = 0; i < ROUND / 10; i++) call(n, i);
    if (forks > 0 && getpid() == self) {
        forks--;
        pid_t child = fork();
        if (child == 0) {
            // Goes on where it was interrupted, once it has called something else.
            for (unsigned i = 0; i < ROUND; i++) call((n + 3) % TARGETS, i);
            return;
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(92);
    }
}

// After every single instruction: one call at the same site. Now and then the target is another one.
KEEP void on_step(int number) {
    (void)number;
    unsigned n = (current + 1 + handled / 700) % TARGETS;
    call_fresh(n, handled++);
}
#define STEPS "lea -128(%%rsp), %%rsp\n pushfq\n "
#define STEPS_SET " $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp"
#define STEPS_ON() __asm__ volatile(STEPS "orq" STEPS_SET ::: "memory", "cc")
#define STEPS_OFF() __asm__ volatile(STEPS "xorq" STEPS_SET ::: "memory", "cc")

static void storm(int microseconds) {
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &every, NULL);
}

static void *work(void *first) {
    unsigned n = (unsigned)(size_t)first;
    for (unsigned i = 0; i < 50 * ROUND; i++) call(i % 7 ? n : (n + i) % TARGETS, i);
    return NULL;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int is_child = 0;
    self = getpid();
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    if (!strcmp(what, "signals")) {
        storm(100);
        for (unsigned long i = 0; handled < 400; i++) call(i / 64 % TARGETS, i);
        storm(0);
    } else if (!strcmp(what, "steps")) {
        signal(SIGTRAP, on_step);
        for (current = 0; current < TARGETS; current++) {
            // The target is usual already: nothing blocks signals, which would make the next step the last.
            for (unsigned i = 0; i < 1000; i++) call_fresh(current, i);
            STEPS_ON();
            for (unsigned i = 0; i < 40; i++) call_fresh(current, i);
            STEPS_OFF();
        }
    } else if (!strcmp(what, "forks")) {
        forks = 24;
        storm(300);
        for (unsigned long i = 0; forks > 0 && getpid() == self; i++) call(i / 64 % TARGETS, i);
        storm(0);
        is_child = getpid() != self;
        if (is_child)
            for (unsigned i = 0; i < ROUND; i++) call(i % TARGETS, i);
    } else if (!strcmp(what, "threads")) {
        storm(200);
        for (int round = 0; round < 3; round++) {
            pthread_t threads[4];
            for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)(i + round));
            for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
            pid_t child = fork();
            if (child == 0) {
                work((void *)5);
                _exit(0);
            }
            int status;
            waitpid(child, &status, 0);
            if (status != 0) return 93;
        }
        storm(0);
    } else if (!strcmp(what, "nothing")) {
        // A call of nothing fails as ever, also where a child has no usual targets yet.
        for (unsigned i = 0; i < ROUND; i++) call(i % 2, i);
        for (int again = 0; again < 2; again++) {
            pid_t child = fork();
            if (child == 0) {
                if (again) call(0, 1);
                target volatile none = NULL;
                _exit((int)through(none, 1));
            }
            int status;
            waitpid(child, &status, 0);
            printf("%d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
        }
    }
    if (is_child) return 0;
    printf("done\n");
    if (!strcmp(what, "signals") || !strcmp(what, "steps"))
        for (int n = 0; n < TARGETS; n++) printf("expect entries target_%d %lu\n", n, called[n]);
    return 0;
}
