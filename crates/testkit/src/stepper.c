// stepper OUTPUT PROGRAM ARGUMENT...: runs the program one instruction at a time, from its entry on, and
// writes "address count" (hexadecimal as linked, decimal) for each instruction of the program's own file
// that was executed. Exits as the program does; 125 if it cannot be watched. One thread only; children run
// unwatched.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
    fprintf(stderr, "stepper: %s: %s\n", what, strerror(errno));
    exit(125);
}

static uint64_t entry_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    int file = open(path, O_RDONLY);
    uint64_t pair[2];
    while (read(file, pair, sizeof pair) == sizeof pair)
        if (pair[0] == AT_ENTRY) return close(file), pair[1];
    fail("no entry");
    return 0;
}

// Whether the instruction repeats itself: each turn is a step of its own.
static int repeats(pid_t pid, uint64_t at) {
    long word = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
    unsigned char byte[8];
    memcpy(byte, &word, 8);
    int i = 0, repeat = 0;
    for (; i < 4; i++) {
        if (byte[i] == 0xf2 || byte[i] == 0xf3) repeat = 1;
        else if (byte[i] != 0x66 && (byte[i] & 0xf0) != 0x40) break;
    }
    return repeat && ((byte[i] >= 0xa4 && byte[i] <= 0xa7) || (byte[i] >= 0xaa && byte[i] <= 0xaf)
        || (byte[i] >= 0x6c && byte[i] <= 0x6f));
}

int main(int argc, char **argv) {
    if (argc < 3) return 125;
    Elf64_Ehdr header;
    int file = open(argv[2], O_RDONLY);
    if (file < 0 || pread(file, &header, sizeof header, 0) != sizeof header) fail(argv[2]);
    uint64_t low = UINT64_MAX, high = 0;
    for (int i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        if (pread(file, &segment, sizeof segment, header.e_phoff + i * sizeof segment) != sizeof segment) fail(argv[2]);
        if (segment.p_type != PT_LOAD) continue;
        if (segment.p_vaddr < low) low = segment.p_vaddr;
        if (segment.p_vaddr + segment.p_memsz > high) high = segment.p_vaddr + segment.p_memsz;
    }
    close(file);
    uint64_t *counts = calloc(high - low, sizeof *counts);
    if (!counts) fail("memory");

    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[2], argv + 2);
        _exit(125);
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) fail("start");
    uint64_t entry = entry_of(pid), bias = entry - header.e_entry;
    long word = ptrace(PTRACE_PEEKTEXT, pid, entry, 0);
    ptrace(PTRACE_POKETEXT, pid, entry, (word & ~0xffl) | 0xcc);
    ptrace(PTRACE_CONT, pid, 0, 0);
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) fail("entry");
    ptrace(PTRACE_POKETEXT, pid, entry, word);
    ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rip), entry);

    uint64_t last = 0;
    int signal = 0;
    for (;;) {
        uint64_t at = ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), 0);
        uint64_t linked = at - bias;
        if (linked >= low && linked < high && !(at == last && repeats(pid, at))) counts[linked - low]++;
        last = at;
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, signal)) fail("step");
        if (waitpid(pid, &status, 0) != pid) fail("wait");
        if (!WIFSTOPPED(status)) break;
        signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        // The step that ended in a signal did not happen: it comes again, or the handler does.
        if (signal && at == ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), 0)
            && linked >= low && linked < high) {
            counts[linked - low]--;
            last = 0;
        }
    }
    FILE *out = fopen(argv[1], "w");
    if (!out) fail(argv[1]);
    for (uint64_t i = 0; i < high - low; i++)
        if (counts[i]) fprintf(out, "%lx %lu\n", (unsigned long)(low + i), (unsigned long)counts[i]);
    if (fclose(out)) fail(argv[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
