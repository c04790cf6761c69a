/* Each phase reads what the one before has written. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t barrier;
static int grid[2][4][32];

static void *work(void *arg) {
    intptr_t me = (intptr_t)arg;
    for (int round = 0; round < 6; round++) {
        int (*from)[32] = grid[round % 2], (*to)[32] = grid[1 - round % 2];
        for (int i = 0; i < 32; i++) to[me][i] = from[(me + 1) % 4][i] + from[(me + 3) % 4][i] + 1;
        pthread_barrier_wait(&barrier);
    }
    return 0;
}

int main(void) {
    pthread_t threads[4];
    pthread_barrier_init(&barrier, 0, 4);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)(intptr_t)i);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return 0;
}
