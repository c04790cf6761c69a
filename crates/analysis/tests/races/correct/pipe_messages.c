/* What is sent through a pipe was written before. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ends[2];
static int blocks[10][16];

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 16; j++) blocks[i][j] = i + j;
        char number = (char)i;
        if (write(ends[1], &number, 1) != 1) abort();
    }
    return 0;
}

int main(void) {
    pthread_t thread;
    int sum = 0;
    if (pipe(ends)) return 1;
    pthread_create(&thread, 0, work, 0);
    for (int i = 0; i < 10; i++) {
        char number;
        if (read(ends[0], &number, 1) != 1) return 1;
        for (int j = 0; j < 16; j++) sum += blocks[(int)number][j];
    }
    pthread_join(thread, 0);
    return sum != 1920;
}
