//! Has the C library tell of forks, so that the child has counters of its own from its first instruction on.

use super::link_map::{self, Executable};
use super::threads;

/// Registers the handler.
///
/// # Safety
/// The program is at its entry; the headers are those that the kernel gave.
pub(crate) unsafe fn watch(executable: Executable) {
    type Handler = Option<extern "C" fn()>;
    // What glibc's pthread_atfork calls (that function itself is part of every program), or musl's.
    type Register = extern "C" fn(Handler, Handler, Handler, u64) -> i32;
    // SAFETY: as the caller promises.
    unsafe {
        let found = link_map::find(executable, c"__register_atfork")
            .or_else(|| link_map::find(executable, c"pthread_atfork"));
        if let Some(address) = found {
            let register: Register = core::mem::transmute(address);
            register(None, None, Some(threads::enter), 0);
        }
    }
}
