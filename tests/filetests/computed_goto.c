// A bytecode interpreter with a static table of labels, used by a jump at the end of every instruction.
// build: gcc -O2 -nostdlib -static
// build: gcc -O2 -fno-gcse -nostdlib -shared -fPIC
// build: gcc -O1 -nostdlib -static-pie
// build: gcc -O0 -nostdlib -static
// build: clang-19 -O2 -nostdlib -static
// build: clang-19 -O2 -nostdlib -shared -fPIC
// expect: run understood
// expect: run unreached 0
// expect: run returns
long run(const unsigned char *code, long acc)
{
    static const void *const labels[] = { &&halt, &&inc, &&dec, &&twice, &&neg };
    goto *labels[*code++];
inc:
    acc++;
    goto *labels[*code++];
dec:
    acc--;
    goto *labels[*code++];
twice:
    acc *= 2;
    goto *labels[*code++];
neg:
    acc = -acc;
    goto *labels[*code++];
halt:
    return acc;
}
