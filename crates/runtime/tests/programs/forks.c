// forks [depth|gate|kill|closed|chroot|thread]: parents count in 1, children in 2, before any gate.
#define _GNU_SOURCE
#include "relive.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void gate(void) { GATE(); }

static void child(int n) {
    for (int i = 0; i < n; i++) COUNT(2);
}

static void *thread(void *arg) {
    gate();
    for (int i = 0; i < 100; i++) COUNT(1);
    if (fork() == 0) {
        child(100);
        _exit(0);
    }
    for (int i = 0; i < 100; i++) COUNT(1);
    wait(NULL);
    return arg;
}

static void *plain_thread(void *arg) {
    gate();
    for (int i = 0; i < 100; i++) COUNT(1);
    return arg;
}

int main(int argc, char **argv) {
    gate();
    if (!strcmp(argv[1], "depth")) {
        // Four processes, each the child of the one before.
        int pid, n = 0;
        while (n < 3 && (pid = fork()) == 0) n++;
        for (int i = 0; i < 1000; i++) COUNT(1);
        if (n) child(10);
        if (n < 3) wait(NULL);
    } else if (!strcmp(argv[1], "gate")) {
        // The C library does not know of this fork, but the gate notices.
        if (syscall(SYS_fork) == 0) {
            gate();
            child(100000);
            _exit(0);
        }
        for (int i = 0; i < 100000; i++) COUNT(1);
        wait(NULL);
    } else if (!strcmp(argv[1], "kill")) {
        int pid = fork();
        if (pid == 0) {
            child(500);
            kill(getpid(), SIGKILL);
        }
        wait(NULL);
        COUNT(1);
    } else if (!strcmp(argv[1], "closed")) {
        for (int fd = 3; fd < 2000; fd++) close(fd);
        if (argc > 2) pause_here();
        if (chdir("/")) return 1;
        if (fork() == 0) {
            child(30);
            _exit(0);
        }
        wait(NULL);
        COUNT(1);
    } else if (!strcmp(argv[1], "chroot")) {
        if (chroot(argv[2]) || chdir("/")) return 1;
        int ready[2], done[2];
        char c = 0;
        if (pipe(ready) || pipe(done)) return 1;
        if (fork() == 0) {
            child(30);
            pthread_t id;
            pthread_create(&id, NULL, plain_thread, NULL);
            pthread_join(id, NULL);
            if (write(ready[1], &c, 1) != 1 || read(done[0], &c, 1) != 1) _exit(1);
            child(30);
            _exit(0);
        }
        if (read(ready[0], &c, 1) != 1) return 1;
        pthread_t id;
        pthread_create(&id, NULL, plain_thread, NULL);
        pthread_join(id, NULL);
        for (int i = 0; i < 10; i++) COUNT(1);
        if (write(done[1], &c, 1) != 1) return 1;
        wait(NULL);
    } else if (!strcmp(argv[1], "thread")) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, thread, NULL);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    }
    return 0;
}
