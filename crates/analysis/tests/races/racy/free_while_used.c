/* races: block
   One thread gives a block back that the other still writes to. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static int *block;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    ((volatile int *)block)[12] = 1;
    return 0;
}

static void *two(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    void *(*volatile fill)(void *, int, size_t) = memset;
    fill(block, 0, 64); /* so that nothing can be read from it */
    free(block);
    return 0;
}

int main(void) {
    pthread_t a, b;
    block = malloc(64);
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, two, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
