// A little of everything, for the single-step oracle: few instructions, many shapes.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "expect.h"

static volatile unsigned sink;

KEEP unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

KEEP unsigned classify(unsigned n) {
    switch (n) {
    case 0: return 3;
    case 1: sink += 1; return 1;
    case 2: return n * 7 + sink;
    case 3: sink ^= 5; // falls through
    case 4: return 9;
    case 5: return fibonacci(3);
    case 6: return sink & 1;
    case 7: sink += 3; return 12;
    case 8: return 77;
    default: return 0;
    }
}

KEEP unsigned interpret(const uint8_t *code) {
    static const void *const labels[] = {&&push, &&add, &&dup, &&dec, &&loop, &&end};
    unsigned stack[8], top = 0;
    const uint8_t *pc = code;
#define NEXT goto *labels[*pc++]
    NEXT;
push: stack[top++] = *pc++; NEXT;
add: top--; stack[top - 1] += stack[top]; NEXT;
dup: stack[top] = stack[top - 1]; top++; NEXT;
dec: stack[top - 1]--; NEXT;
loop: if (stack[top - 1] != 0) pc = code + *pc; else pc++; NEXT;
end: return stack[0];
}

/* Labels as fields of larger entries, as in option parsers. */
KEEP unsigned lookup(const char *name) {
    static const struct { const char *name; const void *label; } words[] = {
        {"one", &&one}, {"two", &&two}, {"three", &&three}, {"four", &&four}, {"none", &&none}};
    unsigned i = 0;
    while (i < 4 && strcmp(words[i].name, name) != 0) i++;
    goto *words[i].label;
one: return 1;
two: return 22;
three: sink += 3; return 333;
four: return 4444;
none: return 0;
}

KEEP int by_value(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

KEEP void sieve(uint8_t *flags, unsigned n) {
    memset(flags, 1, n);
    for (unsigned i = 2; i < n; i++)
        if (flags[i])
            for (unsigned j = 2 * i; j < n; j += i) flags[j] = 0;
}

KEEP uint64_t mixed(const uint32_t *v, unsigned n) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++) {
        if (v[i] & 1) continue;
        if (v[i] > 900) break;
        sum += (uint64_t)v[i] * i;
    }
    return sum;
}

KEEP double average(const double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return n ? sum / n : 0;
}

KEEP unsigned odd(unsigned n);
KEEP unsigned even(unsigned n) { return n == 0 ? 1 : odd(n - 1); }
KEEP unsigned odd(unsigned n) { return n == 0 ? 0 : even(n - 1); }

KEEP unsigned twice(unsigned n) { return 2 * n; }
KEEP unsigned thrice(unsigned n) { return 3 * n; }
static unsigned (*const table[])(unsigned) = {twice, thrice, fibonacci, even};
KEEP unsigned through(unsigned i, unsigned n) { return table[i & 3](n); }

int main(int argc, char **argv) {
    unsigned sum = fibonacci(9);
    for (unsigned i = 0; i < 30; i++) sum += classify(i % 11);
    static const uint8_t code[] = {0, 1, 0, 9, 3, 4, 4, 2, 1, 1, 5};
    sum += interpret(code);
    unsigned values[40];
    for (unsigned i = 0; i < 40; i++) values[i] = i * 7919 % 101;
    qsort(values, 40, sizeof *values, by_value);
    uint8_t flags[200];
    sieve(flags, sizeof flags);
    for (unsigned i = 0; i < sizeof flags; i++) sum += flags[i];
    sum += mixed(values, 40);
    double reals[50];
    for (int i = 0; i < 50; i++) reals[i] = i / 4.0;
    sum += (unsigned)average(reals, 50) + even(17);
    for (unsigned i = 0; i < 21; i++) sum += through(i, i % 7);
    char text[64];
    strcpy(text, "the quick brown fox");
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) sum += strlen(word);
    sum += lookup("one") + lookup("three") + lookup("four") + lookup("seven");
    printf("%u %d\n", sum, argc);
    return sum % 50;
}
