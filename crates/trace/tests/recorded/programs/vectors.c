// Accesses to memory that vectors and masks decide on, and x87. What the processor does not have is left out.
#include "start.h"

static unsigned char memory[1 << 14] __attribute__((aligned(64)));
static int indices[32] __attribute__((aligned(64)));
static long long_indices[16] __attribute__((aligned(64)));
static int signs[16] __attribute__((aligned(64)));
static unsigned char state[1 << 14] __attribute__((aligned(64)));

static unsigned cpuid(unsigned leaf, unsigned sub, int which) {
    unsigned all[4];
    __asm__ volatile("cpuid" : "=a"(all[0]), "=b"(all[1]), "=c"(all[2]), "=d"(all[3]) : "a"(leaf), "c"(sub));
    return all[which];
}

static unsigned enabled(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

#define AT "D"(memory + 4096), "S"(indices), "d"(long_indices), "b"(signs)
#define DO(text) __asm__ volatile(text ::AT : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm15", "rax", "rcx", "r8", "r11", "r13")

static void x87(void) {
    DO("fninit\n fldpi\n fstpt (%%rdi)\n fldt (%%rdi)\n fstps 16(%%rdi)\n flds 16(%%rdi)\n fistpll 32(%%rdi)\n"
       "fildl 32(%%rdi)\n fbstp 48(%%rdi)\n fbld 48(%%rdi)\n fstl 64(%%rdi)\n fnstcw 80(%%rdi)\n fldcw 80(%%rdi)\n"
       "fnstenv 96(%%rdi)\n fldenv 96(%%rdi)\n fnsave 128(%%rdi)\n frstor 128(%%rdi)\n fxsave 512(%%rdi)\n fxrstor 512(%%rdi)\n"
       "fninit\n");
}

static void bytes(void) {
    DO("movdqu (%%rbx), %%xmm1\n maskmovdqu %%xmm1, %%xmm0\n pcmpeqd %%xmm3, %%xmm3\n maskmovdqu %%xmm3, %%xmm0\n"
       "pxor %%xmm3, %%xmm3\n maskmovdqu %%xmm3, %%xmm0\n movdqu (%%rbx), %%xmm15\n maskmovdqu %%xmm15, %%xmm0\n"
       "movq (%%rbx), %%mm3\n maskmovq %%mm3, %%mm0\n emms\n");
}

static void gathers(void) {
    DO("vmovdqu (%%rsi), %%ymm1\n vmovdqu (%%rbx), %%ymm2\n vpgatherdd %%ymm2, 4(%%rdi, %%ymm1, 4), %%ymm0\n"
       "vmovdqu (%%rbx), %%xmm2\n vgatherdps %%xmm2, (%%rdi, %%xmm1, 8), %%xmm0\n"
       "vmovdqu (%%rdx), %%ymm1\n vmovdqu (%%rbx), %%xmm2\n vpgatherqd %%xmm2, (%%rdi, %%ymm1, 2), %%xmm0\n"
       "vmovdqu (%%rdx), %%xmm1\n vmovdqu (%%rbx), %%xmm2\n vpgatherqd %%xmm2, (%%rdi, %%xmm1, 1), %%xmm0\n"
       "vmovdqu (%%rdx), %%ymm15\n vmovdqu (%%rbx), %%ymm2\n vgatherqpd %%ymm2, (%%rdi, %%ymm15, 8), %%ymm0\n"
       "vmovdqu (%%rsi), %%xmm15\n vmovdqu (%%rbx), %%ymm2\n vpgatherdq %%ymm2, (%%rdi, %%xmm15, 1), %%ymm0\n"
       "vpcmpeqd %%ymm2, %%ymm2, %%ymm2\n mov %%rdi, %%r8\n vpgatherdd %%ymm2, 4(%%r8, %%ymm1, 4), %%ymm0\n"
       "vmovdqu (%%rbx), %%ymm2\n vmaskmovps %%ymm0, %%ymm2, (%%rdi)\n vmaskmovpd 8(%%rdi), %%ymm2, %%ymm0\n"
       "vpmaskmovd %%xmm0, %%xmm2, 3(%%rdi)\n vpmaskmovq 9(%%rdi), %%xmm2, %%xmm0\n vmaskmovdqu %%xmm2, %%xmm0\n"
       "vpxor %%xmm2, %%xmm2, %%xmm2\n vmaskmovps %%ymm0, %%ymm2, (%%rdi)\n vzeroupper\n");
}

static void masks(void) {
    DO("mov $0xb6d7, %%eax\n kmovw %%eax, %%k1\n mov $0, %%eax\n kmovw %%eax, %%k2\n mov $0xf0f7, %%eax\n kmovw %%eax, %%k7\n"
       "vmovdqu64 (%%rsi), %%zmm1\n vmovdqu64 64(%%rsi), %%zmm17\n vmovdqu64 (%%rdx), %%zmm18\n vmovdqu64 (%%rdx), %%zmm3\n"
       "kmovw %%k1, %%k3\n vpgatherdd 4(%%rdi, %%zmm1, 4), %%zmm0%{%%k3%}\n"
       "kmovw %%k1, %%k3\n vpgatherqq (%%rdi, %%zmm18, 8), %%zmm0%{%%k3%}\n"
       "kmovw %%k1, %%k3\n vgatherdpd (%%rdi, %%ymm1, 8), %%zmm0%{%%k3%}\n"
       "kmovw %%k1, %%k3\n vgatherqps (%%rdi, %%zmm3, 8), %%ymm0%{%%k3%}\n"
       "kmovw %%k2, %%k3\n vgatherqps (%%rdi, %%zmm3, 8), %%ymm0%{%%k3%}\n"
       "kmovw %%k7, %%k3\n vpscatterdd %%zmm0, (%%rdi, %%zmm17, 4)%{%%k3%}\n"
       "kmovw %%k7, %%k3\n mov %%rdi, %%r13\n vpscatterqd %%ymm0, 64(%%r13, %%zmm18, 4)%{%%k3%}\n"
       "vmovups %%zmm0, (%%rdi)%{%%k1%}\n vmovups 3(%%rdi), %%zmm0%{%%k7%}\n vmovupd %%zmm0, (%%rdi)%{%%k2%}\n vmovdqa64 %%zmm0, (%%rdi)%{%%k7%}\n"
       "vcompressps %%zmm0, (%%rdi)%{%%k1%}\n vpexpandq (%%rdi), %%zmm0%{%%k1%}\n vpcompressq %%zmm0, (%%rdi)%{%%k2%}\n"
       "vaddps (%%rdi), %%zmm0, %%zmm0%{%%k1%}\n vaddps (%%rdi)%{1to16%}, %%zmm0, %%zmm0%{%%k1%}\n vaddps (%%rdi)%{1to16%}, %%zmm0, %%zmm0%{%%k2%}\n"
       "vbroadcastf32x4 (%%rdi), %%zmm0%{%%k1%}\n vbroadcastf64x4 (%%rdi), %%zmm0%{%%k2%}\n vpbroadcastd (%%rdi), %%zmm0%{%%k1%}%{z%}\n"
       "vpmovdb %%zmm0, (%%rdi)%{%%k1%}\n vpmovzxbd (%%rdi), %%zmm0%{%%k1%}\n vextractf32x4 $1, %%zmm0, (%%rdi)%{%%k1%}\n"
       "vmovss (%%rdi), %%xmm0%{%%k1%}\n vmovsd %%xmm0, (%%rdi)%{%%k2%}\n vpermd (%%rdi), %%zmm0, %%zmm0%{%%k1%}\n vpmuldq (%%rdi), %%zmm0, %%zmm0%{%%k1%}\n");
}

static void small_masks(void) {
    DO("mov $0x5a3c9ff0b6d700f1, %%rax\n kmovq %%rax, %%k1\n mov $0xa5, %%eax\n kmovw %%eax, %%k2\n"
       "vmovdqu64 (%%rsi), %%ymm17\n vmovdqu64 (%%rdx), %%xmm18\n"
       "vmovdqu8 %%zmm0, (%%rdi)%{%%k1%}\n vmovdqu16 (%%rdi), %%zmm0%{%%k1%}\n vmovdqu8 %%xmm0, 1(%%rdi)%{%%k1%}\n vmovdqu32 %%ymm0, 1(%%rdi)%{%%k1%}\n"
       "kmovq %%k1, %%k3\n vpgatherdd (%%rdi, %%ymm17, 4), %%ymm0%{%%k3%}\n kmovq %%k2, %%k3\n vpgatherqd (%%rdi, %%xmm18, 4), %%xmm0%{%%k3%}\n"
       "kmovq %%k2, %%k3\n vscatterdpd %%ymm0, (%%rdi, %%xmm17, 4)%{%%k3%}\n");
}

static void more_masks(void) { DO("vpcompressb %%zmm0, (%%rdi)%{%%k1%}\n vpexpandw (%%rdi), %%zmm0%{%%k1%}\n"); }

#define SAVED "a"(low), "d"(high), "D"(state) : "memory"
static void saves(void) {
    unsigned extended = cpuid(0xd, 1, 0);
    unsigned sets[][2] = {{-1, -1}, {7, 0}, {3, 0}, {0x20, 0}, {0xe6, 0}, {0x200, 0}};
    for (int i = 0; i < sizeof sets / sizeof *sets; i++) {
        unsigned low = sets[i][0], high = sets[i][1];
        if (extended & 2) {
            __asm__ volatile("xsavec64 (%%rdi)\n xrstor64 (%%rdi)" ::SAVED);
            __asm__ volatile("mov %%rdi, %%r8\n xsavec (%%r8)\n xrstor (%%r8)" ::SAVED, "r8");
        }
        for (int i = 512; i < 576; i++) state[i] = 0;
        __asm__ volatile("xsave (%%rdi)" ::SAVED);
        if (extended & 1) __asm__ volatile("xsaveopt (%%rdi)" ::SAVED);
    }
}

int run(int argc, char **argv) {
    for (int i = 0; i < 32; i++) indices[i] = i * 37 % 61 - 30;
    for (int i = 0; i < 16; i++) long_indices[i] = i * 41 % 67 - 33;
    for (int i = 0; i < 16; i++) signs[i] = 0x80ff7f01 * (i * 0x9e3779b1u >> 3 | 1);
    x87();
    bytes();
    if (!(cpuid(1, 0, 2) & 1 << 27)) return 0;
    unsigned parts = enabled();
    saves();
    unsigned has = cpuid(7, 0, 1);
    if ((parts & 6) == 6 && has & 1 << 5) gathers();
    if ((parts & 0xe6) == 0xe6 && has & 1 << 16) {
        masks();
        if (has & 1 << 30 && has & 1u << 31) {
            small_masks();
            if (cpuid(7, 0, 2) & 1 << 6) more_masks();
        }
        saves();
    }
    return 0;
}
