// Virtual calls, and exceptions that are thrown and caught.
#include <cstdio>
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

int main() {
    std::vector<Plain *> all;
    for (int i = 0; i < 10; i++) all.push_back(i % 2 ? new Plain : new Throwing);
    long sum = 0;
    for (int i = 0; i < 4000000; i++) {
        try {
            sum += all[i % 10]->f(i);
        } catch (std::exception &e) {
            sum += e.what()[1];
        }
    }
    printf("%ld\n", sum);
}
