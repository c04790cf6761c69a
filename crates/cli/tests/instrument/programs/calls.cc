// Indirect calls of known number.
#include <cstdlib>
#include <cstring>
#include "expect.h"
static volatile unsigned sink;
struct Shape { virtual ~Shape() {} virtual int area(int n) const = 0; };
extern "C" {
KEEP int square_area(int n) { return n * n; }
KEEP int circle_area(int n) { return 3 * n * n; }
KEEP unsigned red(unsigned n) { sink += n; return n + 1; }
KEEP unsigned green(unsigned n) { sink += n; return n + 2; }
KEEP unsigned blue(unsigned n) { sink += n; return n + 3; }
typedef unsigned (*Colour)(unsigned);
static Colour colours[] = {red, green, blue};
KEEP unsigned paint(Colour *table, unsigned i) { return table[i % 3](i) * 2; }
KEEP unsigned pass_on(Colour *table, unsigned i) { return table[i % 3](i); }
KEEP unsigned sometimes(Colour colour, unsigned i) { return i % 2 ? colour(i) : 0; }
KEEP int compare(const void *a, const void *b) {
    sink = sink + 1;
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}
typedef size_t (*Length)(const char *);
KEEP size_t measure(Length length, const char *text) { return length(text) + 1; }
typedef int many_function(int);
#define ONE(n) KEEP int many##n(int i) { sink += i; return i + n; }
ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9)
static many_function *const all[] = {many0, many1, many2, many3, many4, many5, many6, many7, many8, many9};
KEEP int one_of_many(int i) { return all[i % 10](i) + 1; }
}
struct Square : Shape { int area(int n) const override { return square_area(n) + 1; } };
struct Circle : Shape { int area(int n) const override { return circle_area(n) + 1; } };
extern "C" KEEP int virtual_call(const Shape *shape, int n) { return shape->area(n) + 1; }

int main(int argc, char **) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 300; i++) sum += paint(colours, i);
    for (unsigned i = 0; i < 150; i++) sum += pass_on(colours, i);
    for (unsigned i = 0; i < 40; i++) sum += sometimes(blue, i);
    Shape *shapes[] = {new Square, new Circle, new Square};
    for (int i = 0; i < 99; i++) sum += virtual_call(shapes[i % 3], i);
    int values[64];
    for (int i = 0; i < 64; i++) values[i] = i * 37 % 64;
    sink = 0;
    qsort(values, 64, sizeof *values, compare);
    unsigned comparisons = sink;
    Length volatile length = strlen;
    for (int i = 0; i < 25; i++) sum += measure(length, "twelve chars");
    for (int i = 0; i < 1000; i++) sum += one_of_many(i);
    for (Shape *shape : shapes) delete shape;
    printf("%u %d\n", sum, values[10]);
    EXPECT_CALLS(paint, red, 100);
    EXPECT_CALLS(paint, green, 100);
    EXPECT_CALLS(paint, blue, 100);
    EXPECT_CALLS(pass_on, red, 50);
    EXPECT_CALLS(pass_on, green, 50);
    EXPECT_CALLS(pass_on, blue, 50);
    EXPECT_CALLS(sometimes, blue, 20);
    EXPECT_CALLS(virtual_call, _ZNK6Square4areaEi, 66);
    EXPECT_CALLS(virtual_call, _ZNK6Circle4areaEi, 33);
    EXPECT_CALLS(one_of_many, many0, 100);
    EXPECT_CALLS(one_of_many, many9, 100);
    EXPECT_ENTRIES(compare, comparisons);
    return 0;
}
