/* Threads at work for long, or many that live short.
   workers long SECONDS: four take texts out of a queue, count their words, on a heap that they share, and make pictures of them, which has
   less of a surprise; now and then a fifth thread comes and goes.
   workers short COUNT: so many threads, eight at a time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORKERS = 4, ROOM = 8, TEXT = 1 << 16, BUCKETS = 1 << 12 };

struct word { struct word *next; char *text; unsigned count; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static char *queue[ROOM];
static unsigned in, out, over;
static unsigned long distinct;

static unsigned random_of(unsigned *state) { return *state = *state * 1103515245u + 12345u, *state >> 8; }

static int by_count(const void *a, const void *b) {
  const struct word *one = *(struct word *const *)a, *other = *(struct word *const *)b;
  return one->count != other->count ? (one->count < other->count) - (one->count > other->count) : strcmp(one->text, other->text);
}

/* A text of common and rare words. */
static char *text_of(unsigned seed) {
  char *text = malloc(TEXT + 16), *at = text;
  while (at < text + TEXT) {
    unsigned r = random_of(&seed), w = r % 7 ? r % 97 : random_of(&seed) % 5000;
    do *at++ = 'a' + w % 26; while (w /= 26);
    *at++ = ' ';
  }
  *at = 0;
  return text;
}

/* How light each place is, made even with its neighbours. */
static unsigned long picture_of(const char *text) {
  unsigned *light = malloc(TEXT * sizeof *light);
  unsigned long sum = 0;
  for (int i = 0; i < TEXT; i++) light[i] = (unsigned char)text[i];
  for (int round = 0; round < 16; round++)
    for (int i = 1; i < TEXT; i++) light[i] = (light[i] * 3 + light[i - 1]) / 4;
  for (int i = 0; i < TEXT; i++) sum += light[i];
  free(light);
  return sum;
}

static unsigned long count_words(char *text) {
  struct word **table = calloc(BUCKETS, sizeof *table), **all;
  unsigned long n = 0, i = 0;
  char *rest;
  for (char *w = strtok_r(text, " ", &rest); w; w = strtok_r(0, " ", &rest)) {
    unsigned hash = 5381;
    for (char *c = w; *c; c++) hash = hash * 33 + (unsigned char)*c;
    struct word **slot = &table[hash % BUCKETS];
    while (*slot && strcmp((*slot)->text, w)) slot = &(*slot)->next;
    if (!*slot) {
      *slot = calloc(1, sizeof **slot);
      (*slot)->text = strdup(w);
      n++;
    }
    (*slot)->count++;
  }
  all = malloc(n * sizeof *all);
  for (int b = 0; b < BUCKETS; b++) for (struct word *w = table[b]; w; w = w->next) all[i++] = w;
  qsort(all, n, sizeof *all, by_count);
  for (i = 0; i < n; i++) { free(all[i]->text); free(all[i]); }
  free(all);
  free(table);
  return n;
}

static void *work(void *none) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (in == out && !over) pthread_cond_wait(&filled, &lock);
    if (in == out) break;
    char *text = queue[out++ % ROOM];
    pthread_cond_signal(&emptied);
    pthread_mutex_unlock(&lock);
    unsigned long light = picture_of(text), n = count_words(text);
    free(text);
    pthread_mutex_lock(&lock);
    distinct += n + (light == 0);
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return none;
}

static void *live_short(void *number) {
  char *text = text_of((unsigned)(unsigned long)number);
  text[512] = 0;
  unsigned long n = count_words(text);
  free(text);
  __atomic_fetch_add(&distinct, n, __ATOMIC_RELAXED);
  return number;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  long much = atol(argv[2]);
  pthread_t threads[8];
  if (!strcmp(argv[1], "short")) {
    for (long i = 0; i < much; i++) {
      if (i >= 8) pthread_join(threads[i % 8], 0);
      if (pthread_create(&threads[i % 8], 0, live_short, (void *)i)) return 3;
    }
    for (long i = much < 8 ? 0 : much - 8; i < much; i++) pthread_join(threads[i % 8], 0);
  } else {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < WORKERS; i++) if (pthread_create(&threads[i], 0, work, 0)) return 3;
    for (unsigned seed = 1;; seed++) {
      char *text = text_of(seed);
      if (seed % 64 == 0) {
        if (pthread_create(&threads[WORKERS], 0, live_short, (void *)(unsigned long)seed)) return 3;
        pthread_join(threads[WORKERS], 0);
      }
      pthread_mutex_lock(&lock);
      while (in - out == ROOM) pthread_cond_wait(&emptied, &lock);
      queue[in++ % ROOM] = text;
      pthread_cond_signal(&filled);
      clock_gettime(CLOCK_MONOTONIC, &now);
      over = now.tv_sec - start.tv_sec >= much;
      if (over) pthread_cond_broadcast(&filled);
      pthread_mutex_unlock(&lock);
      if (over) break;
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], 0);
  }
  printf("%s\n", distinct ? "done" : "nothing");
  return 0;
}
