/* Linked statically: the C library is a part of the program, and does what it does to its own data. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int counter, over;

static void *work(void *arg) {
    char *text = malloc(100);
    for (int i = 0; i < 100; i++) {
        snprintf(text, 100, "%d %s", i, (char *)arg);
        pthread_mutex_lock(&lock);
        counter += strlen(text) > 0;
        pthread_mutex_unlock(&lock);
    }
    printf("%s", text[0] ? "" : "nothing");
    free(text);
    pthread_mutex_lock(&lock);
    over++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, work, "a");
    pthread_create(&b, 0, work, "b");
    pthread_mutex_lock(&lock);
    while (over < 2) pthread_cond_wait(&changed, &lock);
    printf("%d\n", counter);
    pthread_mutex_unlock(&lock);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return counter != 200;
}
