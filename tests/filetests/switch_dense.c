// A plain dense switch, as compilers translate it.
// build: gcc -O0 -nostdlib -static
// build: gcc -O1 -nostdlib -static -fno-pic -no-pie
// build: gcc -O2 -nostdlib -static -fno-pic -no-pie
// build: gcc -O3 -nostdlib -shared -fPIC
// build: gcc -Os -nostdlib -shared -fPIC
// build: gcc -O2 -nostdlib -shared -fPIC -fcf-protection=full
// build: gcc -O2 -nostdlib -static -mcmodel=large -fno-pic
// build: clang-19 -O0 -nostdlib -static
// build: clang-19 -O2 -nostdlib -static -fno-pic -no-pie
// build: clang-19 -O2 -nostdlib -shared -fPIC
// build: clang-19 -Os -nostdlib -shared -fPIC -fcf-protection=full
// expect: f understood
// expect: f tables 1
// expect: f table 7 entries compared
// expect: f unreached 0
void a(void), b(void), c(void);
void a(void) { __asm__ volatile("#a"); }
void b(void) { __asm__ volatile("#b"); }
void c(void) { __asm__ volatile("#c"); }

int f(int x, int y)
{
    switch (x) {
    case 3: a(); y *= 3; break;
    case 4: b(); y -= 7; break;
    case 5: c(); y ^= 5; break;
    case 6: a(); b(); y /= 9; break;
    case 7: b(); c(); y <<= 3; break;
    case 8: c(); a(); break;
    case 9: a(); a(); y++; break;
    default: c(); c(); return 1;
    }
    a();
    return y;
}
