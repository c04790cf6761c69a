/* What gdb looks at. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int total;

static void work(int n) { total += n; }

static void *other(void *unused) { work(5); return unused; }

int main(void) {
    work(1);
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    printf("total %d\n", total);
    fflush(stdout);
    raise(SIGUSR1);
    return 0;
}
