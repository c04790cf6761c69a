/* Two threads hand an array to and fro, with nothing but plain moves in between. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int data[4];
static atomic_int turn;

static void play(int me) {
    for (int i = 0; i < 20; i++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != me) usleep(10);
        for (int j = 0; j < 4; j++) data[j]++;
        atomic_store_explicit(&turn, 1 - me, memory_order_release);
    }
}

static void *work(void *arg) {
    (void)arg;
    play(1);
    return 0;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    play(0);
    pthread_join(thread, 0);
    return data[3] != 40;
}
