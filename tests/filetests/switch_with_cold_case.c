// Cases that end in a cold function move to a piece of their own, and the table leads there.
// build: gcc -O2 -nostdlib -static -fno-pic -no-pie
// build: gcc -O2 -nostdlib -shared -fPIC
// expect: f understood
// expect: f pieces 2
// expect: f entries 1
// expect: f tables 1
// expect: f table 7 entries compared
// expect: f unreached 0
// expect: no function at f.cold
void a(int);
__attribute__((noinline)) void a(int x) { __asm__ volatile("#a %0" ::"r"(x)); }
__attribute__((cold, noreturn, noinline)) void die(int x);
__attribute__((cold, noreturn, noinline)) void die(int x) { for (;;) a(x); }

int f(int x, int y)
{
    switch (x) {
    case 0: a(3); y *= 3; break;
    case 1: a(4); y -= 7; break;
    case 2: die(y); break;
    case 3: a(8); a(y); y /= 9; break;
    case 4: a(9); y <<= 3; break;
    case 5: die(17); break;
    case 6: a(18); y ^= 4; break;
    default: die(18); break;
    }
    a(y);
    return y;
}
