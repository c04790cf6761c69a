/* A pool of threads that take tasks off a list, and one that waits for all of them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct task {
    struct task *next;
    int input, output;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct task *tasks;
static int left = 40, is_over;

static void *work(void *arg) {
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!tasks && !is_over) pthread_cond_wait(&changed, &lock);
        struct task *task = tasks;
        if (task) tasks = task->next;
        pthread_mutex_unlock(&lock);
        if (!task) return 0;
        task->output = task->input * 2;
        pthread_mutex_lock(&lock);
        if (--left == 0) pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
}

int main(void) {
    pthread_t threads[3];
    static struct task all[40];
    int sum = 0;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 40; i++) {
        all[i].input = i;
        pthread_mutex_lock(&lock);
        all[i].next = tasks;
        tasks = &all[i];
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    while (left) pthread_cond_wait(&changed, &lock);
    is_over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 40; i++) sum += all[i].output;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    return sum != 1560;
}
