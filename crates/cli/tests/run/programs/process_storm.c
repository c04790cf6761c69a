/* Processes that come and go while signals arrive: fork, vfork, posix_spawn, clone; programs that are executed by several
   threads at once, with signals blocked, waiting or ignored. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static volatile long ticks;
static char *self;

static void on_tick(int number) { ticks++; }

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int by_vfork(const char *what)
{
    pid_t child = vfork();
    if (!child) {
        execl(self, self, what, (char *)0);
        _exit(99);
    }
    return wait_for(child);
}

static int by_spawn(const char *what)
{
    pid_t child;
    char *arguments[] = {self, (char *)what, 0};
    posix_spawnattr_t attributes;
    sigset_t defaults;
    posix_spawnattr_init(&attributes);
    sigfillset(&defaults);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawn(&child, self, 0, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return error ? -error : wait_for(child);
}

static int by_fork(const char *what)
{
    pid_t child = fork();
    if (!child) {
        execl("/no/such/program", "x", (char *)0);
        execl(self, self, what, (char *)0);
        _exit(99);
    }
    return wait_for(child);
}

static char stack[65536] __attribute__((aligned(16)));

static int in_clone(void *argument)
{
    long n = 0;
    for (long i = 0; i < 1000; i++)
        n += i;
    return n == 499500 ? 21 : 22;
}

static void *spawner(void *argument)
{
    long sum = 0;
    for (int i = 0; i < 4; i++)
        sum += by_spawn("exit") + by_vfork("exit");
    return (void *)sum;
}

int main(int argc, char **argv)
{
    self = "/proc/self/exe";
    if (argc > 1 && !strcmp(argv[1], "exit"))
        return 7;
    if (argc > 1 && !strcmp(argv[1], "pending")) {
        /* What was sent before it was executed is still there. */
        sigset_t waiting, blocked;
        sigpending(&waiting);
        sigprocmask(SIG_SETMASK, 0, &blocked);
        return sigismember(&waiting, SIGUSR1) + 2 * sigismember(&blocked, SIGUSR1) +
               4 * sigismember(&blocked, SIGSEGV) + 8 * sigismember(&blocked, SIGALRM);
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, 0);
    struct itimerval fast = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &fast, 0);

    long sum = 0;
    for (int i = 0; i < 5; i++)
        sum += by_fork("exit") + by_vfork("exit") + by_spawn("exit");
    printf("exits %ld\n", sum);

    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, spawner, 0);
    sum = 0;
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("from threads %ld\n", sum);

    sum = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (!child)
            _exit(getpid() != syscall(SYS_gettid) ? 50 : 2);
        sum += wait_for(child);
    }
    for (int i = 0; i < 20; i++)
        sum += wait_for(clone(in_clone, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0));
    for (int i = 0; i < 5; i++)
        sum += wait_for(clone(in_clone, stack + sizeof stack, SIGCHLD, 0));
    printf("clones %ld\n", sum);

    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigaddset(&some, SIGSEGV);
    pid_t child = fork();
    if (!child) {
        sigprocmask(SIG_SETMASK, &some, 0);
        raise(SIGUSR1);
        execl(self, self, "pending", (char *)0);
        _exit(99);
    }
    printf("inherited %d\n", wait_for(child));
    child = fork();
    if (!child) {
        signal(SIGALRM, SIG_DFL);
        raise(SIGKILL);
    }
    printf("killed %d\n", wait_for(child));
    printf("ticks %d\n", ticks > 2);
    return 0;
}
