/* Addresses of labels that are read from tables, kept in memory, and compared. */
#include <stdio.h>

__attribute__((noinline)) int compared(const unsigned char *p, int *met) {
    static const void *const labels[] = { &&add, &&mul, &&neg, &&end };
    int s = 0;
    const void *next;
#define NEXT do { next = labels[*p++]; if (next == &&neg) ++*met; goto *next; } while (0)
    NEXT;
add: s += p[0]; NEXT;
mul: s *= 3; NEXT;
neg: s = -s; NEXT;
end: return s;
}

__attribute__((noinline)) int threaded(const unsigned char *p, int n) {
    static const void *const labels[] = { &&add, &&mul, &&neg, &&end };
    static const void *code[64];
    int i, s = 0, negs = 0;
    for (i = 0; i < n; i++) code[i] = labels[p[i]];
    for (i = 0; i < n; i++) if (code[i] == &&neg) negs++;
    const void **pc = code;
    goto **pc++;
add: s += 2; goto **pc++;
mul: s *= 3; goto **pc++;
neg: s = -s; goto **pc++;
end: return s * 100 + negs;
}

/* No instruction names a label, and all words are in the table: what is read from it is kept. */
__attribute__((noinline)) int kept(const unsigned char *p, int n) {
    static const void *const labels[] = { &&inc, &&dbl, &&sqr, &&out };
    static const void *code[64];
    int i, s = 1;
    for (i = 0; i < n; i++) code[i] = labels[p[i]];
    const void **pc = code;
    goto **pc++;
inc: s += 1; goto **pc++;
dbl: s *= 2; goto **pc++;
sqr: s *= s; goto **pc++;
out: return s;
}

/* No instruction names a label: one word outside of the table does. */
__attribute__((noinline)) int marked(const unsigned char *p, int *met) {
    static const void *const labels[] = { &&add, &&mul, &&end };
    static const void *volatile mark = &&mul;
    int s = 1;
    const void *next;
#define TO do { next = labels[*p++ % 3]; if (next == mark) ++*met; goto *next; } while (0)
    TO;
add: s += p[0]; TO;
mul: s *= 5; TO;
end: return s;
}

int main(void) {
    const unsigned char *code = (const unsigned char *)"\0\1\2\0\1\2\2\3";
    int met = 0, found = 0;
    int a = compared(code, &met), b = threaded(code, 8), c = marked((const unsigned char *)"\0\1\1\0\2", &found);
    printf("%d %d %d %d %d %d\n", a, met, b, c, found, kept(code, 8));
    return 0;
}
