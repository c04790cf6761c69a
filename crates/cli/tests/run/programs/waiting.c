// For processes that are attached to: threads that wait in system calls that the engine makes for them, a program with a `gs` of its
// own, and code that is written to through a second view. Ends with its input.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) ((what) ? (void)0 : (fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #what, errno), _exit(1)))

static atomic_int stop;
static atomic_long waits[5];
static atomic_int interruptions;
static int never[2], often[2];
static sigset_t open_mask;

__attribute__((noinline)) static void count(int which) { waits[which]++; }

static void on_signal(int number) {
    (void)number;
    interruptions++;
}

static void *in_ppoll(void *unused) {
    struct timespec time = {0, 40000000};
    while (!stop) {
        struct pollfd fd = {never[0], POLLIN, 0};
        CHECK(ppoll(&fd, 1, &time, &open_mask) == 0 || errno == EINTR);
        count(0);
    }
    return unused;
}

static void *in_pselect(void *unused) {
    struct timespec time = {0, 40000000};
    while (!stop) {
        CHECK(pselect(0, NULL, NULL, NULL, &time, &open_mask) == 0 || errno == EINTR);
        count(1);
    }
    return unused;
}

static void *in_epoll(void *unused) {
    int fd = epoll_create1(0);
    while (!stop) {
        struct epoll_event event;
        CHECK(epoll_pwait(fd, &event, 1, 40, &open_mask) == 0 || errno == EINTR);
        count(2);
    }
    return unused;
}

static void *in_sigsuspend(void *unused) {
    while (!stop) {
        int before = interruptions;
        CHECK(sigsuspend(&open_mask) == -1 && errno == EINTR);
        CHECK(interruptions > before);
        sigset_t now;
        pthread_sigmask(SIG_SETMASK, NULL, &now);
        CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGSEGV) && !sigismember(&now, SIGTERM));
        count(3);
    }
    return unused;
}

static void *in_read(void *unused) {
    char byte;
    while (read(often[0], &byte, 1) == 1) {
        CHECK(byte == 'x');
        count(4);
    }
    return unused;
}

static unsigned long words[2] = {0x1234567890, 0};

static unsigned long by_gs(void) {
    unsigned long value;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(value));
    return value;
}

int main(void) {
    sigset_t closed;
    sigemptyset(&closed);
    sigaddset(&closed, SIGUSR1);
    sigaddset(&closed, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &closed, NULL);
    sigemptyset(&open_mask);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    CHECK(pipe(never) == 0 && pipe(often) == 0);
    CHECK(syscall(SYS_arch_prctl, 0x1001, words) == 0);

    int fd = memfd_create("code", 0);
    CHECK(ftruncate(fd, 4096) == 0);
    unsigned char *view = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int (*code)(void) = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    unsigned char *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static const unsigned char answer[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov eax, 0; ret
    memcpy(view, answer, sizeof answer);
    memcpy(both, answer, sizeof answer);

    void *(*const what[])(void *) = {in_ppoll, in_pselect, in_epoll, in_sigsuspend, in_read};
    pthread_t threads[5];
    for (int i = 0; i < 5; i++) CHECK(pthread_create(&threads[i], NULL, what[i], NULL) == 0);
    puts("ready");
    fflush(stdout);

    struct pollfd input = {0, POLLIN, 0};
    for (int n = 0; poll(&input, 1, 10) == 0; n = (n + 1) & 0xff) {
        CHECK(by_gs() == 0x1234567890);
        view[1] = both[1] = n;
        CHECK(code() == n && ((int (*)(void))both)() == n);
        CHECK(pthread_kill(threads[3], SIGUSR1) == 0);
        CHECK(write(often[1], "x", 1) == 1);
    }
    stop = 1;
    pthread_kill(threads[3], SIGUSR1);
    close(often[1]);
    for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 5; i++) CHECK(waits[i] > 0);
    unsigned long base = 0;
    CHECK(syscall(SYS_arch_prctl, 0x1004, &base) == 0 && base == (unsigned long)words);
    puts("fine");
    return 0;
}
