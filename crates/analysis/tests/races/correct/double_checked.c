/* Made once; who sees that it is made takes no lock. The pointer is atomic. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *_Atomic table;

static int *get(void) {
    int *found = atomic_load_explicit(&table, memory_order_acquire);
    if (!found) {
        pthread_mutex_lock(&lock);
        found = atomic_load_explicit(&table, memory_order_relaxed);
        if (!found) {
            found = malloc(64 * sizeof(int));
            for (int i = 0; i < 64; i++) found[i] = i;
            atomic_store_explicit(&table, found, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    return found;
}

static void *work(void *arg) {
    int sum = 0;
    for (int i = 0; i < 20; i++) sum += get()[i + (intptr_t)arg];
    return (void *)(intptr_t)sum;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
