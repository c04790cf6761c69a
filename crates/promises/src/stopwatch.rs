//! How much work something is, however busy the machine.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::OnceCell;
use std::fs;
use std::time::Duration;

/// The promise, for inputs of up to 64 KiB: two seconds of one processor. The fuzzers hold us to it;
/// the tests are not optimised and may take their time.
const LIMIT: Duration = Duration::from_secs(if cfg!(feature = "fuzzing") { 2 } else { 10 });

/// The size up to which [`LIMIT`] holds; above, it grows in proportion.
const SIZE: u64 = 1 << 16;

thread_local! {
    /// Work is divided among the threads of this pool: this thread and no other. So nothing is
    /// handed back and forth in the millions of tiny cases of a fuzzer, and all work shows on the clock of this thread.
    static ALONE: OnceCell<Option<ThreadPool>> = const { OnceCell::new() };
}

/// Runs `work` on `size` bytes of input, in this thread alone.
///
/// # Panics
/// If it takes more time than is promised.
pub(crate) fn timed(what: &str, size: usize, work: impl FnOnce()) {
    ALONE.with(|pool| {
        pool.get_or_init(|| ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok());
    });
    let start = busy();
    work();
    let taken = busy().saturating_sub(start);
    let limit = LIMIT * u32::try_from((size as u64).div_ceil(SIZE).max(1)).unwrap_or(u32::MAX);
    assert!(taken <= limit, "{what}: {taken:?} for {size} bytes");
}

/// The time this thread has spent on a processor. Time on the wall would blame us for what others do.
fn busy() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(first.unwrap_or(0))
}
