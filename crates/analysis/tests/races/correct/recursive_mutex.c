/* A lock that its owner may take again. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock;
static long counter;

static void add(int depth) {
    pthread_mutex_lock(&lock);
    counter++;
    if (depth) add(depth - 1);
    pthread_mutex_unlock(&lock);
}

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 20; i++) add(3);
    return 0;
}

int main(void) {
    pthread_t threads[4];
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &kind);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
