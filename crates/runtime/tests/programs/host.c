// host WHAT: an executable with a library that counts too.
#define _GNU_SOURCE
#include "relive.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/wait.h>

static void (*library_work)(int);
static void (*library_thread)(void);
static void *handle;
static sem_t loaded, ready;

static void load(void) {
    handle = dlopen("./library.so", RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    library_work = (void (*)(int))dlsym(handle, "library_work");
    library_thread = (void (*)(void))dlsym(handle, "library_thread");
}

static __attribute__((noinline)) void work(int n) {
    GATE();
    for (int i = 0; i < n; i++) COUNT(1);
}

static void *before(void *arg) {
    work(1000);
    sem_post(&ready);
    sem_wait(&loaded);
    for (int i = 0; i < 1000; i++) {
        library_work(1);
        work(1);
    }
    return arg;
}

static void *after(void *arg) {
    for (int i = 0; i < 1000; i++) {
        library_work(1);
        work(1);
    }
    return arg;
}

static int descriptors(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

#ifdef EARLY
// Runs before the entry of the executable, and even before its libraries are initialised.
static void early(void) {
    GATE();
    for (int i = 0; i < 3; i++) {
        COUNT(5);
        CALL(8, early);
        CALL(8, work);
    }
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = early;
#endif

int main(int argc, char **argv) {
    work(1);
    if (!strcmp(argv[1], "threads")) {
        pthread_t old[4], new[4];
        for (int i = 0; i < 4; i++) {
            pthread_create(&old[i], NULL, before, NULL);
            sem_wait(&ready);
        }
        load();
        for (int i = 0; i < 4; i++) sem_post(&loaded);
        for (int i = 0; i < 4; i++) pthread_create(&new[i], NULL, after, NULL);
        library_work(1);
        for (int i = 0; i < 4; i++) pthread_join(old[i], NULL), pthread_join(new[i], NULL);
        library_thread();
    } else if (!strcmp(argv[1], "fork")) {
        load();
        library_work(10);
        if (fork() == 0) {
            library_work(100);
            work(100);
            if (fork() == 0) after(NULL);
            else wait(NULL);
            _exit(0);
        }
        library_work(10);
        work(9);
        wait(NULL);
    } else if (!strcmp(argv[1], "unload")) {
        int open = 0;
        pthread_t id;
        for (int i = 0; i < 20; i++) {
            load();
            library_work(10);
            pthread_create(&id, NULL, after, NULL);
            pthread_join(id, NULL);
            dlclose(handle);
            if (i == 1) open = descriptors();
            if (i == 10 && fork() == 0) {
                work(1000);
                load();
                library_work(7);
                _exit(0);
            }
        }
        wait(NULL);
        if (open != descriptors()) return 1;
    }
    return 0;
}
