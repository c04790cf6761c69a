// Loops whose rounds a register tells: every stride, width and direction, several ways out, nests, and some that only
// look like it.
#include <stdint.h>
#include <stdio.h>

#define KEEP __attribute__((noinline, noclone))
// The compiler must neither unroll, vectorise nor replace what it cannot see through.
#define BARRIER(x) __asm__ volatile("" : "+r"(x))

static unsigned char bytes[256];
static uint64_t words[64];

#define FORWARD(name, type, step) \
    KEEP type name(type from, type to) { type i = from, s = 0; do { s += i; BARRIER(s); i += step; } while (i < to); return s; }
FORWARD(up1, uint64_t, 1)
FORWARD(up2, uint64_t, 2)
FORWARD(up4, uint64_t, 4)
FORWARD(up8, uint64_t, 8)
FORWARD(up16, uint64_t, 16)
FORWARD(up64, uint64_t, 64)
FORWARD(up12, uint64_t, 12)
FORWARD(up128, uint64_t, 128)
FORWARD(half1, uint32_t, 1)
FORWARD(half4, uint32_t, 4)
FORWARD(quarter1, uint16_t, 1)

#define BACKWARD(name, type, step) \
    KEEP type name(type from, type to) { type i = from, s = 0; while (i > to) { s ^= i; BARRIER(s); i -= step; } return s; }
BACKWARD(down1, int64_t, 1)
BACKWARD(down8, int64_t, 8)
BACKWARD(down_half, int32_t, 2)

// Left before or after the step.
KEEP unsigned long find(const unsigned char *p, const unsigned char *end, unsigned char what) {
    for (; p != end; p++) {
        if (*p == what) return 1 + (unsigned long)p % 2;
        if (*p == 255) return 0;
    }
    return 7;
}
// Two ways round.
KEEP uint64_t flip(uint64_t *p, uint64_t *end, uint64_t mask, uint64_t bit) {
    uint64_t n = 0;
    for (; p != end; p++) {
        if ((*p & mask) == mask) {
            *p ^= bit;
            BARRIER(n);
        } else {
            n += 3;
        }
    }
    return n;
}
// A step on one of two ways only.
KEEP unsigned sometimes(unsigned n) {
    unsigned i = 0, rounds = 0;
    while (i < n) {
        rounds++;
        BARRIER(rounds);
        if (rounds & 1) i++;
    }
    return rounds;
}
// Steps that differ.
KEEP unsigned zigzag(unsigned n) {
    unsigned i = 0, s = 0;
    while (i < n) {
        if (s & 1) i += 1; else i += 2;
        s += i;
        BARRIER(s);
    }
    return s;
}
// A nest without calls, with ways out of both loops at once.
KEEP unsigned long nest(const unsigned char *p, const unsigned char *end) {
    unsigned long n = 0;
    while (p != end) {
        if (*p >= 0xc0) {
            do {
                p++;
                n += 2;
                if (p == end) return n;
                BARRIER(n);
            } while ((*p & 0xc0) == 0x80);
            continue;
        }
        p++;
        n++;
        BARRIER(n);
    }
    return n + 1;
}
KEEP uint64_t square(unsigned rows, unsigned columns) {
    uint64_t s = 0;
    for (unsigned r = 0; r < rows; r++)
        for (unsigned c = 0; c < columns; c++) {
            if ((r ^ c) & 1) s += c; else s ^= r;
            BARRIER(s);
        }
    return s;
}
// It wraps round on the way.
KEEP uint32_t wrap(uint32_t from, uint32_t to) {
    uint32_t n = 0;
    for (uint32_t i = from; i != to; i++) { n++; BARRIER(n); }
    return n;
}
// Nothing but the registers: the flags of the last round are used behind the loop.
KEEP long flags(long n) {
    long r;
    __asm__ volatile("1: sub $1, %0\n\tjnz 1b\n\tsetz %b1\n\tmovzbl %b1, %k1" : "+r"(n), "=&q"(r) : : "cc");
    return r;
}
KEEP long count_down(long n) {
    __asm__ volatile("1: loop 1b" : "+c"(n));
    return n;
}

int main(void) {
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)(i * 37 % 251);
    for (int i = 0; i < 64; i++) words[i] = (uint64_t)i * i;
    uint64_t s = 0;
    for (uint64_t n = 0; n < 5; n++) {
        uint64_t to = n * n * 7;
        s += up1(n, to) + up2(n, to) + up4(n, to) + up8(n, to) + up16(n, to) + up64(n, to) + up12(n, to) + up128(n, to);
        s += half1((uint32_t)n, (uint32_t)to) + half4((uint32_t)n, (uint32_t)to) + quarter1((uint16_t)n, (uint16_t)to);
        s += (uint64_t)(down1((int64_t)to, -3) + down8((int64_t)to, -50) + down_half((int32_t)to, -5));
        s += find(bytes, bytes + 20 * n, (unsigned char)(n * 41)) + flip(words, words + 9 * n, n, 4);
        s += sometimes((unsigned)to) + zigzag((unsigned)to) + nest(bytes, bytes + 50 * n) + square((unsigned)n * 2, (unsigned)n * 3);
        s += wrap((uint32_t)-20, (uint32_t)to) + (uint64_t)flags((long)n + 1) + (uint64_t)count_down((long)n + 3);
    }
    printf("%lu\n", (unsigned long)s);
    return 0;
}
