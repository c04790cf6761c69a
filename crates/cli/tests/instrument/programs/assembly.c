// Code as compilers seldom write it: flags and registers that live across everything, the red zone, loops by
// `loop` and `jrcxz`, shared tails, jumps into other functions, repeated strings.
#include <stdint.h>
#include "expect.h"

#define FUNCTION(name, body) \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n.p2align 4\n" #name ":\n.cfi_startproc\n" body \
            "\n.cfi_endproc\n.size " #name ", .-" #name "\n")

// The carry goes round the loop: nothing in it may touch the flags.
FUNCTION(add_long,
    "xor %eax, %eax\n" // also clears the carry
    "1: mov (%rsi,%rax,8), %r8\n"
    "adc %r8, (%rdi,%rax,8)\n"
    "lea 1(%rax), %rax\n"
    "lea -1(%rdx), %rdx\n"
    "mov %rdx, %rcx\n"
    "jrcxz 2f\n"
    "jmp 1b\n"
    "2: setc %al\n"
    "movzbl %al, %eax\n"
    "ret");
// All flags live across branches that look at one of them only.
FUNCTION(all_flags,
    "cmp %rsi, %rdi\n"
    "jb 1f\n"
    "jo 2f\n"
    "js 3f\n"
    "pushfq\n.cfi_adjust_cfa_offset 8\npop %rax\n.cfi_adjust_cfa_offset -8\nand $0x8d5, %eax\nret\n"
    "1: jo 2f\nseto %al\nsetp %ah\nmovzwl %ax, %eax\njp 3f\nadd $1, %eax\nret\n"
    "2: setz %al\nsetp %cl\nmovzbl %al, %eax\nmovzbl %cl, %ecx\nlea 2(%rax,%rcx,4), %eax\nret\n"
    "3: sets %al\nmovzbl %al, %eax\nadd $300, %eax\nret");
// Every register holds something, and the red zone as well.
FUNCTION(everything_lives,
    "push %rbx\n.cfi_adjust_cfa_offset 8\npush %rbp\n.cfi_adjust_cfa_offset 8\npush %r12\n.cfi_adjust_cfa_offset 8\n"
    "push %r13\n.cfi_adjust_cfa_offset 8\npush %r14\n.cfi_adjust_cfa_offset 8\npush %r15\n.cfi_adjust_cfa_offset 8\n"
    "mov $1, %eax\nmov $2, %ebx\nmov $3, %edx\nmov $4, %esi\nmov $5, %ebp\nmov $6, %r8d\nmov $7, %r9d\nmov $8, %r10d\n"
    "mov $9, %r11d\nmov $10, %r12d\nmov $11, %r13d\nmov $12, %r14d\nmov $13, %r15d\nmov %edi, %ecx\n"
    "mov %rcx, -128(%rsp)\nmov %rbx, -8(%rsp)\nmov %r15, -64(%rsp)\n"
    "stc\n"
    "1: jnc 2f\n"
    "adc $0, %rax\n"
    "stc\n"
    "2: loop 1b\n"
    "adc -128(%rsp), %rax\nadd -8(%rsp), %rax\nadd -64(%rsp), %rax\n"
    "add %rbx, %rax\nadd %rdx, %rax\nadd %rsi, %rax\nadd %rbp, %rax\nadd %r8, %rax\nadd %r9, %rax\nadd %r10, %rax\n"
    "add %r11, %rax\nadd %r12, %rax\nadd %r13, %rax\nadd %r14, %rax\nadd %r15, %rax\n"
    "pop %r15\n.cfi_adjust_cfa_offset -8\npop %r14\n.cfi_adjust_cfa_offset -8\npop %r13\n.cfi_adjust_cfa_offset -8\n"
    "pop %r12\n.cfi_adjust_cfa_offset -8\npop %rbp\n.cfi_adjust_cfa_offset -8\npop %rbx\n.cfi_adjust_cfa_offset -8\nret");
// Strings, forwards and backwards.
FUNCTION(strings,
    "mov %rdx, %rcx\nmov %rdi, %r8\nrep movsb\n"
    "mov %rdx, %rcx\nmov %r8, %rdi\nxor %eax, %eax\nrepne scasb\n"
    "jne 1f\nlea -1(%rdi), %rax\nsub %r8, %rax\nret\n"
    "1: mov $-1, %rax\nret");
// Two functions with one tail, entered by a jump into the middle of the other.
FUNCTION(first_half,
    "lea 5(%rdi), %rax\ntest %rax, %rax\njs shared_tail\nadd $1, %rax\njmp shared_tail");
FUNCTION(second_half,
    "lea 7(%rdi), %rax\n.globl shared_tail\nshared_tail: lea (%rax,%rax,2), %rax\nret");
// A return that is a jump.
FUNCTION(returns_away,
    "lea twice(%rip), %rax\npush %rax\n.cfi_adjust_cfa_offset 8\nret\n.cfi_adjust_cfa_offset -8");
// Short of room: two bytes, and then something else at once.
FUNCTION(tiny, "ret");
FUNCTION(loops_by_loop,
    "mov %rdi, %rcx\nxor %eax, %eax\n1: add %ecx, %eax\nloop 1b\nret");
// loope and loopne look at flags that a counter must not change.
FUNCTION(loops_by_loope,
    "mov %rdx, %rcx\nlea -1(%rdi), %rdi\nlea -1(%rsi), %rsi\n1: lea 1(%rdi), %rdi\nlea 1(%rsi), %rsi\n"
    "mov (%rdi), %al\ncmp %al, (%rsi)\nloope 1b\nsete %al\nmovzbl %al, %eax\nlea (%rax,%rcx,2), %rax\nret");

uint64_t add_long(uint64_t *, const uint64_t *, uint64_t);
uint64_t all_flags(int64_t, int64_t);
uint64_t everything_lives(unsigned);
long strings(char *, const char *, unsigned long);
long first_half(long), second_half(long), returns_away(long);
void tiny(void);
unsigned loops_by_loop(unsigned long);
unsigned long loops_by_loope(const char *, const char *, unsigned long);
KEEP long twice(long n) { return 2 * n; }

int main(void) {
    uint64_t a[8], b[8], sum = 0;
    for (int i = 0; i < 8; i++) { a[i] = ~0ul << (i % 3); b[i] = i * 0x1234567887654321ul + 1; }
    for (int n = 1; n <= 8; n++) sum = sum * 31 + add_long(a, b, n);
    for (int i = 0; i < 8; i++) sum = sum * 31 + a[i];
    static const int64_t numbers[] = {0, 1, -1, 2, 77, -77, INT64_MAX, INT64_MIN, 1l << 32, 255};
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++) sum = sum * 31 + all_flags(numbers[i], numbers[j]);
    for (unsigned n = 1; n < 20; n += 3) sum = sum * 31 + everything_lives(n);
    char room[64];
    for (int n = 1; n < 20; n++) sum = sum * 31 + strings(room, "some words\0and more of them", n);
    for (long n = -9; n < 9; n++) sum = sum * 31 + first_half(n) + second_half(n) * 3 + returns_away(n);
    for (int n = 0; n < 5; n++) tiny();
    for (unsigned n = 1; n < 9; n++) sum = sum * 31 + loops_by_loop(n);
    for (unsigned n = 1; n < 12; n++) sum = sum * 31 + loops_by_loope("same start", "same stop!", n);
    printf("%lu\n", sum);
    EXPECT_ENTRIES(add_long, 8);
    EXPECT_ENTRIES(all_flags, 100);
    EXPECT_ENTRIES(everything_lives, 7);
    EXPECT_ENTRIES(loops_by_loop, 8);
    return sum % 100;
}
