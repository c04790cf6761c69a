//! How this process keeps memory that its threads hand to each other.

/// One heap for all threads. Those who pack what others have taken away give memory back that was not theirs: with a heap for each
/// thread, as glibc has it, each heap grows to the most that was ever in it (`bash` with thousands of short programs: 700 MiB instead of
/// 100). To be called before there are other threads.
pub fn share() {
    // SAFETY: no memory is concerned.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
