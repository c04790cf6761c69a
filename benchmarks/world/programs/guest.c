/* Threads, signals and floating point, for an emulator. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;
static void tick(int signal) { (void)signal; ticks++; }
static sigjmp_buf back;
static void fault(int signal) { siglongjmp(back, signal); }
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long shared;

static void *count(void *unused) {
    for (int i = 0; i < 50000; i++) { pthread_mutex_lock(&lock); shared++; pthread_mutex_unlock(&lock); }
    return unused;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, count, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("shared %ld\n", shared);
    signal(SIGALRM, tick);
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    while (ticks < 20) {}
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGSEGV, fault);
    int faults = 0;
    for (int i = 0; i < 100; i++) { if (sigsetjmp(back, 1) == 0) *(volatile int *)0 = 1; else faults++; }
    double sum = 0;
    for (int i = 1; i < 300000; i++) sum += sin(i) / i;
    static int numbers[100000];
    for (int i = 0; i < 100000; i++) numbers[i] = (int)((i * 7919L) % 100003);
    qsort(numbers, 100000, sizeof *numbers, compare);
    printf("ticks faults %d sum %.12f sorted %d\n", faults, sum, numbers[5000]);
    fflush(stdout);
    if (fork() == 0) _exit(7);
    int status;
    wait(&status);
    printf("child %d\n", WEXITSTATUS(status));
    return 3;
}
