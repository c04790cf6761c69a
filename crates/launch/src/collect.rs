//! Takes what traced threads have written down out of their rings.

use crate::arena::{Arena, Process, RingView};
use relive_abi::trace::{BUFFER_LEN, BUFFERS};
use std::sync::atomic::Ordering;

/// What a thread has written down one behind the other.
pub struct Written<'a> {
    /// The number of the process.
    pub process: u32,
    /// The thread, as the kernel numbers it.
    pub tid: u32,
    /// What it has written.
    pub bytes: &'a [u8],
    /// Whether it was ended by somebody else, so that the last of it may be a record that was begun, or zeros.
    pub is_cut: bool,
}

/// Who is told of everything that is written down, of each thread in order.
pub type Sink<'a> = dyn FnMut(&Arena, &Written<'_>) + Send + 'a;

/// Takes away what there is. Whether there was anything.
pub(crate) fn drain(arena: &Arena, sink: &mut Sink<'_>) -> bool {
    let mut found = false;
    for (process, ring) in arena.rings(None) {
        found |= drain_one(arena, process, &ring, sink);
    }
    found
}

/// Takes away what is left of a process that is over.
pub(crate) fn salvage(arena: &Arena, process: &Process<'_>, sink: &mut Sink<'_>) {
    for (number, ring) in arena.rings(Some(process.number)) {
        drain_one(arena, number, &ring, sink);
        let filled = ring.head.filled.load(Ordering::Acquire);
        let bytes = ring.filled(filled, BUFFER_LEN as usize);
        let tid = ring.head.tid.load(Ordering::Relaxed);
        if bytes.iter().any(|&byte| byte != 0) {
            sink(arena, &Written { process: number, tid, bytes, is_cut: true });
        }
    }
}

fn drain_one(arena: &Arena, process: u32, ring: &RingView<'_>, sink: &mut Sink<'_>) -> bool {
    let head = ring.head;
    let (emptied, filled) = (head.emptied.load(Ordering::Relaxed), head.filled.load(Ordering::Acquire));
    for number in emptied..filled {
        let index = number as usize % BUFFERS;
        let len = head.lens[index].load(Ordering::Relaxed) as usize;
        let tid = head.tids[index].load(Ordering::Relaxed);
        sink(arena, &Written { process, tid, bytes: ring.filled(number, len), is_cut: false });
        ring.wipe(number, len);
        head.emptied.store(number + 1, Ordering::Release);
        head.room.fetch_add(1, Ordering::Release);
        crate::follow::futex_wake(&head.room);
    }
    filled > emptied
}
