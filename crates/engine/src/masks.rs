//! Which signals the program blocks. The kernel blocks the same, but for those that the engine needs itself.

use crate::entry;
use crate::kernel_calls::number::{EPOLL_PWAIT, EPOLL_PWAIT2, PPOLL, RT_SIGPROCMASK, RT_SIGSUSPEND};
use crate::program_memory;
use crate::signals::{self, NEEDED};
use crate::thread::Thread;
use relive_abi::kernel::{self, EINVAL, Errno};

/// Size of a set of signals, as the kernel wants to be told.
const SET_LEN: usize = 8;

/// Unblocks what the engine needs, and says what of that the program has inherited as blocked.
pub fn begin() -> u64 {
    let inherited = kernel::block_signals();
    kernel::restore_signals(inherited & !NEEDED);
    inherited & NEEDED
}

/// `rt_sigprocmask`.
pub fn change(thread: &mut Thread, [how, new, old, size, ..]: [usize; 6]) -> Result<usize, Errno> {
    if size != SET_LEN {
        return Err(EINVAL);
    }
    let asked = if new == 0 { 0 } else { program_memory::read::<u64>(new)? };
    let given = asked & !NEEDED;
    let mut before = 0u64;
    let new_at = if new == 0 { 0 } else { (&raw const given).expose_provenance() };
    let call = [how, new_at, (&raw mut before).expose_provenance(), size, 0, 0];
    entry::call(RT_SIGPROCMASK, &call)?;
    before |= thread.hidden;
    if new != 0 {
        let all = match how {
            0 => before | asked,
            1 => before & !asked,
            _ => asked,
        };
        thread.hidden = all & NEEDED;
        signals::give_back_held(thread);
    }
    if old != 0 {
        program_memory::write(old, &before)?;
    }
    Ok(0)
}

/// How far a call is that waits with another mask: none is at work.
pub const NO_WAIT: u32 = 0;
/// It has been or will be asked for.
pub const WAITS: u32 = 1;
/// A signal has ended it, whose handler runs with [`Thread::waits_with`].
pub const INTERRUPTED: u32 = 2;

/// `sigsuspend` and the others that block other signals while they wait.
pub fn wait(thread: &mut Thread, number: u64, mut call: [usize; 6]) -> Result<usize, Errno> {
    // Of some calls the sixth argument is the address of address and size.
    let in_pair = !matches!(number, RT_SIGSUSPEND | PPOLL | EPOLL_PWAIT | EPOLL_PWAIT2);
    let place = match number {
        RT_SIGSUSPEND => 0,
        PPOLL => 3,
        EPOLL_PWAIT | EPOLL_PWAIT2 => 4,
        _ => 5,
    };
    let mut pair = if !in_pair {
        [call[place], call[place + 1]]
    } else if call[place] == 0 {
        [0; 2]
    } else {
        program_memory::read(call[place])?
    };
    if pair[0] == 0 || pair[1] != SET_LEN {
        // No mask, or one that the kernel does not want.
        return entry::call(number, &call);
    }
    let asked = program_memory::read::<u64>(pair[0])?;
    let given = asked & !NEEDED;
    pair[0] = (&raw const given).expose_provenance();
    call[place] = if in_pair { (&raw const pair).expose_provenance() } else { pair[0] };
    let state = &raw mut thread.wait;
    // SAFETY: the thread's own; a signal handler looks at it too.
    unsafe {
        (&raw mut thread.waits_with).write_volatile(asked);
        state.write_volatile(WAITS);
    }
    let result = entry::call(number, &call);
    // SAFETY: as above.
    unsafe {
        if state.read_volatile() == WAITS {
            state.write_volatile(NO_WAIT);
        }
    }
    result
}
