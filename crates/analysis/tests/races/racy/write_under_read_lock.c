/* races: shared
   Two threads write, and both have locked for reading only. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int shared;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    pthread_rwlock_rdlock(&lock);
    pthread_barrier_wait(&start); /* both are inside */
    shared++;
    pthread_barrier_wait(&start);
    pthread_rwlock_unlock(&lock);
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, one, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
