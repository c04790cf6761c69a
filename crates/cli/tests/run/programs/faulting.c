/* Fails all the time, until its input ends: whoever stops it often finds it with a fault that it has not been told of. Under
   the engine, writes to code are faults too. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(9); } } while (0)

static volatile int over;
static __thread volatile unsigned faults;

static void on_fault(int number, siginfo_t *info, void *context) {
    ucontext_t *state = context;
    CHECK(number == SIGSEGV && info->si_code > 0 && info->si_addr == (void *)16);
    state->uc_mcontext.gregs[REG_RIP] = state->uc_mcontext.gregs[REG_RBX];
    faults++;
}

static void work(void) {
    for (volatile int i = 0; i < 200000; i++);
}

/* An access to address 16, over which the handler leads. */
__attribute__((noinline)) void fault(void) {
    __asm__ volatile("lea 1f(%%rip), %%rbx\n mov $16, %%ecx\n mov (%%rcx), %%rax\n 1:" ::: "rax", "rbx", "rcx", "memory");
}

/* Code that is written anew each time. */
static void *generator(void *unused) {
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (uint32_t n = 1; !over; n++) {
        uint8_t code[] = {0xb8, 0, 0, 0, 0, 0xc3};
        memcpy(code + 1, &n, 4);
        memcpy(page, code, sizeof code);
        CHECK(((uint32_t (*)(void))page)() == n);
        work();
    }
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, generator, NULL) == 0);
    puts("ready");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (unsigned n = 1; n % 256 != 0 || poll(&input, 1, 0) == 0; n++) {
        fault();
        CHECK(faults == n);
        work();
    }
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    puts("fine");
    return 0;
}
