// A bytecode interpreter as a switch in a loop: compilers move the table's address out of the loop, and
// repeat the jump at the end of cases.
// build: gcc -O0 -nostdlib -static
// build: gcc -O2 -nostdlib -shared -fPIC
// build: gcc -O3 -nostdlib -static -fno-pic -no-pie
// build: clang-19 -O2 -nostdlib -shared -fPIC
// build: clang-19 -O3 -nostdlib -static
// expect: run understood
// expect: run unreached 0
// expect: run table 6 entries compared
long run(const unsigned char *code, long *stack)
{
    for (;;) {
        switch (*code++) {
        case 0: return *stack;
        case 1: stack[1] = *stack; stack++; break;
        case 2: stack[-1] += *stack; stack--; break;
        case 3: stack[-1] *= *stack; stack--; break;
        case 4: *++stack = *code++; break;
        case 5: if (*stack--) code += *code; else code++; break;
        default: return -1;
        }
    }
}
