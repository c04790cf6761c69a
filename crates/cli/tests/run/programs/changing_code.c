/* Code that changes: rewritten where it stands, by another thread, by the kernel, through another view of the same memory;
   moved, taken away, made anew; on the stack; changing itself. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef int (*function)(int);
enum { ALL = PROT_READ | PROT_WRITE | PROT_EXEC, ANY = MAP_PRIVATE | MAP_ANONYMOUS };

/* lea eax, [rdi + n]; ret */
static int adds(unsigned char *at, int n)
{
    static const unsigned char head[] = {0x8d, 0x87};
    memcpy(at, head, 2);
    memcpy(at + 2, &n, 4);
    at[6] = 0xc3;
    return 7;
}

static unsigned char *fresh(size_t len, int rights)
{
    return mmap(0, len, rights, ANY, -1, 0);
}

static int rewritten(void)
{
    unsigned char *code = fresh(4096, ALL);
    int sum = 0;
    for (int i = 0; i < 200; i++) {
        adds(code, i);
        sum += ((function)code)(1000);
    }
    munmap(code, 4096);
    return sum;
}

/* A loop that raises the number in its own next instruction. */
static int changes_itself(void)
{
    static const unsigned char body[] = {
        0xb9, 20, 0, 0, 0,             /* mov ecx, 20 */
        0x31, 0xc0,                    /* xor eax, eax */
        0xfe, 0x05, 1, 0, 0, 0,        /* 7: inc byte [rip + 1], which is the constant of the next */
        0x05, 0, 0, 0, 0,              /* add eax, 0 */
        0xff, 0xc9,                    /* dec ecx */
        0x75, 0xf1,                    /* jnz 7 */
        0xc3,
    };
    unsigned char *code = fresh(4096, ALL);
    memcpy(code, body, sizeof body);
    int sum = 0;
    for (int i = 0; i < 3; i++)
        sum = sum * 7 + ((function)code)(0);
    munmap(code, 4096);
    return sum;
}

static volatile function shared;
static volatile int turn;

static void *writes(void *argument)
{
    unsigned char *code = argument;
    for (int i = 0; i < 300; i++) {
        while (turn != 2 * i)
            sched_yield();
        adds(code + i % 50 * 16, i);
        shared = (function)(code + i % 50 * 16);
        turn = 2 * i + 1;
    }
    return 0;
}

static int by_another_thread(void)
{
    unsigned char *code = fresh(4096, ALL);
    pthread_t other;
    int sum = 0;
    turn = 0;
    pthread_create(&other, 0, writes, code);
    for (int i = 0; i < 300; i++) {
        while (turn != 2 * i + 1)
            sched_yield();
        sum += shared(5);
        turn = 2 * i + 2;
    }
    pthread_join(other, 0);
    munmap(code, 4096);
    return sum;
}

static volatile int stop;

static void *runs(void *argument)
{
    long wrong = 0;
    while (!stop)
        wrong += ((function)argument)(1) != 12;
    return (void *)wrong;
}

/* One thread executes what another leaves as it is, on the page that it writes to. */
static int beside(void)
{
    unsigned char *code = fresh(4096, ALL);
    pthread_t others[2];
    int sum = 0;
    stop = 0;
    adds(code, 11);
    for (int i = 0; i < 2; i++)
        pthread_create(&others[i], 0, runs, code);
    for (int i = 0; i < 200; i++) {
        adds(code + 512 + i % 8 * 64, i);
        sum += ((function)(code + 512 + i % 8 * 64))(3);
    }
    stop = 1;
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(others[i], &wrong);
        sum += (long)wrong * 100000;
    }
    munmap(code, 4096);
    return sum;
}

/* Calls of the kernel that write to a page with code on it. */
static int by_the_kernel(void)
{
    unsigned char *code = fresh(3 * 4096, ALL), text[16];
    int ends[2], pair[2], sum = 0;
    if (pipe(ends) || socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        return -1;
    for (int i = 0; i < 10; i++) {
        adds(text, i);
        adds(code, 3);
        adds(code + 4096, 5);
        sum += ((function)code)(0) + ((function)(code + 4096))(0);
        int result = 0;
        struct iovec part = {code, 7};
        struct msghdr message = {0};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        switch (i % 8) {
        case 0:
            result = write(ends[1], text, 7) == 7 && read(ends[0], code, 7) == 7;
            break;
        case 1:
            result = write(ends[1], text, 7) == 7 && readv(ends[0], &part, 1) == 7;
            break;
        case 2:
            result = send(pair[0], text, 7, 0) == 7 && recv(pair[1], code, 7, 0) == 7;
            break;
        case 3:
            result = send(pair[0], text, 7, 0) == 7 && recvmsg(pair[1], &message, 0) == 7;
            break;
        case 4: {
            struct timespec *now = (struct timespec *)(code + 64);
            result = !clock_getres(CLOCK_MONOTONIC, now) && now->tv_nsec > 0 && !fstat(0, (struct stat *)(code + 128));
            memcpy(code, text, 7);
            break;
        }
        case 5: {
            int *status = (int *)(code + 256);
            pid_t child = fork();
            if (!child)
                _exit(9);
            result = waitpid(child, status, 0) == child && WEXITSTATUS(*status) == 9;
            memcpy(code, text, 7);
            break;
        }
        case 6: {
            /* Over both pages: not only the first part of it. */
            static char many[8192];
            FILE *file = tmpfile();
            memcpy(many, text, 7);
            adds((unsigned char *)many + 4096, 8);
            fwrite(many, 1, sizeof many, file);
            fflush(file);
            result = pread(fileno(file), code, 8192, 0) == 8192;
            fclose(file);
            break;
        }
        default: {
            sigset_t *old = (sigset_t *)(code + 512), none;
            struct sigaction *action = (struct sigaction *)(code + 1024);
            sigemptyset(&none);
            result = !sigprocmask(SIG_BLOCK, &none, old) && !sigaction(SIGUSR1, 0, action);
            memcpy(code, text, 7);
        }
        }
        sum = sum * 3 + result + ((function)code)(100) + ((function)(code + 4096))(0);
    }
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(pair[i]);
    }
    munmap(code, 3 * 4096);
    return sum;
}

/* Written through one view, executed through another; a view that comes later, too. */
static int two_views(void)
{
    int fd = memfd_create("code", 0), sum = 0;
    if (fd < 0 || ftruncate(fd, 8192))
        return -1;
    unsigned char *run = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    unsigned char *write = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 20; i++) {
        adds(write + 4096, i);
        sum += ((function)(run + 4096))(i);
    }
    munmap(write, 8192);
    for (int i = 0; i < 20; i++) {
        write = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
        adds(write, i * 2);
        munmap(write, 4096);
        sum += ((function)(run + 4096))(i);
    }
    munmap(run, 8192);
    close(fd);
    return sum;
}

static int protected_and_moved(void)
{
    int sum = 0;
    unsigned char *code = fresh(8192, PROT_READ | PROT_WRITE);
    for (int i = 0; i < 20; i++) {
        mprotect(code, 8192, PROT_READ | PROT_WRITE);
        adds(code + 100, i);
        mprotect(code, 8192, PROT_READ | PROT_EXEC);
        sum += ((function)(code + 100))(1);
    }
    munmap(code, 8192);
    code = fresh(8192, ALL);
    for (int i = 0; i < 10; i++) {
        adds(code + 200, i);
        sum += ((function)(code + 200))(2);
        unsigned char *place = fresh(8192, PROT_NONE);
        code = mremap(code, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        sum += ((function)(code + 200))(3);
        /* Still to be written to. */
        adds(code + 200, i * 5);
        sum += ((function)(code + 200))(4);
    }
    unsigned char *again = mmap(code, 8192, ALL, ANY | MAP_FIXED, -1, 0);
    adds(again + 200, 77);
    sum += ((function)(again + 200))(0);
    munmap(again, 8192);
    return sum;
}

static int apply(int (*f)(int), int n) { return f(n); }

/* A function inside another: gcc puts code on the stack. */
static int on_the_stack(int n)
{
    int calls = 0;
    int inner(int m)
    {
        calls++;
        return m + n;
    }
    int sum = 0;
    for (int i = 0; i < 10; i++) {
        char text[64];
        sum += apply(inner, i) + snprintf(text, sizeof text, "%d", sum);
    }
    return sum * 100 + calls;
}

static sigjmp_buf out;

static void jump_out(int number) { siglongjmp(out, number); }

static int taken_away(void)
{
    volatile int caught = 0;
    signal(SIGSEGV, jump_out);
    for (volatile int i = 0; i < 10; i++) {
        unsigned char *code = fresh(4096, ALL);
        adds(code, i);
        caught += ((function)code)(0);
        if (i % 2)
            munmap(code, 4096);
        else
            mprotect(code, 4096, PROT_READ | PROT_WRITE);
        if (!sigsetjmp(out, 1))
            caught += ((function)code)(0) * 1000;
        else
            caught += 100;
    }
    signal(SIGSEGV, SIG_DFL);
    return caught;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < rounds; i++) {
        printf("rewritten %d\n", rewritten());
        printf("itself %d\n", changes_itself());
        printf("another thread %d\n", by_another_thread());
        printf("beside %d\n", beside());
        printf("kernel %d\n", by_the_kernel());
        printf("views %d\n", two_views());
        printf("moved %d\n", protected_and_moved());
        printf("stack %d\n", on_the_stack(i + 4));
        printf("taken away %d\n", taken_away());
    }
    return 0;
}
