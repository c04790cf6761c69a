#include <exception>

struct Bad : std::exception { explicit Bad(const char *what); ~Bad(); };
struct A { A(); ~A(); };
void g(int);

int f(int x)
{
    A a;
    try {
        if (x == 3)
            throw Bad("x");
        g(x);
    } catch (std::exception &e) {
        g(2);
        return 1;
    } catch (int) {
        throw;
    }
    return 2;
}

struct B { virtual int m(int x); int b; };
struct C { virtual int n(int x); int c; };
struct D : B, virtual C { int m(int x) override; int n(int x) override; };

int B::m(int x) { return x; }
int C::n(int x) { return x; }
int D::m(int x) { g(x); return c; }
int D::n(int x) { return m(x); }

template <class T> int choose(T x)
{
    switch (x) {
    case 0: g(1); return 5;
    case 1: g(5); g(6); return 3;
    case 2: return f(9);
    case 3: return f(77) + 2;
    case 4: return f(8) * 2;
    case 5: throw x;
    case 6: return f(3);
    default: __builtin_unreachable();
    }
}

template int choose<int>(int);
template int choose<long>(long);

extern "C" [[noreturn]] void never(int);

int cold(int x)
{
    if (x > 100)
        never(x);
    return x;
}

/* Calls that come back, before the end of a block that does not go on behind it. */
int rounds(int x)
{
    for (;;) {
        g(x);
        try {
            if (f(x))
                g(1);
            else
                never(7);
        } catch (...) {
            g(x + 1);
        }
    }
}
