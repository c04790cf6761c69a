/* races: seen
   A handler of a signal, in whatever thread it runs, writes what another thread reads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <signal.h>
static pthread_barrier_t start;
static int seen;

static void handler(int number) {
    (void)number;
    seen++;
}

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    raise(SIGUSR1);
    return 0;
}

static void *two(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    return (void *)(intptr_t) * (volatile int *)&seen;
}

int main(void) {
    pthread_t a, b;
    signal(SIGUSR1, handler);
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, two, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
