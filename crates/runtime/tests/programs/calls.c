// Indirect calls: which targets a site has, and how often. An address is enough for a target.
#define _GNU_SOURCE
#include "relive.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

int main(int argc, char **argv);

static void gate(void) { GATE(); }
static char *target(int n) { return (char *)main + n; }

static void poly(int from, int to, int step) {
    for (int i = from; i != to; i += step)
        for (int n = 0; n <= i; n++) CALL(1, target(i));
}

static volatile long handled;

static void handler(int signal) {
    (void)signal;
    gate();
    handled++;
    for (int i = 0; i < 20; i++) {
        CALL(5, target((handled + i) % 100));
        CALL(6, target(handled % 7));
    }
}

static void *thread(void *arg) {
    gate();
    for (int n = 0; n < 1000; n++) CALL(7, target(n % 10));
    return arg;
}

int main(int argc, char **argv) {
    gate();
    const char *what = argv[1];
    if (!strcmp(what, "mono")) {
        for (int i = 0; i < 1000; i++) CALL(0, target(0));
    } else if (!strcmp(what, "poly")) {
        poly(0, 50, 1);
    } else if (!strcmp(what, "reverse")) {
        poly(49, -1, -1);
    } else if (!strcmp(what, "foreign")) {
        for (int i = 0; i < 5; i++) CALL(2, getpid);
        char *made = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 7; i++) CALL(2, made + i % 3);
        for (int i = 0; i < 3; i++) CALL(39, made + i);
        for (int i = 0; i < 2; i++) CALL(39, getpid);
    } else if (!strcmp(what, "hot")) {
        CALL(3, target(1));
        for (int i = 0; i < 10000; i++) CALL(3, target(2));
        for (int i = 0; i < 50000; i++) CALL(3, target(3));
        CALL(3, target(1));
        CALL(3, target(2));
    } else if (!strcmp(what, "full")) {
        for (int n = 0; n < 3; n++)
            for (int i = 0; i < 400; i++) CALL(4, target(i));
    } else if (!strcmp(what, "speed")) {
        // How long a call takes that is not the usual one: run by hand.
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < 10000000; i++) CALL(8, target(i & 7));
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%.1f ns\n", ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / 1e7);
    } else if (!strcmp(what, "signals")) {
        signal(SIGALRM, handler);
        struct itimerval often = {{0, 200}, {0, 200}};
        setitimer(ITIMER_REAL, &often, NULL);
        long n = 0;
        while (handled < 500) {
            CALL(5, target(n % 100));
            CALL(6, target(n % 7));
            n++;
        }
        struct itimerval never = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &never, NULL);
        printf("%ld\n", n + 20 * handled);
    } else if (!strcmp(what, "threads")) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, thread, NULL);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        if (fork() == 0) {
            thread(NULL);
            _exit(0);
        }
        wait(NULL);
        thread(NULL);
    }
    return 0;
}
