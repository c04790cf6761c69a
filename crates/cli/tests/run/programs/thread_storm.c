/* Threads that come and go, are cancelled in every way, change their user, are told by timers, load and unload libraries,
   and fork meanwhile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int stop;
static long cleaned, told;
static sem_t tick;

static void *sum(void *argument)
{
    long n = (long)argument, all = 0;
    for (long i = 0; i < n; i++)
        all += i * i;
    return (void *)all;
}

static void *spin(void *argument)
{
    volatile unsigned long n = 0;
    while (!stop)
        n++;
    return 0;
}

static void clean(void *argument) { __atomic_add_fetch(&cleaned, 1, __ATOMIC_RELAXED); }

static void *waits(void *argument)
{
    int ends[2];
    char byte;
    pthread_cleanup_push(clean, 0);
    if (!pipe(ends) && read(ends[0], &byte, 1))
        puts("never");
    pthread_cleanup_pop(0);
    return 0;
}

static void *computes(void *argument)
{
    volatile unsigned long n = 0;
    pthread_cleanup_push(clean, 0);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    sem_post(argument);
    for (;;)
        n++;
    pthread_cleanup_pop(0);
    return 0;
}

static void *tests(void *argument)
{
    pthread_cleanup_push(clean, 0);
    for (;;) {
        sum((void *)100);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return 0;
}

static void *library(void *argument)
{
    long n = 0;
    for (int i = 0; i < 30; i++) {
        void *handle = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        double (*f)(double) = handle ? (double (*)(double))dlsym(handle, "cbrt") : 0;
        n += f ? (long)(f(27.0) + 0.5) : 0;
        if (handle)
            dlclose(handle);
    }
    return (void *)n;
}

static void *identity(void *argument)
{
    long wrong = 0;
    for (int i = 0; i < 40; i++)
        wrong += setuid(getuid()) != 0 || setgid(getgid()) != 0;
    return (void *)wrong;
}

static void on_time(union sigval value)
{
    __atomic_add_fetch(&told, value.sival_int, __ATOMIC_RELAXED);
    sem_post(&tick);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int round = 0; round < rounds; round++) {
        pthread_t some[16], busy[2];
        long all = 0;
        void *result;
        stop = 0;
        cleaned = told = 0;
        for (int i = 0; i < 2; i++)
            pthread_create(&busy[i], 0, spin, 0);
        for (int i = 0; i < 20; i++) {
            for (long j = 0; j < 16; j++)
                if (pthread_create(&some[j], 0, sum, (void *)(j * 100)))
                    puts("no thread");
            for (int j = 0; j < 16; j++) {
                pthread_join(some[j], &result);
                all += (long)result;
            }
        }
        printf("sum %ld\n", all);

        sem_t begun;
        sem_init(&begun, 0, 0);
        for (int i = 0; i < 12; i++)
            pthread_create(&some[i], 0, i % 3 == 0 ? waits : i % 3 == 1 ? computes : tests, &begun);
        for (int i = 0; i < 4; i++)
            sem_wait(&begun);
        int cancelled = 0;
        for (int i = 0; i < 12; i++)
            pthread_cancel(some[i]);
        for (int i = 0; i < 12; i++) {
            pthread_join(some[i], &result);
            cancelled += result == PTHREAD_CANCELED;
        }
        printf("cancelled %d cleaned %ld\n", cancelled, cleaned > 6 ? 12L : cleaned);

        pthread_create(&some[0], 0, library, 0);
        pthread_create(&some[1], 0, library, 0);
        pthread_create(&some[2], 0, identity, 0);
        int children = 0;
        for (int i = 0; i < 6; i++) {
            pid_t child = fork();
            if (!child)
                _exit((int)(long)sum((void *)50) % 100);
            int status;
            waitpid(child, &status, 0);
            children += WEXITSTATUS(status);
        }
        printf("children %d", children);
        for (int i = 0; i < 3; i++) {
            pthread_join(some[i], &result);
            printf(" %ld", (long)result);
        }
        puts("");

        sem_init(&tick, 0, 0);
        struct sigevent event;
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_THREAD;
        event.sigev_notify_function = on_time;
        event.sigev_value.sival_int = 3;
        timer_t timer;
        struct itimerspec every = {{0, 1000000}, {0, 1000000}};
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &every, 0);
        for (int i = 0; i < 5; i++)
            sem_wait(&tick);
        timer_delete(timer);
        printf("told %d\n", told >= 15);

        stop = 1;
        for (int i = 0; i < 2; i++)
            pthread_join(busy[i], 0);
    }
    return 0;
}
