// A call inside try has an edge to where its exception lands.
// build: g++ -O2 -shared -fPIC
// build: g++ -O0 -shared -fPIC
// build: clang++-19 -O2 -shared -fPIC
// expect: f understood
// expect: f edges landing-pad 1
extern "C" void may_throw(int);

extern "C" int f(int x)
{
    try {
        may_throw(x);
        return 1;
    } catch (...) {
        return 2;
    }
}
