// threads WHAT: threads that count, together and one after another.
#define _GNU_SOURCE
#include "relive.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

static __attribute__((noinline)) void work(int n) {
    GATE();
    for (int i = 0; i < n; i++) COUNT(1);
}

static void *thread(void *arg) {
    work((int)(long)arg);
    return NULL;
}

static int raw(void *arg) {
    work((int)(long)arg);
    return 0;
}

static void start(int threads, int n) {
    pthread_t all[threads];
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, thread, (void *)(long)n);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

// All registers survive the gate on a new thread.
static void *registers(void *arg) {
    unsigned long in[14], out[14];
    float vin[16][4], vout[16][4];
    for (int i = 0; i < 14; i++) in[i] = 0x0101010101010101ul * (i + 1);
    for (int i = 0; i < 64; i++) vin[i / 4][i % 4] = i;
    __asm__ volatile(
        "movups 0(%1),%%xmm0\n movups 16(%1),%%xmm1\n movups 32(%1),%%xmm2\n movups 48(%1),%%xmm3\n"
        "movups 64(%1),%%xmm4\n movups 80(%1),%%xmm5\n movups 96(%1),%%xmm6\n movups 112(%1),%%xmm7\n"
        "movups 128(%1),%%xmm8\n movups 144(%1),%%xmm9\n movups 160(%1),%%xmm10\n movups 176(%1),%%xmm11\n"
        "movups 192(%1),%%xmm12\n movups 208(%1),%%xmm13\n movups 224(%1),%%xmm14\n movups 240(%1),%%xmm15\n"
        "push %%rbp\n push %2\n push %3\n mov %0, %%rbp\n"
        "mov 0(%%rbp),%%rax\n mov 8(%%rbp),%%rbx\n mov 16(%%rbp),%%rcx\n mov 24(%%rbp),%%rdx\n"
        "mov 32(%%rbp),%%rsi\n mov 40(%%rbp),%%rdi\n mov 48(%%rbp),%%r8\n mov 56(%%rbp),%%r9\n"
        "mov 64(%%rbp),%%r10\n mov 72(%%rbp),%%r11\n mov 80(%%rbp),%%r12\n mov 88(%%rbp),%%r13\n"
        "mov 96(%%rbp),%%r14\n mov 104(%%rbp),%%r15\n"
        "stc\n std\n call relive_enter\n pushfq\n cld\n mov 8(%%rsp), %%rbp\n"
        "mov %%rax,0(%%rbp)\n mov %%rbx,8(%%rbp)\n mov %%rcx,16(%%rbp)\n mov %%rdx,24(%%rbp)\n"
        "mov %%rsi,32(%%rbp)\n mov %%rdi,40(%%rbp)\n mov %%r8,48(%%rbp)\n mov %%r9,56(%%rbp)\n"
        "mov %%r10,64(%%rbp)\n mov %%r11,72(%%rbp)\n mov %%r12,80(%%rbp)\n mov %%r13,88(%%rbp)\n"
        "mov %%r14,96(%%rbp)\n mov %%r15,104(%%rbp)\n"
        "pop %%rax\n and $0x401,%%eax\n cmp $0x401,%%eax\n je 1f\n ud2\n 1:\n"
        "pop %%rax\n pop %%rax\n pop %%rbp\n"
        "movups %%xmm0,0(%%rax)\n movups %%xmm1,16(%%rax)\n movups %%xmm2,32(%%rax)\n movups %%xmm3,48(%%rax)\n"
        "movups %%xmm4,64(%%rax)\n movups %%xmm5,80(%%rax)\n movups %%xmm6,96(%%rax)\n movups %%xmm7,112(%%rax)\n"
        "movups %%xmm8,128(%%rax)\n movups %%xmm9,144(%%rax)\n movups %%xmm10,160(%%rax)\n"
        "movups %%xmm11,176(%%rax)\n movups %%xmm12,192(%%rax)\n movups %%xmm13,208(%%rax)\n"
        "movups %%xmm14,224(%%rax)\n movups %%xmm15,240(%%rax)\n"
        ::"r"(in), "r"(vin), "r"(vout), "r"(out)
        : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
          "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
          "xmm12", "xmm13", "xmm14", "xmm15");
    if (memcmp(in, out, sizeof in) || memcmp(vin, vout, sizeof vin)) abort();
    work(1);
    return arg;
}

int main(int argc, char **argv) {
    work(1);
    if (!strcmp(argv[1], "parallel")) {
        start(8, 1000000);
    } else if (!strcmp(argv[1], "serial")) {
        for (int i = 0; i < 300; i++) start(1, 10);
    } else if (!strcmp(argv[1], "stacks")) {
        // Each on a stack of its own, so that no thread pointer comes again.
        for (int i = 0; i < 100; i++) {
            pthread_attr_t attr;
            pthread_t id;
            pthread_attr_init(&attr);
            char *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            pthread_attr_setstack(&attr, stack, 1 << 18);
            pthread_create(&id, &attr, thread, (void *)10);
            pthread_join(id, NULL);
        }
    } else if (!strcmp(argv[1], "vfork")) {
        // Shares memory and thread pointer with its parent, which waits.
        char *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 10; i++) {
            int pid = clone(raw, stack + (1 << 18), CLONE_VM | CLONE_VFORK | 17, (void *)10);
            waitpid(pid, NULL, 0);
        }
    } else if (!strcmp(argv[1], "full")) {
        // No room for a second slot.
        struct rlimit limit = {32768, 32768};
        setrlimit(RLIMIT_FSIZE, &limit);
        start(1, 1000);
        start(3, 1000);
    } else if (!strcmp(argv[1], "registers")) {
        pthread_t id;
        pthread_create(&id, NULL, registers, NULL);
        pthread_join(id, NULL);
    } else if (!strcmp(argv[1], "pause")) {
        start(2, 100);
        pause_here();
    }
    return 0;
}
