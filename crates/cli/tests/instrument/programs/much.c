// So much code that a small cache is full again and again, run by several threads at once while others wait in the
// kernel, with calls through pointers and a handler that interrupts it all.
#include "expect.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 4 };

typedef unsigned (*function)(unsigned);

#define ONE(n)                                                                                                         \
    KEEP unsigned f##n(unsigned x) {                                                                                   \
        for (unsigned i = 0; i < 3; i++) x = x & 1 ? x * 3 + 1##n##u : x / 2 + i;                                      \
        return x % 7 == 3 ? x ^ 1##n##u : x;                                                                           \
    }
#define TEN(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define HUNDRED(m, n)                                                                                                  \
    TEN(m, n##0) TEN(m, n##1) TEN(m, n##2) TEN(m, n##3) TEN(m, n##4) TEN(m, n##5) TEN(m, n##6) TEN(m, n##7)            \
    TEN(m, n##8) TEN(m, n##9)
#define ALL(m)                                                                                                         \
    HUNDRED(m, 0) HUNDRED(m, 1) HUNDRED(m, 2) HUNDRED(m, 3) HUNDRED(m, 4) HUNDRED(m, 5) HUNDRED(m, 6) HUNDRED(m, 7)    \
    HUNDRED(m, 8) HUNDRED(m, 9) HUNDRED(m, 10) HUNDRED(m, 11) HUNDRED(m, 12) HUNDRED(m, 13) HUNDRED(m, 14)             \
    HUNDRED(m, 15) HUNDRED(m, 16) HUNDRED(m, 17) HUNDRED(m, 18) HUNDRED(m, 19)
#define NAME(n) f##n,

ALL(ONE)
static const function all[] = {ALL(NAME)};
enum { FUNCTIONS = sizeof all / sizeof *all };

static int ends[2];
static volatile unsigned ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

KEEP unsigned waits(void) {
    char byte;
    return read(ends[0], &byte, 1) == 1;
}

static void *wait_for_it(void *unused) {
    (void)unused;
    return waits() ? 0 : &ends;
}

KEEP unsigned work(unsigned x) {
    for (unsigned i = 0; i < FUNCTIONS; i++) x = all[i](x);
    return x;
}

static void *run(void *x) {
    unsigned sum = (unsigned)(size_t)x;
    for (unsigned i = 0; i < ROUNDS; i++) sum = work(sum);
    return (void *)(size_t)sum;
}

int main(void) {
    pthread_t waiting, threads[THREADS];
    struct itimerval often = {{0, 3000}, {0, 3000}};
    if (pipe(ends)) return 1;
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &often, 0);
    pthread_create(&waiting, 0, wait_for_it, 0);
    for (size_t i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, (void *)(i * 1000));
    unsigned total = 0;
    for (int i = 0; i < THREADS; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        total += (unsigned)(size_t)sum;
    }
    while (write(ends[1], "x", 1) != 1) {}
    void *failed;
    pthread_join(waiting, &failed);
    printf("%u %d\n", total, failed != 0);
    EXPECT_ENTRIES(work, THREADS * ROUNDS);
    EXPECT_ENTRIES(waits, 1);
    EXPECT_ENTRIES(f000, THREADS * ROUNDS);
    EXPECT_ENTRIES(f1999, THREADS * ROUNDS);
    EXPECT_CALLS(work, f1234, THREADS * ROUNDS);
    return 0;
}
