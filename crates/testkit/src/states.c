// states PROGRAM ARGUMENT...: starts the program, stopped before its first instruction, with nothing to read and its output thrown
// away, and does with it what it is told on its own standard input:
//   E           runs to the program's entry: behind the dynamic linker
//   S n         executes n instructions, and answers with a record for the state behind each
//   G           answers with a record of the state
//   R registers sets the registers, and forgets a signal that is to be delivered
//   X           answers with the places of mask registers, upper halves of vector registers and upper vector registers among the vector
//               registers and the like, 0 if there are none, then with the length and the bytes of all these
//   Y n bytes   sets them
//   T           lets the program and all that it starts, threads and processes, go to their ends, and answers with a record for the state
//               behind each instruction of each of them, and behind the last with one whose process is 0; behind each record comes what
//               X answers if the next instruction may depend on it, or three zeros and a length of 0
// Numbers are 8 bytes. A record: how the program stopped (0: as it should; below 256: by a signal, which is delivered with the next
// step; 256 and the status: it has ended), its process, its registers as in `struct user_regs_struct`, the 16 bytes at its program
// counter.
// Exits with 125 if the program cannot be watched. But for T, one thread only; children run unwatched.
#define _GNU_SOURCE
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t pid;
static int status;

static void fail(const char *what) {
    fprintf(stderr, "states: %s: %s\n", what, strerror(errno));
    exit(125);
}

static void get(void *to, size_t len) {
    if (fread(to, 1, len, stdin) != len) exit(0);
}

static void put(const void *from, size_t len) {
    if (fwrite(from, 1, len, stdout) != len) exit(0);
}

static uint64_t number(void) {
    uint64_t n;
    get(&n, sizeof n);
    return n;
}

static void await(void) {
    if (waitpid(pid, &status, 0) != pid) fail("wait");
}

static void run_to_entry(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    int file = open(path, O_RDONLY);
    uint64_t pair[2], entry = 0;
    while (read(file, pair, sizeof pair) == sizeof pair)
        if (pair[0] == AT_ENTRY) entry = pair[1];
    close(file);
    long word = ptrace(PTRACE_PEEKTEXT, pid, entry, 0);
    ptrace(PTRACE_POKETEXT, pid, entry, (word & ~0xffl) | 0xcc);
    ptrace(PTRACE_CONT, pid, 0, 0);
    await();
    ptrace(PTRACE_POKETEXT, pid, entry, word);
    if (ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rip), entry)) fail("entry");
}

// Vector registers and the like, and where to find some of them.
static void record_vectors(void) {
    static unsigned char state[1 << 16];
    struct iovec part = {state, sizeof state};
    if (ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &part)) {
        if (errno != ESRCH) fail("vector registers");
        part.iov_len = 0;
    }
    for (int component = 5; component <= 7; component++) {
        unsigned size = 0, offset = 0, rest;
        __get_cpuid_count(0xd, component, &size, &offset, &rest, &rest);
        uint64_t place = size ? offset : 0;
        put(&place, sizeof place);
    }
    uint64_t len = part.iov_len;
    put(&len, sizeof len);
    put(state, len);
}

// Whether an instruction may find memory by a vector or a mask, or is one that saves all of them.
static int needs_vectors(const unsigned char code[16]) {
    int at = 0;
    while (at < 14 && (strchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf2\xf3", code[at]) && code[at] || (code[at] & 0xf0) == 0x40)) at++;
    if (code[at] == 0x0f) return code[at + 1] == 0xf7 || code[at + 1] == 0xae || code[at + 1] == 0xc7;
    return code[at] == 0x62 || code[at] == 0xc4 || code[at] == 0xc5;
}

// Whether the next instruction may need more than is in it.
static int record(void) {
    struct {
        uint64_t stop, pid;
        struct user_regs_struct registers;
        unsigned char code[16];
    } all = {0};
    all.pid = pid;
    if (!WIFSTOPPED(status)) {
        all.stop = 256 + (WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    } else {
        if (WSTOPSIG(status) != SIGTRAP) all.stop = WSTOPSIG(status);
        if (ptrace(PTRACE_GETREGS, pid, 0, &all.registers) && errno != ESRCH) fail("registers");
        // As much as there is of it: the next page need not exist.
        for (size_t done = 0; done < sizeof all.code;) {
            uint64_t at = all.registers.rip + done, left = 4096 - at % 4096;
            size_t len = sizeof all.code - done < left ? sizeof all.code - done : left;
            struct iovec to = {all.code + done, len}, from = {(void *)at, len};
            if (process_vm_readv(pid, &to, 1, &from, 1, 0) < 0) break;
            done += len;
        }
    }
    put(&all, sizeof all);
    return needs_vectors(all.code);
}

static void record_all(void) {
    static const uint64_t none[4];
    if (record() && WIFSTOPPED(status)) record_vectors();
    else put(none, sizeof none);
}

static void step(pid_t who, int signal) {
    // One that has just been killed says so by itself.
    if (ptrace(PTRACE_SINGLESTEP, who, 0, signal) && errno != ESRCH) fail("step");
}

static void run_all(void) {
    enum { MOST = 64 };
    pid_t known[MOST] = {pid};
    int count = 1;
    int options = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL | options);
    step(pid, 0);
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        int is_known = 0;
        for (int i = 0; i < count; i++) is_known |= known[i] == pid;
        if (!is_known && count < MOST) known[count++] = pid;
        if (!WIFSTOPPED(status)) {
            record_all();
            continue;
        }
        // In the middle of a call that starts something.
        int is_event = status >> 16 != 0;
        if (!is_known) status = W_STOPCODE(SIGTRAP); // it begins
        if (!is_event) record_all();
        step(pid, is_event || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
    }
    pid = 0;
    record_all();
}

int main(int argc, char **argv) {
    if (argc < 2) return 125;
    pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_RDWR);
        for (int i = 0; i < 3; i++) dup2(nothing, i);
        if (nothing > 2) close(nothing);
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[1], argv + 1);
        _exit(125);
    }
    await();
    if (!WIFSTOPPED(status)) fail(argv[1]);
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL);

    static unsigned char state[1 << 16];
    struct iovec part = {state, sizeof state};
    struct user_regs_struct registers;
    for (int command; fflush(stdout), (command = getchar()) != EOF;) {
        switch (command) {
        case 'E':
            run_to_entry();
            break;
        case 'S':
            for (uint64_t n = number(); n > 0; n--) {
                if (WIFSTOPPED(status)) {
                    int signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
                    if (ptrace(PTRACE_SINGLESTEP, pid, 0, signal)) fail("step");
                    await();
                }
                record();
            }
            break;
        case 'T':
            run_all();
            break;
        case 'G':
            record();
            break;
        case 'R':
            get(&registers, sizeof registers);
            if (ptrace(PTRACE_SETREGS, pid, 0, &registers)) fail("set registers");
            status = W_STOPCODE(SIGTRAP);
            break;
        case 'X':
            record_vectors();
            break;
        case 'Y':
            part.iov_len = number();
            if (part.iov_len > sizeof state) fail("state");
            get(state, part.iov_len);
            if (ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &part)) fail("set vector registers");
            break;
        default:
            fail("command");
        }
    }
    return 0;
}
