// A library that counts in counter 2, and in 4 when it is loaded.
#include "relive.h"
#include <pthread.h>

static __attribute__((noinline)) void count(int n) {
    GATE();
    for (int i = 0; i < n; i++) COUNT(2);
}

__attribute__((constructor)) static void loaded(void) {
    GATE();
    COUNT(4);
}

void library_work(int n) {
    count(n);
    CALL(0, getpid);
    CALL(1, library_work);
}

static void *thread(void *arg) {
    count(1000);
    return arg;
}

void library_thread(void) {
    pthread_t id;
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
}
