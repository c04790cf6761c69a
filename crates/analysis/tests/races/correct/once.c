/* Made once, by whoever comes first. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int *table;

static void make(void) {
    table = malloc(64 * sizeof(int));
    for (int i = 0; i < 64; i++) table[i] = i * i;
}

static void *work(void *arg) {
    pthread_once(&once, make);
    return (void *)(intptr_t)table[(intptr_t)arg];
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
