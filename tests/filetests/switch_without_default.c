// The default cannot happen and the index is not checked.
// build: gcc -O2 -nostdlib -static -fno-pic -no-pie
// build: gcc -O2 -nostdlib -shared -fPIC
// build: clang-19 -O2 -nostdlib -static -fno-pic -no-pie
// build: clang-19 -O2 -nostdlib -shared -fPIC
// expect: f understood
// expect: f tables 1
// expect: f unreached 0
void a(void), b(void), c(void);
void a(void) { __asm__ volatile("#a"); }
void b(void) { __asm__ volatile("#b"); }
void c(void) { __asm__ volatile("#c"); }

int f(int x, int y)
{
    switch (x) {
    case 0: a(); y *= 3; break;
    case 1: b(); y -= 7; break;
    case 2: c(); y ^= 5; break;
    case 3: a(); b(); y /= 9; break;
    case 4: b(); c(); y <<= 3; break;
    case 5: c(); a(); break;
    default: __builtin_unreachable();
    }
    a();
    return y;
}
