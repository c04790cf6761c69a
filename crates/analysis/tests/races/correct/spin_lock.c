/* A lock of the program's own: taken by an exchange, given back by a plain store. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int lock;
static long counter;

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 50; i++) {
        while (atomic_exchange_explicit(&lock, 1, memory_order_acquire)) usleep(1);
        counter++;
        atomic_store_explicit(&lock, 0, memory_order_release);
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
