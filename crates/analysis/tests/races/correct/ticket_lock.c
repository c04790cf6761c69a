/* A lock with tickets: one number is counted up atomically, the other by plain stores. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_uint next, serving;
static int shared[4];

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 25; i++) {
        unsigned mine = atomic_fetch_add(&next, 1);
        while (atomic_load_explicit(&serving, memory_order_acquire) != mine) usleep(1);
        for (int j = 0; j < 4; j++) shared[j] += j;
        atomic_store_explicit(&serving, mine + 1, memory_order_release);
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
