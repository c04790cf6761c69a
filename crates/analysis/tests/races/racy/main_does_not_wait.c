/* races: result
   main reads the result before it waits for the thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static int result;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    result = 42;
    return 0;
}

int main(void) {
    pthread_t a;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_barrier_wait(&start);
    int seen = *(volatile int *)&result;
    pthread_join(a, 0);
    return seen == 7;
}
