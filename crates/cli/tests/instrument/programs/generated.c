// Makes code and runs it, other code in the same place, and code that calls back; says how often.
#include "expect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef unsigned (*function)(unsigned);

// xor eax, eax; again: add eax, edi; dec edi; jnz again; ret
static const unsigned char sum[] = {0x31, 0xc0, 0x01, 0xf8, 0xff, 0xcf, 0x75, 0xfa, 0xc3};
// The same with sub.
static const unsigned char difference[] = {0x31, 0xc0, 0x29, 0xf8, 0xff, 0xcf, 0x75, 0xfa, 0xc3};
// push rbx; mov ebx, edi; call sum; mov edi, ebx; call sum; lea edi, [rax+1]; pop rbx; mov rax, …; jmp rax
static const unsigned char twice[] = {0x53, 0x89, 0xfb, 0xe8, 0, 0, 0, 0, 0x89, 0xdf, 0xe8, 0, 0, 0, 0, 0x8d, 0x78, 0x01,
                                      0x5b, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};

__attribute__((noinline)) static unsigned called_back(unsigned n) {
    asm volatile("");
    return n * 2;
}

static void put(unsigned char *at, const void *code, size_t len, int can_write) {
    if (!can_write) mprotect(at, 4096, PROT_READ | PROT_WRITE);
    memcpy(at, code, len);
    if (!can_write) mprotect(at, 4096, PROT_READ | PROT_EXEC);
}

static void relative(unsigned char *at, const unsigned char *to) {
    int distance = (int)(to - (at + 4));
    memcpy(at, &distance, 4);
}

int main(int argc, char **argv) {
    int can_write = argc > 1 && !strcmp(argv[1], "writable");
    int rights = PROT_READ | PROT_WRITE | (can_write ? PROT_EXEC : 0);
    unsigned char *at = mmap((void *)0x70000000, 8192, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) return 1;
    function f = (function)(void *)at, g = (function)(void *)(at + 4096);
    unsigned total = 0;
    for (unsigned round = 0; round < 4; round++) {
        put(at, round % 2 ? difference : sum, sizeof sum, can_write);
        for (unsigned i = 0; i < 10 + round; i++) total += f(5);
    }
    // Rounds 0 and 2, and 1 and 3, had the same code.
    put(at, sum, sizeof sum, can_write);
    unsigned char code[sizeof twice];
    memcpy(code, twice, sizeof twice);
    relative(code + 4, at - (size_t)(at + 4096) + (size_t)code);
    relative(code + 11, at - (size_t)(at + 4096) + (size_t)code);
    void *back = (void *)called_back;
    memcpy(code + 21, &back, 8);
    put(at + 4096, code, sizeof code, can_write);
    for (unsigned i = 0; i < 7; i++) total += g(3);
    printf("%u\n", total);
    // What is at the address of something else has an address of another version, and so has what comes later.
    const char *first = "fn_70000000", *second = "fn_800070000000", *third = "fn_800070001000";
    if (argc > 1 && !strcmp(argv[1], "named")) first = "sum", second = "sum#2", third = "twice#2";
    printf("expect entries %s %d\n", first, 10 + 12 + 14);
    printf("expect entries %s %d\n", second, 11 + 13);
    printf("expect entries %s 7\n", third);
    printf("expect calls main %s %d\n", first, 10 + 12);
    printf("expect calls main %s %d\n", second, 11 + 13);
    printf("expect calls %s %s 14\n", third, first);
    printf("expect calls %s called_back 7\n", third);
    printf("expect entries called_back 7\n");
    if (argc > 1 && !strcmp(argv[1], "named")) {
        char path[64];
        sprintf(path, "/tmp/perf-%d.map", getpid());
        FILE *names = fopen(path, "w");
        fprintf(names, "70000000 %zx sum\n70001000 %zx twice\n", sizeof sum, sizeof twice);
        fclose(names);
    }
    return 0;
}
