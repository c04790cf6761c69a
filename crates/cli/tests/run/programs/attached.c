/* Does many things at the same time until its input ends, and checks all of them: nothing may tell it that it is being
   measured, or that it is not any more. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int over;
static volatile sig_atomic_t alarms;

static void fail(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vfprintf(stderr, format, rest);
    fprintf(stderr, " (errno %d)\n", errno);
    _exit(9);
}
#define CHECK(what) do { if (!(what)) fail("line %d: %s", __LINE__, #what); } while (0)

/* Signals are for the threads that ask for them. */
static void quiet(void) {
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
}

__attribute__((noinline)) uint64_t recurse(uint64_t n) { return n < 2 ? n : recurse(n - 1) + recurse(n - 2); }
__attribute__((noinline)) static uint64_t twice(uint64_t n) { return 2 * n; }
__attribute__((noinline)) static uint64_t more(uint64_t n) { return n + 3; }
static uint64_t (*volatile pick[])(uint64_t) = {twice, more, recurse};

static void *compute(void *unused) {
    quiet();
    do {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < 300; i++) sum += pick[i % 3](i % 16);
        CHECK(sum == 12210);
    } while (!over);
    return unused;
}

/* Values in registers of all kinds, for long enough to be stopped among them. */
static void *vectors(void *unused) {
    quiet();
    while (!over) {
        double a = 1, b = 2, c = 3, d = 4;
        long double x = 1;
        for (int i = 0; i < 50000; i++) {
            __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d));
            a += 1, b += a, c += 0.5, d -= 0.25, x += 1;
        }
        CHECK(a == 50001 && b == 1250075002.0 && c == 25003 && d == -12496 && x == 50001);
    }
    return unused;
}

static void *talk(void *unused) {
    quiet();
    int ends[2], back[2];
    CHECK(pipe(ends) == 0 && pipe(back) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int n;
        close(ends[1]);
        while (read(ends[0], &n, sizeof n) == sizeof n) {
            usleep(500);
            n++;
            CHECK(write(back[1], &n, sizeof n) == sizeof n);
        }
        _exit(5);
    }
    close(ends[0]);
    for (int n = 0, got; !over; n++) {
        CHECK(write(ends[1], &n, sizeof n) == sizeof n && read(back[0], &got, sizeof got) == sizeof got);
        CHECK(got == n + 1);
    }
    close(ends[1]);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    return unused;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* What waits and is not told by a signal never says that it was. */
static void *sleeper(void *unused) {
    quiet();
    int epoll = epoll_create1(0), ends[2];
    CHECK(pipe(ends) == 0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    while (!over) {
        double start = now();
        struct timespec time = {0, 30000000};
        CHECK(nanosleep(&time, NULL) == 0);
        CHECK(now() - start >= 0.03);
        CHECK(epoll_wait(epoll, &event, 1, 30) == 0);
        struct pollfd poll_it = {.fd = ends[0], .events = POLLIN};
        CHECK(poll(&poll_it, 1, 30) == 0);
        struct timeval most = {0, 30000};
        CHECK(select(0, NULL, NULL, NULL, &most) == 0);
        sigset_t none;
        sigemptyset(&none);
        sigaddset(&none, SIGRTMIN + 3);
        CHECK(sigtimedwait(&none, NULL, &time) == -1 && errno == EAGAIN);
        sigfillset(&none);
        CHECK(ppoll(&poll_it, 1, &time, &none) == 0);
    }
    return unused;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int whose;

static void *turns(void *mine) {
    quiet();
    long me = (long)mine;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (!over) {
        while (whose != me && !over) CHECK(pthread_cond_wait(&turn, &mutex) == 0);
        whose = !me;
        CHECK(pthread_cond_broadcast(&turn) == 0);
    }
    pthread_cond_broadcast(&turn);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *brief(void *number) { return (void *)((long)number * 3); }

static void *starter(void *unused) {
    quiet();
    for (long n = 1; !over; n++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, brief, (void *)n) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == (void *)(n * 3));
        if (n % 16 == 0) {
            pid_t child = fork();
            if (child == 0) _exit((int)recurse(10) & 0x7f);
            int status;
            CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 55);
        }
        if (n % 64 == 0) CHECK(system("exit 7") == 7 << 8);
        usleep(300);
    }
    return unused;
}

/* Code that is written anew while it is used. */
static void *generator(void *unused) {
    quiet();
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (uint32_t n = 1; !over; n++) {
        uint8_t code[] = {0xb8, 0, 0, 0, 0, 0xc3};
        memcpy(code + 1, &n, 4);
        memcpy(page, code, sizeof code);
        uint32_t (*call)(void) = (uint32_t (*)(void))page;
        for (int i = 0; i < 100; i++) CHECK(call() == n);
        usleep(200);
    }
    return unused;
}

static __thread char *stack;
static void on_alarm(int number, siginfo_t *info, void *context) {
    char here;
    int saved = errno;
    CHECK(number == SIGALRM && info->si_signo == SIGALRM && context);
    CHECK(stack == NULL || (&here > stack && &here < stack + 65536));
    sigset_t set;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0);
    CHECK(sigismember(&set, SIGALRM) && sigismember(&set, SIGUSR2));
    recurse(5);
    alarms++;
    errno = saved;
}

static volatile sig_atomic_t faults;
static void on_fault(int number, siginfo_t *info, void *context) {
    ucontext_t *state = context;
    CHECK(number == SIGSEGV && info->si_addr == (void *)16);
    state->uc_mcontext.gregs[REG_RIP] += state->uc_mcontext.gregs[REG_RBX];
    faults++;
}

static pthread_t waiter_thread;
static volatile sig_atomic_t told;
static sem_t answered;
static void on_told(int number) {
    CHECK(number == SIGUSR1);
    told++;
}

/* One signal at a time: none may be lost, or the other waits for ever. */
static volatile int last;
static void *waiter(void *unused) {
    sigset_t all, but_one;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    but_one = all;
    sigdelset(&but_one, SIGUSR1);
    while (!last) {
        CHECK(sigsuspend(&but_one) == -1 && errno == EINTR);
        sigset_t now_set;
        pthread_sigmask(SIG_BLOCK, NULL, &now_set);
        CHECK(sigismember(&now_set, SIGUSR1) && sigismember(&now_set, SIGSEGV) && sigismember(&now_set, SIGTRAP));
        sem_post(&answered);
    }
    return unused;
}

static void *teller(void *unused) {
    quiet();
    for (int n = 1; !over; n++) {
        CHECK(pthread_kill(waiter_thread, SIGUSR1) == 0);
        while (sem_wait(&answered) != 0) CHECK(errno == EINTR);
        CHECK(told == n);
        usleep(n % 8 * 300);
    }
    last = 1;
    pthread_kill(waiter_thread, SIGUSR1);
    return unused;
}

int main(void) {
    stack = malloc(65536);
    stack_t alternate = {.ss_sp = stack, .ss_size = 65536};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    struct sigaction action = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &fault, NULL) == 0);
    struct sigaction tell = {.sa_handler = on_told};
    CHECK(sigaction(SIGUSR1, &tell, NULL) == 0);
    CHECK(signal(SIGTRAP, SIG_IGN) == SIG_DFL);
    sem_init(&answered, 0, 0);

    void *(*all[])(void *) = {compute, vectors, talk, sleeper, turns, turns, starter, generator, waiter, teller};
    enum { N = sizeof all / sizeof *all };
    pthread_t threads[N];
    int turn_number = 0;
    /* No thread may be told before it is ready for that. */
    quiet();
    for (int i = 0; i < N; i++) {
        long argument = all[i] == turns ? turn_number++ : 0;
        CHECK(pthread_create(&threads[i], NULL, all[i], (void *)argument) == 0);
        if (all[i] == waiter) waiter_thread = threads[i];
    }
    sigset_t none;
    sigemptyset(&none);
    CHECK(pthread_sigmask(SIG_SETMASK, &none, NULL) == 0);
    struct itimerval timer = {{0, 1500}, {0, 1500}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    puts("ready");
    fflush(stdout);
    uint64_t rounds = 0;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (;;) {
        int before = faults;
        /* An access to address 16, over which the handler leads. */
        __asm__ volatile("lea 1f(%%rip), %%rbx\n lea 2f(%%rip), %%rcx\n sub %%rbx, %%rcx\n mov %%rcx, %%rbx\n"
                         "mov $16, %%ecx\n 1: mov (%%rcx), %%rax\n 2:" ::: "rax", "rbx", "rcx", "memory");
        CHECK(faults == before + 1);
        stack_t found;
        CHECK(sigaltstack(NULL, &found) == 0 && found.ss_sp == stack && found.ss_size == 65536 && found.ss_flags == 0);
        struct sigaction known;
        CHECK(sigaction(SIGALRM, NULL, &known) == 0 && known.sa_sigaction == on_alarm);
        CHECK((known.sa_flags & 0xf8ffffff) == (SA_SIGINFO | SA_ONSTACK | SA_RESTART) && sigismember(&known.sa_mask, SIGUSR2));
        CHECK(sigaction(SIGTRAP, NULL, &known) == 0 && known.sa_handler == SIG_IGN);
        sigset_t set;
        CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && !sigismember(&set, SIGSEGV) && !sigismember(&set, SIGALRM));
        char *text = malloc(100);
        snprintf(text, 100, "%.3f %s", 1.5, "text");
        CHECK(strcmp(text, "1.500 text") == 0);
        free(text);
        rounds++;
        if (poll(&input, 1, 1) == 1 && alarms > 0) break;
    }
    over = 1;
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&turn);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < N; i++) {
        if (all[i] == waiter) continue;
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(alarms > 0 && rounds > 0);
    puts("fine");
    return 0;
}
