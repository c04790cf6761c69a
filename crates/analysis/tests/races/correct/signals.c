/* A thread prepares something and sends a signal; another waits for it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <signal.h>
static int prepared[8];
static pthread_t waiter;

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 8; i++) prepared[i] = i;
    pthread_kill(waiter, SIGUSR1);
    return 0;
}

int main(void) {
    sigset_t set;
    pthread_t thread;
    int number, sum = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    waiter = pthread_self();
    pthread_create(&thread, 0, work, 0);
    sigwait(&set, &number);
    for (int i = 0; i < 8; i++) sum += prepared[i];
    pthread_join(thread, 0);
    return sum != 28;
}
