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

// Calls FUNCTION with registers from the block at rdi, and stores them there afterwards.
#define WITH_REGISTERS(name, function, pushed) \
    __asm__(#name ":\n" \
            "push %rbx\n" \
            "push %rbp\n" \
            "push %r12\n" \
            "push %r13\n" \
            "push %r14\n" \
            "push %r15\n" \
            "push %rdi\n mov %rdi, %rbp\n" \
            "movups 128(%rbp), %xmm0\n" \
            "movups 144(%rbp), %xmm1\n" \
            "movups 160(%rbp), %xmm2\n" \
            "movups 176(%rbp), %xmm3\n" \
            "movups 192(%rbp), %xmm4\n" \
            "movups 208(%rbp), %xmm5\n" \
            "movups 224(%rbp), %xmm6\n" \
            "movups 240(%rbp), %xmm7\n" \
            "movups 256(%rbp), %xmm8\n" \
            "movups 272(%rbp), %xmm9\n" \
            "movups 288(%rbp), %xmm10\n" \
            "movups 304(%rbp), %xmm11\n" \
            "movups 320(%rbp), %xmm12\n" \
            "movups 336(%rbp), %xmm13\n" \
            "movups 352(%rbp), %xmm14\n" \
            "movups 368(%rbp), %xmm15\n" \
            "mov 0(%rbp), %rax\n" \
            "mov 8(%rbp), %rbx\n" \
            "mov 16(%rbp), %rcx\n" \
            "mov 24(%rbp), %rdx\n" \
            "mov 32(%rbp), %rsi\n" \
            "mov 40(%rbp), %r8\n" \
            "mov 48(%rbp), %r9\n" \
            "mov 56(%rbp), %r10\n" \
            "mov 64(%rbp), %r11\n" \
            "mov 72(%rbp), %r12\n" \
            "mov 80(%rbp), %r13\n" \
            "mov 88(%rbp), %r14\n" \
            "mov 96(%rbp), %r15\n" \
            "mov 104(%rbp), %rdi\n" \
            pushed "stc\n std\n call " #function "\n pushfq\n cld\n pop %rbp\n xchg %rbp, (%rsp)\n" \
            "mov %rax, 384(%rbp)\n" \
            "mov %rbx, 392(%rbp)\n" \
            "mov %rcx, 400(%rbp)\n" \
            "mov %rdx, 408(%rbp)\n" \
            "mov %rsi, 416(%rbp)\n" \
            "mov %r8, 424(%rbp)\n" \
            "mov %r9, 432(%rbp)\n" \
            "mov %r10, 440(%rbp)\n" \
            "mov %r11, 448(%rbp)\n" \
            "mov %r12, 456(%rbp)\n" \
            "mov %r13, 464(%rbp)\n" \
            "mov %r14, 472(%rbp)\n" \
            "mov %r15, 480(%rbp)\n" \
            "mov %rdi, 488(%rbp)\n" \
            "movups %xmm0, 512(%rbp)\n" \
            "movups %xmm1, 528(%rbp)\n" \
            "movups %xmm2, 544(%rbp)\n" \
            "movups %xmm3, 560(%rbp)\n" \
            "movups %xmm4, 576(%rbp)\n" \
            "movups %xmm5, 592(%rbp)\n" \
            "movups %xmm6, 608(%rbp)\n" \
            "movups %xmm7, 624(%rbp)\n" \
            "movups %xmm8, 640(%rbp)\n" \
            "movups %xmm9, 656(%rbp)\n" \
            "movups %xmm10, 672(%rbp)\n" \
            "movups %xmm11, 688(%rbp)\n" \
            "movups %xmm12, 704(%rbp)\n" \
            "movups %xmm13, 720(%rbp)\n" \
            "movups %xmm14, 736(%rbp)\n" \
            "movups %xmm15, 752(%rbp)\n" \
            "pop %rax\n" \
            "pop %r15\n" \
            "pop %r14\n" \
            "pop %r13\n" \
            "pop %r12\n" \
            "pop %rbp\n" \
            "pop %rbx\n" \
            "ret\n")

struct block {
    uint64_t general[16], vector[32], general_after[16], vector_after[32];
};
extern long enter_with(struct block *), call_with(struct block *);
WITH_REGISTERS(enter_with, relive_enter, "");
WITH_REGISTERS(call_with, relive_call, "push $9\n");

// All registers survive the gate on a new thread, and a call.
static void *registers(void *arg) {
    struct block block;
    for (int i = 0; i < 16; i++) block.general[i] = 0x0101010101010101ul * (i + 1);
    for (int i = 0; i < 32; i++) block.vector[i] = 0x0101010101010101ul * (i + 17);
    for (int i = 0; i < 3; i++) {
        // The flags of a call are nobody's, but for the direction.
        if (i ? !(call_with(&block) & 0x400) : (enter_with(&block) & 0x401) != 0x401) abort();
        if (memcmp(block.general, block.general_after, 14 * 8)) abort();
        if (memcmp(block.vector, block.vector_after, sizeof block.vector)) abort();
    }
    work(1);
    return arg;
}

static __attribute__((noinline)) void child_work(void) {
    GATE();
    for (int i = 0; i < 10; i++) {
        COUNT(2);
        CALL(2, getpid);
        CALL(1, (char *)getpid + i);
    }
}

static void *child_thread(void *arg) {
    child_work();
    return arg;
}

static void *storm(void *arg) {
    GATE();
    for (int i = 0; i < 25; i++) {
        start(1, 10);
        CALL(2, child_work);
        CALL(1, (char *)child_work + i);
        int pid = fork();
        if (pid == 0) {
            child_work();
            pthread_t id;
            pthread_create(&id, NULL, child_thread, NULL);
            pthread_join(id, NULL);
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (status) abort();
    }
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
    } else if (!strcmp(argv[1], "storm")) {
        pthread_t all[4];
        for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, storm, NULL);
        for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
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
