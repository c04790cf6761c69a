/* A queue of blocks of the heap: producers, consumers, conditions. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM 4
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int *queue[ROOM];
static int first, count;
static long sums[2];

static void put(int *block) {
    pthread_mutex_lock(&lock);
    while (count == ROOM) pthread_cond_wait(&not_full, &lock);
    queue[(first + count++) % ROOM] = block;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

static int *get(void) {
    pthread_mutex_lock(&lock);
    while (count == 0) pthread_cond_wait(&not_empty, &lock);
    int *block = queue[first];
    first = (first + 1) % ROOM;
    count--;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&lock);
    return block;
}

static void *work(void *arg) {
    intptr_t me = (intptr_t)arg;
    for (int i = 0; i < 50; i++) {
        if (me < 2) {
            int *block = malloc(4 * sizeof(int));
            for (int j = 0; j < 4; j++) block[j] = i + j;
            put(block);
        } else {
            int *block = get();
            for (int j = 0; j < 4; j++) sums[me - 2] += block[j];
            free(block);
        }
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
