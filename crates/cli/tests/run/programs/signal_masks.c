/* What is blocked while a handler runs, and what its frame says was blocked before: after calls that wait with another
   mask, with and without `SA_NODEFER`, on other stacks, from queues; and calls that are given wrong addresses. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static sigset_t in_handler, in_frame;
static volatile sig_atomic_t hits, order[64], queue[256], queue_len;

static void show(const char *what, const sigset_t *set)
{
    printf("%s:", what);
    for (int i = 1; i <= 64; i++)
        if (i != 32 && i != 33 && sigismember(set, i) == 1)
            printf(" %d", i);
    puts("");
}

static void look(int number, siginfo_t *info, void *context)
{
    ucontext_t *state = context;
    in_frame = state->uc_sigmask;
    memset((char *)&in_frame + 8, 0, sizeof in_frame - 8);
    pthread_sigmask(SIG_SETMASK, 0, &in_handler);
    order[hits++ & 63] = number;
}

static void take(int number, siginfo_t *info, void *context)
{
    queue[queue_len++ & 255] = number * 1000 + info->si_value.sival_int;
}

static void handle(int number, int flags, int also, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = flags | SA_SIGINFO;
    if (also)
        sigaddset(&action.sa_mask, also);
    sigaction(number, &action, 0);
}

static sigset_t set_of(int a, int b, int c)
{
    sigset_t set;
    sigemptyset(&set);
    if (a)
        sigaddset(&set, a);
    if (b)
        sigaddset(&set, b);
    if (c)
        sigaddset(&set, c);
    return set;
}

/* SIGUSR1 and SIGUSR2 are blocked and pending; the wait lets SIGUSR1 through, then what its handler lets through. */
static void wait_in(const char *how)
{
    sigset_t blocked = set_of(SIGUSR1, SIGUSR2, SIGHUP), waiting = set_of(SIGUSR2, SIGWINCH, SIGURG), now;
    sigprocmask(SIG_SETMASK, &blocked, 0);
    hits = 0;
    raise(SIGUSR1);
    raise(SIGUSR2);
    int result, poller = epoll_create1(0);
    struct epoll_event event;
    struct timespec limit = {5, 0};
    errno = 0;
    if (!strcmp(how, "sigsuspend"))
        result = sigsuspend(&waiting);
    else if (!strcmp(how, "ppoll"))
        result = ppoll(0, 0, &limit, &waiting);
    else if (!strcmp(how, "pselect"))
        result = pselect(0, 0, 0, 0, &limit, &waiting);
    else if (!strcmp(how, "epoll_pwait"))
        result = epoll_pwait(poller, &event, 1, 5000, &waiting);
    else
        result = syscall(441, poller, &event, 1, &limit, &waiting, 8);
    printf("%s %d %d, %d handled, first %d\n", how, result, errno == EINTR, hits, order[0]);
    show("handler", &in_handler);
    show("frame", &in_frame);
    sigprocmask(SIG_SETMASK, 0, &now);
    show("after", &now);
    close(poller);
    sigset_t none = set_of(0, 0, 0);
    sigprocmask(SIG_SETMASK, &none, &now);
    show("old", &now);
    printf("both %d\n", hits);
}

/* Nothing happens while it waits: the mask must be the same as before. */
static void wait_in_vain(void)
{
    sigset_t blocked = set_of(SIGUSR1, 0, 0), waiting = set_of(SIGUSR2, 0, 0), now;
    struct timespec limit = {0, 1000000};
    sigprocmask(SIG_SETMASK, &blocked, 0);
    int result = ppoll(0, 0, &limit, &waiting);
    handle(SIGHUP, 0, SIGINT, look);
    raise(SIGHUP);
    sigprocmask(SIG_SETMASK, 0, &now);
    printf("nothing %d\n", result);
    show("handler", &in_handler);
    show("frame", &in_frame);
    show("after", &now);
}

static void *send_some(void *to)
{
    for (int i = 0; i < 2000; i++) {
        syscall(SYS_tgkill, getpid(), *(pid_t *)to, SIGUSR1);
        sched_yield();
    }
    return 0;
}

/* Blocks and unblocks while signals arrive: what `sigprocmask` says was blocked before must be that. */
static void race(void)
{
    pid_t self = syscall(SYS_gettid);
    sigset_t one = set_of(SIGUSR1, 0, 0), none = set_of(0, 0, 0), was;
    pthread_t other;
    long wrong = 0;
    handle(SIGUSR1, SA_RESTART, 0, look);
    sigprocmask(SIG_SETMASK, &none, 0);
    sigprocmask(SIG_BLOCK, &one, 0);
    pthread_create(&other, 0, send_some, &self);
    for (int i = 0; i < 3000; i++) {
        sigprocmask(SIG_UNBLOCK, &one, &was);
        wrong += !sigismember(&was, SIGUSR1);
        sigprocmask(SIG_BLOCK, &one, &was);
        wrong += sigismember(&was, SIGUSR1);
        int before = hits;
        for (volatile int j = 0; j < 50; j++)
            ;
        wrong += before != hits;
    }
    pthread_join(other, 0);
    sigprocmask(SIG_SETMASK, &none, 0);
    printf("race %ld\n", wrong);
}

static void queues(void)
{
    sigset_t all = set_of(SIGRTMIN + 1, SIGRTMIN + 2, SIGRTMIN + 5), none = set_of(0, 0, 0);
    handle(SIGRTMIN + 1, 0, 0, take);
    handle(SIGRTMIN + 2, 0, SIGRTMIN + 1, take);
    sigprocmask(SIG_BLOCK, &all, 0);
    for (int i = 0; i < 40; i++) {
        sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i});
        sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = i});
        sigqueue(getpid(), SIGRTMIN + 5, (union sigval){.sival_int = i});
    }
    sigset_t last = set_of(SIGRTMIN + 5, 0, 0);
    long sum = 0;
    for (int i = 0; i < 20; i++) {
        siginfo_t info;
        int got = sigwaitinfo(&last, &info);
        sum = sum * 3 + got + info.si_value.sival_int;
    }
    int fd = signalfd(-1, &last, SFD_NONBLOCK);
    struct signalfd_siginfo read_info;
    for (int i = 0; i < 20; i++) {
        if (read(fd, &read_info, sizeof read_info) == sizeof read_info)
            sum = sum * 3 + read_info.ssi_int;
    }
    printf("waited %ld, nothing left %d\n", sum, read(fd, &read_info, sizeof read_info) < 0);
    close(fd);
    struct timespec soon = {0, 1000000};
    errno = 0;
    int got = sigtimedwait(&last, 0, &soon);
    printf("timed %d %d\n", got, errno == EAGAIN);
    sigprocmask(SIG_SETMASK, &none, 0);
    long shape = 0;
    for (int i = 0; i < queue_len; i++)
        shape = shape * 31 + queue[i];
    printf("queued %d %lx\n", queue_len, shape);
}

static void wrong_addresses(void)
{
    sigset_t *bad = (sigset_t *)8;
    int results[8], i = 0;
    results[i++] = syscall(SYS_rt_sigprocmask, SIG_BLOCK, bad, 0, 8) < 0 ? errno : 0;
    results[i++] = syscall(SYS_rt_sigprocmask, SIG_BLOCK, 0, bad, 8) < 0 ? errno : 0;
    results[i++] = syscall(SYS_rt_sigprocmask, 77, &in_frame, 0, 8) < 0 ? errno : 0;
    results[i++] = syscall(SYS_rt_sigaction, SIGUSR1, bad, 0, 8) < 0 ? errno : 0;
    results[i++] = syscall(SYS_rt_sigaction, SIGUSR1, 0, bad, 8) < 0 ? errno : 0;
    results[i++] = syscall(SYS_sigaltstack, bad, 0) < 0 ? errno : 0;
    results[i++] = syscall(SYS_rt_sigsuspend, bad, 8) < 0 ? errno : 0;
    results[i++] = syscall(SYS_ppoll, 0, 0, 0, bad, 8) < 0 ? errno : 0;
    for (i = 0; i < 8; i++)
        printf("%d ", results[i]);
    puts("");
}

static char *low;
static volatile int depth;

static void on_one_at_a_time(int number, siginfo_t *info, void *context)
{
    stack_t now;
    sigaltstack(0, &now);
    printf("stack %d %d\n", now.ss_flags & SS_DISABLE, (char *)&now > low && (char *)&now < low + 32768);
    if (++depth < 2)
        raise(number);
}

static void stacks(void)
{
    low = malloc(32768);
    stack_t stack = {low, 1u << 31, 32768}, old;
    printf("%d\n", sigaltstack(&stack, 0));
    handle(SIGUSR2, SA_ONSTACK | SA_NODEFER, 0, on_one_at_a_time);
    raise(SIGUSR2);
    sigaltstack(0, &old);
    printf("again %d %d\n", old.ss_sp == low, (int)old.ss_size);
    stack.ss_flags = 64;
    printf("%d ", sigaltstack(&stack, 0));
    stack.ss_flags = 0;
    stack.ss_size = 100;
    printf("%d ", sigaltstack(&stack, 0));
    stack.ss_flags = SS_DISABLE;
    printf("%d\n", sigaltstack(&stack, 0));
}

static void details(void)
{
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = look;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER;
    sigfillset(&action.sa_mask);
    sigaction(SIGURG, &action, 0);
    raise(SIGURG);
    show("all", &in_handler);
    sigaction(SIGURG, 0, &old);
    printf("reset %d %x\n", old.sa_handler == SIG_DFL, old.sa_flags & ~0x04000000);
    show("mask", &old.sa_mask);

    /* Sent by somebody, though a fault usually causes them; blocked meanwhile. */
    sigset_t two = set_of(SIGSEGV, SIGTRAP, 0), none = set_of(0, 0, 0), now;
    handle(SIGSEGV, 0, 0, look);
    handle(SIGTRAP, 0, 0, look);
    hits = 0;
    sigprocmask(SIG_BLOCK, &two, 0);
    raise(SIGSEGV);
    raise(SIGTRAP);
    sigprocmask(SIG_SETMASK, 0, &now);
    show("blocked", &now);
    printf("kept %d", hits);
    sigprocmask(SIG_SETMASK, &none, 0);
    printf(" %d\n", hits);
    fflush(stdout);
    if (!fork()) {
        sigprocmask(SIG_BLOCK, &two, 0);
        signal(SIGUSR2, SIG_IGN);
        execl("/bin/sh", "sh", "-c", "grep ^SigIgn /proc/self/status", (char *)0);
    }
    wait(0);
}

int main(void)
{
    handle(SIGUSR1, 0, SIGTERM, look);
    handle(SIGUSR2, 0, 0, look);
    wait_in("sigsuspend");
    wait_in("ppoll");
    wait_in("pselect");
    wait_in("epoll_pwait");
    wait_in("epoll_pwait2");
    wait_in_vain();
    race();
    queues();
    wrong_addresses();
    stacks();
    details();
    return 0;
}
