/* races: shared
   Two of three threads agree on a lock; the third does not know of it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long shared;

static void *polite(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        shared += i;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

static void *rude(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    *(volatile long *)&shared = -1;
    return 0;
}

int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&start, 0, 3);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, i < 2 ? polite : rude, 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return 0;
}
