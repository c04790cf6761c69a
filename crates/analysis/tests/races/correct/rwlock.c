/* Many readers or one writer. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int table[16];

static void *work(void *arg) {
    int sum = 0;
    for (int i = 0; i < 50; i++) {
        if ((i + (intptr_t)arg) % 7 == 0) {
            pthread_rwlock_wrlock(&lock);
            for (int j = 0; j < 16; j++) table[j] += i;
            pthread_rwlock_unlock(&lock);
        } else {
            pthread_rwlock_rdlock(&lock);
            for (int j = 0; j < 16; j++) sum += table[j];
            pthread_rwlock_unlock(&lock);
        }
    }
    return (void *)(intptr_t)sum;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
