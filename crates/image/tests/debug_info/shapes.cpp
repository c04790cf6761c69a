#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
namespace shapes {
struct Shape {
    explicit Shape(int n) : sides(n) { if (n < 0) throw std::invalid_argument("negative"); }
    virtual ~Shape() {}
    virtual long area(long by) const { return by * sides + scaled(by); }
    long scaled(long by) const { return twice(by) - sides; }
    static long twice(long x) { return x * 2 + std::abs(x); }
    int sides;
};
struct Square final : Shape {
    Square() : Shape(4) {}
    long area(long by) const override { return by * by; }
};
template <class T> T clamp(T low, T x, T high) { return x < low ? low : high < x ? high : x; }
}
static std::map<std::string, int> seen;
static inline int innermost(int x) { return x * 7 ^ x >> 3; }
static inline int middle(int x) { return innermost(x) + innermost(x + 1); }
static inline int outer(int x) { for (int i = 0; i < 3; ++i) x += middle(x ^ i); return x; }
__attribute__((noinline)) int work(int x) { return outer(x) + outer(x * 3) % 11; }
__attribute__((noinline)) long total(const std::vector<shapes::Shape*>& all, long by) {
    long sum = 0;
    std::for_each(all.begin(), all.end(), [&](shapes::Shape* s) { sum += s->area(by); });
    return shapes::clamp<long>(-100, sum, 100000);
}
int main(int argc, char** argv) {
    std::vector<int> numbers;
    for (int i = 0; i < argc * 10; ++i) numbers.push_back(work(i));
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a % 13 < b % 13; });
    seen[argv[0]] = numbers.front();
    shapes::Shape triangle(3);
    shapes::Square square;
    try { std::printf("%ld %d\n", total({&triangle, &square}, argc), seen[argv[0]]); }
    catch (const std::exception& e) { std::puts(e.what()); return 1; }
    return 0;
}
