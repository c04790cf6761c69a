// An instruction on both sides of a border: the second page becomes executable when the engine knows the first already.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(void) {
    const long page = 4096;
    unsigned char *code = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mmap(code, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    const unsigned char seven[] = {0xb8, 7, 0, 0, 0, 0xc3}; // mov eax, 7; ret
    memcpy(code, seven, sizeof seven);
    printf("%d\n", ((int (*)(void))code)());
    mmap(code + page, page, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (int before = 1; before < 5; before++) {
        unsigned char *at = code + page - before;
        memcpy(at, seven, sizeof seven);
        at[1] = (unsigned char)(10 + before);
        printf("%d\n", ((int (*)(void))at)());
    }
    return 0;
}
