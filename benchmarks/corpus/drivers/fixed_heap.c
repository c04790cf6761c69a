/* Preloaded: memory at addresses that depend on nothing but what was asked for before. None is used twice. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#define SIZE ((size_t)16 << 30)
static char *next, *end;

void *malloc(size_t size) {
    if (!next) { /* valgrind knows no MAP_FIXED_NOREPLACE; nobody else is that low, nor that high */
        next = mmap((void *)0x100000000, SIZE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        if (next == MAP_FAILED) __builtin_trap();
        end = next + SIZE;
    }
    if (size > (size_t)(end - next) - 32) return NULL;
    size_t *block = (size_t *)next;
    next += (size + 31) & ~(size_t)15;
    *block = size;
    return block + 2;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) {
    size_t all;
    return __builtin_mul_overflow(count, size, &all) ? NULL : malloc(all);
}

void *realloc(void *block, size_t size) {
    size_t old = block ? ((size_t *)block)[-2] : 0;
    if (block && size <= old) return block;
    void *larger = malloc(size);
    if (larger && block) memcpy(larger, block, old);
    return larger;
}
