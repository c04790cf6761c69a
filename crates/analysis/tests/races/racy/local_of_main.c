/* races: local
   A variable on the stack of main, given to two threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;

static void *one(void *arg) {
    pthread_barrier_wait(&start);
    ++*(int *)arg;
    return 0;
}

int main(void) {
    pthread_t a, b;
    int local = 0;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, &local);
    pthread_create(&b, 0, one, &local);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return local == 0;
}
