/* Data of each thread, on its stack, thread-local and on the heap, many threads one after the other: they get the same memory. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __thread int own[64];

static void *work(void *arg) {
    int stack[64];
    int *heap = malloc(64 * sizeof(int));
    for (int i = 0; i < 64; i++) {
        own[i] += i;
        stack[i] = own[i] + (int)(intptr_t)arg;
        heap[i] = stack[i];
    }
    int last = heap[63];
    free(heap);
    return (void *)(intptr_t)last;
}

int main(void) {
    for (int round = 0; round < 8; round++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    }
    return 0;
}
