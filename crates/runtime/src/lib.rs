//! The code that the rewriter puts into a program, linked and ready to be copied.
//!
//! [`IMAGE`] is a static position-independent ELF file without relocations. Its loadable segments may be
//! copied anywhere, as long as their distances stay the same. Its symbol table names
//! `relive_parameters` (to be filled in: [`relive_abi::parameters::Parameters`]), and the code
//! `relive_start`, `relive_init`, `relive_enter` and `relive_call` (see `src/in_target/entry.rs` for what
//! each expects and keeps).
//!
//! # Limits
//!
//! * A program that forbids itself system calls (seccomp) must allow those of new threads and forks:
//!   `arch_prctl`, `clock_gettime`, `close`, `fallocate`, `fcntl`, `fstat`, `futex`, `getpid`, `gettid`,
//!   `kill`, `madvise`, `mmap`, `mremap`, `munmap`, `openat`, `pread64`, `prlimit64`, `read`,
//!   `rt_sigprocmask`, `tkill`.
//! * The C library tells of forks only where there is a dynamic linker, and only executables ask it to. Otherwise
//!   a forked process counts in its parent's slot up to the next call of `relive_enter`.
//! * Areas of threads lie in the gap that the kernel leaves between mappings and the stack: some hundred GiB, but
//!   128 MiB without address randomisation. Threads that find no room there share counters. A measured
//!   library that is loaded when more than half the size of that gap is mapped, and threads run already, may
//!   find memory of others where it should count for these threads: it then ends the program.
//! * A profile that somebody truncates while it is in use ends the program (`SIGBUS`).

/// The linked runtime, an ELF file with its symbol table.
pub const IMAGE: &[u8] = include_bytes!(env!("RELIVE_RUNTIME_IMAGE"));

// Never part of this library: built by build.rs for the inside of other programs. Here only so that its
// pure parts are tested, and all of it is linted.
#[cfg(any(test, clippy))]
mod in_target;
