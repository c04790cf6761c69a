/* races: balance
   Written under a lock, read without. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&lock);
        balance += 10;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

static void *two(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    return (void *)*(volatile long *)&balance;
}

int main(void) {
    pthread_t a, b;
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, two, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
