/* A message and a flag; the flag is stored with release and loaded with acquire, by plain moves. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int message[8];
static atomic_int is_sent;

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 8; i++) message[i] = i;
    atomic_store_explicit(&is_sent, 1, memory_order_release);
    return 0;
}

int main(void) {
    pthread_t thread;
    int sum = 0;
    pthread_create(&thread, 0, work, 0);
    while (!atomic_load_explicit(&is_sent, memory_order_acquire)) {}
    for (int i = 0; i < 8; i++) sum += message[i];
    pthread_join(thread, 0);
    return sum != 28;
}
