// After every single instruction, a signal handler walks the stack: it must reach main from everywhere.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>
#include "expect.h"

static uintptr_t main_frame;
static volatile int found, over;
static unsigned long walks, failures, first_bad;
static volatile unsigned sink;

// The oracle itself is not to be measured.
static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *data) {
    (void)data;
    found |= _Unwind_GetCFA(context) == main_frame;
    return _URC_NO_REASON;
}
static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal;
    if (info->si_code != TRAP_TRACE) {
        static const char text[] = "escaped\n";
        write(2, text, sizeof text - 1);
        _exit(99);
    }
    if (over) {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
        return;
    }
    found = 0;
    _Unwind_Reason_Code code = _Unwind_Backtrace(visit, NULL);
    walks++;
    if (!found || code != _URC_END_OF_STACK) {
        if (!failures++) first_bad = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    }
}
// Signals switch it on and off, so that no code here has to change the flags.
static void on_start(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

KEEP unsigned leaf(unsigned n) { return n * 3 + sink; }
KEEP unsigned other(unsigned n) { sink += n; return n > 3 ? leaf(n) : 1; }
static unsigned (*volatile pointers[])(unsigned) = {leaf, other, leaf, other};
KEEP unsigned through(unsigned i, unsigned n) { return pointers[i & 3](n) + 1; }
KEEP unsigned tail(unsigned i, unsigned n) { return pointers[i & 3](n); }
KEEP unsigned choose(unsigned n) {
    switch (n) {
    case 0: return leaf(n) + 1;
    case 1: sink++; return 4;
    case 2: return other(n) * 2;
    case 3: sink ^= 9; return 5;
    case 4: return through(1, n) - 1;
    case 5: return tail(2, n);
    case 6: return sink;
    default: return 0;
    }
}
KEEP unsigned loops(unsigned n) {
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        if (i % 3 == 0) continue;
        for (unsigned j = i; j < n; j += 2) sum += j ^ i;
        if (sum > 100000) break;
    }
    return sum;
}
KEEP unsigned frame(unsigned n) {
    volatile char *room = __builtin_alloca(n * 16 + 16);
    for (unsigned i = 0; i < n * 16 + 16; i++) room[i] = n;
    return room[n] + leaf(n);
}
KEEP unsigned flags(uint64_t a, uint64_t b, unsigned n) {
    unsigned carries = 0;
    while (n--) {
        carries += a < b ? 1 : a == b ? 2 : (int64_t)a < (int64_t)b ? 3 : 4;
        a = a * 6364136223846793005u + 1;
        b ^= a >> 7;
    }
    return carries;
}
KEEP unsigned deep(unsigned n) { return n == 0 ? frame(3) : deep(n - 1) + choose(n % 8); }

KEEP unsigned everything(void) {
    unsigned sum = loops(14);
    for (unsigned i = 0; i < 9; i++) sum += choose(i) + through(i, i) + tail(i + 1, i);
    return sum + deep(9) + frame(2) + flags(1, 2, 20);
}

int main(void) {
    main_frame = (uintptr_t)__builtin_dwarf_cfa();
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGTRAP, &action, NULL);
    _Unwind_Backtrace(visit, NULL); // loads what it needs
    unsigned sum = everything(); // binds what is bound late
    action.sa_sigaction = on_start;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sum += everything();
    over = 1;
    if (failures) fprintf(stderr, "%lu of %lu walks failed, the first at %#lx (main is at %p)\n", failures, walks, first_bad, (void *)main);
    printf("%u %d %d\n", sum, walks > 1000, failures == 0);
    EXPECT_ENTRIES(everything, 2);
    EXPECT_ENTRIES(deep, 20);
    return failures != 0;
}
