/* races: block
   A block of the heap that two threads fill. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_barrier_t start;
static char *block;

static void *one(void *arg) {
    (void)arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < 64; i++) block[i] = (char)i;
    return 0;
}

int main(void) {
    pthread_t a, b;
    block = malloc(64);
    pthread_barrier_init(&start, 0, 2);
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, one, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    free(block);
    return 0;
}
