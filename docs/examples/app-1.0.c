/* Counts the words of a file and prints the most frequent ones: what the documentation's commands are tried on. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 1024

struct word {
    char text[32];
    unsigned count;
};

static struct word table[ROOM];
static unsigned used;

static unsigned hash(const char *text) {
    unsigned value = 0;
    while (*text)
        value = value * 31 + (unsigned char)*text++;
    return value % ROOM;
}

static struct word *find(const char *text) {
    unsigned at = hash(text);
    while (table[at].count && strcmp(table[at].text, text) != 0)
        at = (at + 1) % ROOM;
    return &table[at];
}

static void add(const char *text) {
    struct word *word = find(text);
    if (!word->count) {
        if (used == ROOM - 1) {
            fputs("too many words\n", stderr);
            exit(1);
        }
        used++;
        strcpy(word->text, text);
    }
    word->count++;
}

static void read_words(FILE *file) {
    char text[32];
    unsigned len = 0;
    int c;
    do {
        c = getc(file);
        if (isalpha(c) && len < sizeof text - 1) {
            text[len++] = (char)tolower(c);
        } else if (len && !isalpha(c)) {
            text[len] = 0;
            add(text);
            len = 0;
        }
    } while (c != EOF);
}

static int by_count(const void *a, const void *b) {
    const struct word *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->text, y->text);
}

int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
    if (!file) {
        perror(argv[1]);
        return 1;
    }
    read_words(file);
    qsort(table, ROOM, sizeof table[0], by_count);
    for (unsigned i = 0; i < 3 && table[i].count; i++)
        printf("%u %s\n", table[i].count, table[i].text);
    return 0;
}
