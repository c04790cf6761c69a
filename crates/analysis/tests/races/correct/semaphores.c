/* Two threads hand a variable to and fro with semaphores. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <semaphore.h>
static sem_t ping, pong;
static int ball;

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < 50; i++) {
        sem_wait(&ping);
        ball++;
        sem_post(&pong);
    }
    return 0;
}

int main(void) {
    pthread_t thread;
    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 0);
    pthread_create(&thread, 0, work, 0);
    for (int i = 0; i < 50; i++) {
        ball++;
        sem_post(&ping);
        sem_wait(&pong);
    }
    pthread_join(thread, 0);
    return ball != 100;
}
