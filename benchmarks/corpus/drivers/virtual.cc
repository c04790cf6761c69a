// Virtual calls, and exceptions that are thrown and caught: so many times.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

struct Plain {
    virtual int f(int x) { return x; }
    virtual ~Plain() {}
};

struct Throwing : Plain {
    int f(int x) override {
        if (x % 3 == 0) throw std::runtime_error("x" + std::to_string(x));
        return x * 2;
    }
};

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 4000000;
    std::vector<Plain *> all;
    for (int i = 0; i < 10; i++) all.push_back(i % 2 ? new Plain : new Throwing);
    long sum = 0;
    for (int i = 0; i < times; i++) {
        try {
            sum += all[i % 10]->f(i);
        } catch (std::exception &e) {
            sum += e.what()[1];
        }
    }
    printf("%ld\n", sum);
}
