// Programs without a library, so that a single-stepper is soon done with them.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <asm/unistd.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <stdint.h>

static inline long call6(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#define call(number, ...) call_(number, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define call_(number, a, b, c, d, e, f, ...) \
    call6(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

int run(int argc, char **argv);

__attribute__((used)) static void begin(long *stack) {
    call(__NR_exit_group, run((int)stack[0], (char **)(stack + 1)));
    __builtin_unreachable();
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");

// What the compiler takes for granted.
void *memset(void *to, int value, unsigned long len) {
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(len) : "a"(value) : "memory");
    return start;
}

// A signal's handler as the kernel knows it.
struct action {
    void (*handler)(int, void *, uint64_t *);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};
void restore(void);
__asm__("restore: mov $15, %eax\n syscall\n");

static inline void handle(int signal, void (*handler)(int, void *, uint64_t *), unsigned long flags) {
    struct action action = {handler, flags | 0x4000004 /* RESTORER, SIGINFO */, restore, 0};
    call(__NR_rt_sigaction, signal, &action, 0, 8);
}
