/* races: flags
   Two bit fields in the same byte: whoever writes one writes the other. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static struct {
    unsigned ready : 1;
    unsigned done : 1;
} flags;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    flags.ready = 1;
    return 0;
}

static void *two(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    flags.done = 1;
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, two, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return !flags.ready && !flags.done;
}
