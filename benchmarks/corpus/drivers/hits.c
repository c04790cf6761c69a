/* Counts natively how often instructions are reached, with breakpoints: hits OUT ADDRESSES PROGRAM ARGUMENT...
   ADDRESSES holds one address a line, as linked, in hexadecimal. Adds lines "address count step..." to OUT, with a number for each
   general register, as instructions number them: how its value went from hit to hit, each step added to FACTOR times those before.
   One thread, one process; children run uncounted (their copies of the breakpoints are taken out at the fork). */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#define MOST 100000
#define FACTOR 0x9e3779b97f4a7c15
static unsigned long at[MOST], count[MOST], last[MOST][16], steps[MOST][16], bias;
static unsigned char old[MOST];
static int n;
static void step(int i, const struct user_regs_struct *r) {
  unsigned long now[16] = { r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15 };
  for (int k = 0; k < 16; k++) { if (count[i]) steps[i][k] = steps[i][k] * FACTOR + (now[k] - last[i][k]); last[i][k] = now[k]; }
  count[i]++;
}
static int by_address(const void *a, const void *b) { unsigned long x = *(unsigned long *)a, y = *(unsigned long *)b; return (x > y) - (x < y); }
static int put(pid_t p, unsigned long a, unsigned char c) {
  errno = 0;
  long w = ptrace(PTRACE_PEEKTEXT, p, a, 0);
  if (errno) { perror("hits: peek"); exit(125); }
  int was = w & 255;
  if (ptrace(PTRACE_POKETEXT, p, a, (w & ~255L) | c)) { perror("hits: poke"); exit(125); }
  return was;
}
static void all(pid_t p, int set) { for (int i = 0; i < n; i++) if (set) old[i] = put(p, at[i] + bias, 0xcc); else put(p, at[i] + bias, old[i]); }
int main(int argc, char **argv) {
  if (argc < 4) return 125;
  FILE *f = fopen(argv[2], "r"); if (!f) return 125;
  while (n < MOST && fscanf(f, "%lx", &at[n]) == 1) n++;
  fclose(f); qsort(at, n, sizeof *at, by_address);
  Elf64_Ehdr h; f = fopen(argv[3], "r"); if (!f || fread(&h, sizeof h, 1, f) != 1) return 125; fclose(f);
  pid_t main_ = fork();
  if (!main_) { ptrace(PTRACE_TRACEME, 0, 0, 0); execv(argv[3], argv + 3); _exit(126); }
  int st; waitpid(main_, &st, 0); if (!WIFSTOPPED(st)) return 126;
  ptrace(PTRACE_SETOPTIONS, main_, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK);
  if (h.e_type == ET_DYN) { /* the entry point tells where it was loaded */
    char name[64]; unsigned long aux[2]; sprintf(name, "/proc/%d/auxv", main_);
    f = fopen(name, "r"); while (f && fread(aux, sizeof aux, 1, f) == 1) if (aux[0] == AT_ENTRY) bias = aux[1] - h.e_entry;
  }
  all(main_, 1); ptrace(PTRACE_CONT, main_, 0, 0);
  for (pid_t p; (p = waitpid(-1, &st, __WALL)) > 0;) {
    if (WIFEXITED(st) || WIFSIGNALED(st)) { if (p == main_) break; continue; }
    int sig = WSTOPSIG(st);
    if (p != main_) { if (sig == SIGSTOP) { all(p, 0); ptrace(PTRACE_DETACH, p, 0, 0); } else ptrace(PTRACE_CONT, p, 0, sig); continue; }
    if (st >> 16) { ptrace(PTRACE_CONT, p, 0, 0); continue; }
    struct user_regs_struct r; ptrace(PTRACE_GETREGS, p, 0, &r);
    unsigned long a = r.rip - 1 - bias, *hit = sig == SIGTRAP ? bsearch(&a, at, n, sizeof *at, by_address) : 0;
    if (!hit) { ptrace(PTRACE_CONT, p, 0, sig); continue; }
    int i = hit - at; step(i, &r); r.rip--; ptrace(PTRACE_SETREGS, p, 0, &r); put(p, r.rip, old[i]);
    ptrace(PTRACE_SINGLESTEP, p, 0, 0);
    if (waitpid(p, &st, __WALL) < 0 || WIFEXITED(st) || WIFSIGNALED(st)) break;
    put(p, at[i] + bias, 0xcc);
    sig = WSTOPSIG(st); ptrace(PTRACE_CONT, p, 0, sig == SIGTRAP ? 0 : sig);
  }
  f = fopen(argv[1], "a"); if (!f) return 125;
  for (int i = 0; i < n; i++) { fprintf(f, "%lx %lu", at[i], count[i]); for (int k = 0; k < 16; k++) fprintf(f, " %lx", steps[i][k]); fputc('\n', f); }
  fclose(f);
  return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}
