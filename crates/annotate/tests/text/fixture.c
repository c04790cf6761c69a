#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

int f(int);
void g(void);
extern __thread int counted;

/* A table, calls that do not come back, a cold piece. */
int choose(int x)
{
    switch (x) {
    case 0: return f(1);
    case 1: g(); return 3;
    case 2: return f(9);
    case 3: return f(77) + 2;
    case 4: g(); g(); return 1;
    case 5: exit(3);
    case 6: abort();
    default: return 0;
    }
}

/* A computed goto. */
int go(int *p)
{
    static void *const to[] = {&&a, &&b, &&c};
    int n = 0;
    goto *to[*p];
a:
    n++, p++;
    goto *to[*p];
b:
    n += f(2), p++;
    goto *to[*p];
c:
    return n;
}

/* A call in disguise. */
int (*table[4])(int);

int last(int i)
{
    return table[i & 3](i);
}

int die(int x)
{
    if (__builtin_expect(x, 0)) {
        fprintf(stderr, "bad; # \"%d\"\n", x);
        exit(1);
    }
    g();
    return f(x) + counted;
}

/* Bytes, another section, statements on one line. */
int by_hand(int x)
{
    asm volatile("jmp 1f\n\t.byte 1,2,3 # 4; .byte 5\n1:\n\t.pushsection .elsewhere,\"a\"\n.long 1b - .\n.popsection\n"
                 "nop; .byte 0x90; nop"
                 : "+r"(x));
    for (int i = 0; i < x; i++)
        asm volatile("" ::: "memory");
    asm volatile(".ifdef never\n\t.byte 1\n.endif\n.rept 2\n\tnop\n.endr");
    return x;
}

asm(".pushsection .text\n\tmy_own:\n\tcall f\n\tret\n\t.ascii \"a;b#c\\\"\"\n\t.popsection");

/* A function in a function, and a jump out of it. */
int outer(int x)
{
    __label__ out;
    int inner(int y)
    {
        if (y > 3)
            goto out;
        return y + x;
    }
    int r = f(inner(2));
    f((int)(long)inner);
    return r;
out:
    return 7;
}

jmp_buf here;

int jumps(int x)
{
    if (setjmp(here))
        return x;
    if (f(x))
        longjmp(here, 1);
    __builtin_unreachable();
}
