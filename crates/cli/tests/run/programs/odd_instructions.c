/* Instructions that compilers hardly ever use. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf out;
static int code, place;
static void *expected_at;

static void jump_out(int number, siginfo_t *info, void *context)
{
    code = info->si_code;
    place = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] == expected_at;
    siglongjmp(out, number);
}

/* Executes something that fails at a known place, and says how. */
#define FAILS(name, text)                                                                                              \
    do {                                                                                                               \
        int number = sigsetjmp(out, 1);                                                                                \
        if (!number) {                                                                                                 \
            __asm__ volatile("lea 9f(%%rip), %%rax; mov %%rax, %0; 9: " text : "=m"(expected_at) : : "rax", "memory"); \
            puts(name " went on");                                                                                     \
        } else                                                                                                         \
            printf(name " signal %d code %d place %d\n", number, code, place);                                         \
    } while (0)

static uint32_t *low;

int main(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = jump_out;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    static char other[65536];
    stack_t stack = {other, 0, sizeof other};
    sigaltstack(&stack, 0);
    for (int i = 1; i < 12; i++)
        sigaction(i, &action, 0);
    uint64_t a, b;

    FAILS("hlt", "hlt");
    FAILS("ud2", "ud2");
    FAILS("ud1", "ud1 %%eax, %%eax");
    FAILS("int 3", "int3");
    FAILS("int 0x21", "int $0x21");
    FAILS("cli", "cli");
    FAILS("in", "in $0x80, %%al");
    FAILS("wrong far", "pushq $7; pushq $9; lretq");
    FAILS("wrong iret", "pushq $0; pushq $0; pushfq; pushq $7; pushq $9; iretq");
    FAILS("lock", ".byte 0xf0, 0x90");
    FAILS("wrong load", "mov $-2, %%rax; shr $1, %%rax; mov (%%rax), %%al");
    FAILS("stack", "mov %%rsp, %%rcx; mov $-2, %%rsp; shr $1, %%rsp; push %%rax");

    /* Only to learn where it is, more than once; away from what lies below the stack pointer. */
    __asm__ volatile("sub $128, %%rsp; mov $3, %%ecx\n1:\tcall 2f\n2:\tpop %%rax; dec %%ecx; jnz 1b; add $128, %%rsp\n\t"
                     "lea 2b(%%rip), %%rdx; sub %%rdx, %%rax"
                     : "=a"(a)
                     :
                     : "rcx", "rdx", "memory", "cc");
    printf("call of the next %d\n", (int)a);

    __asm__ volatile("mov $5, %%ecx; xor %%eax, %%eax\n1:\tadd %%rcx, %%rax; loop 1b\n\t"
                     "mov $5, %%ecx\n2:\tinc %%eax; cmp $20, %%eax; loopne 2b\n\t"
                     "mov $3, %%ecx\n3:\tcmp %%eax, %%eax; loope 3b; jrcxz 4f; mov $99, %%eax\n4:\t"
                     "mov $0x100000000, %%rcx; jecxz 5f; mov $98, %%eax\n5:"
                     : "=a"(a)
                     :
                     : "rcx", "cc");
    printf("loops %ld\n", a);

    __asm__ volatile("sub $128, %%rsp; push %%rbp; mov %%rsp, %%rbp; enter $32, $2; mov -16(%%rbp), %%rax; sub %%rbp, %%rax; "
                     "mov %%rsp, %%rcx; sub %%rbp, %%rcx; leave; pop %%rbp; add $128, %%rsp"
                     : "=a"(a), "=c"(b)
                     :
                     : "memory", "cc");
    printf("enter %ld\n", (long)b);

    static const char table[] = "abcdefgh";
    __asm__ volatile("xlatb" : "=a"(a) : "a"(3ul), "b"(table));
    printf("xlat %c\n", (char)a);

    /* Far returns and the like, to the same kind of code. */
    __asm__ volatile("sub $128, %%rsp; pushq $0x33; lea 1f(%%rip), %%rax; push %%rax; mov $1, %%ecx; lretq; mov $2, %%ecx\n"
                     "1:\tadd $128, %%rsp; mov %%rcx, %0"
                     : "=r"(a)
                     :
                     : "rax", "rcx", "cc", "memory");
    __asm__ volatile("sub $128, %%rsp; push %%rax; pushq $0x33; lea 1f(%%rip), %%rax; push %%rax; mov $1, %%ecx; lretq $8; mov $2, %%ecx\n"
                     "1:\tadd $128, %%rsp; mov %%rcx, %0"
                     : "=r"(b)
                     :
                     : "rax", "rcx", "cc", "memory");
    printf("far returns %ld %ld\n", a, b);
    __asm__ volatile("mov %%rsp, %%rdx; sub $128, %%rsp; pushq $0x2b; push %%rdx; pushfq; orq $1, (%%rsp); pushq $0x33; "
                     "lea 1f(%%rip), %%rax; push %%rax; xor %%ecx, %%ecx; iretq; mov $2, %%ecx\n"
                     "1:\tadc $5, %%rcx; mov %%rsp, %1; sub %%rdx, %1; mov %%rcx, %0"
                     : "=&r"(a), "=&r"(b)
                     :
                     : "rax", "rcx", "rdx", "cc", "memory");
    printf("iret %ld %ld\n", a, b);

    /* Low memory, for addresses of four bytes. */
    unsigned char *page = mmap((void *)0x30000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page == (void *)0x30000000) {
        static const unsigned char relative[] = {
            0x67, 0x8b, 0x05, 0xf9, 0, 0, 0,       /* mov eax, [eip + 0xf9], which is 0x100 */
            0x67, 0x48, 0x03, 0x05, 0xf5, 0, 0, 0, /* add rax, [eip + 0xf5], which is 0x104 */
            0x67, 0x48, 0x8d, 0x0d, 9, 0, 0, 0,    /* lea rcx, [eip + 9] */
            0x67, 0xc7, 0x05, 0xf7, 0, 0, 0, 1, 2, 3, 4, /* mov dword [eip + 0xf7], 0x04030201 */
            0xc3,
        };
        memcpy(page, relative, sizeof relative);
        low = (uint32_t *)(page + 0x100);
        low[0] = 100;
        low[1] = 20;
        low[2] = 0;
        __asm__ volatile("sub $128, %%rsp; call *%2; add $128, %%rsp" : "=&a"(a), "=&c"(b) : "r"(page) : "cc", "memory");
        printf("relative to eip %lx %lx", a, b);
        for (int i = 0; i < 16; i++)
            printf(" %x", low[i]);
        puts("");
        /* jmp far, call far: an address and a selector. */
        static const unsigned char far[] = {
            0xff, 0x2c, 0x25, 0x00, 0x02, 0x00, 0x30, /* jmp far [0x30000200] */
            0x0f, 0x0b,
            0xff, 0x1c, 0x25, 0x08, 0x02, 0x00, 0x30, /* 9: call far [0x30000208] */
            0x83, 0xc0, 1,                            /* add eax, 1 */
            0xc3,
            0xb8, 40, 0, 0, 0,                        /* 20: mov eax, 40 */
            0xcb,                                     /* retf, of four bytes each */
        };
        memcpy(page + 0x400, far, sizeof far);
        uint32_t targets[] = {0x30000409, 0x33, 0x30000414, 0x33};
        memcpy(page + 0x200, targets, sizeof targets);
        __asm__ volatile("sub $128, %%rsp; call *%1; add $128, %%rsp" : "=&a"(a) : "r"(page + 0x400) : "rcx", "cc", "memory");
        printf("far %ld\n", a);

        /* Calls of the kernel as of a 32-bit program. */
        strcpy((char *)page + 0x800, "int 0x80\n");
        __asm__ volatile("int $0x80" : "=a"(a) : "a"(20), "b"(0), "c"(0), "d"(0) : "memory");
        printf("number %d\n", a == (uint64_t)getpid());
        fflush(stdout);
        __asm__ volatile("int $0x80" : "=a"(a) : "a"(4), "b"(1), "c"(page + 0x800), "d"(9) : "memory");
        uint64_t mapped;
        __asm__ volatile("push %%rbp; xor %%ebp, %%ebp; int $0x80; pop %%rbp"
                         : "=a"(mapped)
                         : "a"(192), "b"(0x31000000), "c"(4096), "d"(7), "S"(0x32), "D"(-1)
                         : "memory");
        printf("mapped %lx\n", mapped);
        unsigned char *made = (unsigned char *)mapped;
        for (int i = 0; i < 5; i++) {
            static const unsigned char body[] = {0xb8, 0, 0, 0, 0, 0xc3};
            memcpy(made, body, sizeof body);
            made[1] = (unsigned char)i;
            b = b * 10 + ((int (*)(void))made)();
            __asm__ volatile("int $0x80" : "=a"(a) : "a"(125), "b"(made), "c"(4096), "d"(i % 2 ? 7 : 7) : "memory");
            b += a;
        }
        printf("made %ld\n", b % 100000);
        fflush(stdout);
        pid_t child;
        __asm__ volatile("int $0x80" : "=a"(child) : "a"(2) : "memory");
        if (!child) {
            puts("child");
            fflush(stdout);
            __asm__ volatile("int $0x80" : : "a"(252), "b"(6));
        }
        int status;
        waitpid(child, &status, 0);
        printf("ended %d\n", WEXITSTATUS(status));
    }

    /* What other processors have; nothing on those without. */
    __asm__ volatile("endbr64; xor %%eax, %%eax; rdsspq %%rax; lea 1f(%%rip), %%rcx; notrack jmp *%%rcx; ud2\n1:"
                     : "=&a"(a)
                     :
                     : "rcx", "memory");
    printf("shadow %lx\n", a);
    FAILS("transaction", "mov $-1, %%eax; .byte 0xc7, 0xf8, 0, 0, 0, 0; cmp $-1, %%eax; jne 1f; .byte 0x0f, 0x01, 0xd5\n1:");

    /* With prefixes that mean nothing, and in the middle of another instruction. */
    __asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0x05" : "=a"(a) : "a"(SYS_getppid) : "rcx", "r11", "memory");
    printf("parent %d\n", a == (uint64_t)getppid());
    __asm__ volatile("mov $39, %%eax; jmp 1f+1\n1:\t.byte 0xb9, 0x0f, 0x05, 0x90, 0x90" : "=a"(a) : : "rcx", "r11", "memory");
    printf("number %d\n", a == (uint64_t)getpid());
    __asm__ volatile("mov $0x100000027, %%rax; syscall" : "=a"(a) : : "rcx", "r11", "memory");
    printf("number %d\n", a == (uint64_t)getpid());
    printf("no such call %ld\n", syscall(0xffff));
    return 0;
}
