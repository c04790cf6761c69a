//! What the engine writes down for whoever reads the counters: what code lies where, and what each counter counts.

use crate::{limits, room, zone};
use core::sync::atomic::Ordering;
use relive_abi::engine::{self as abi, Arena, LogHead, Record, Statistics};
use relive_abi::{PAGE, page_up};

const HEAD: u64 = size_of::<LogHead>() as u64;

/// A process's log, in the arena.
pub struct Log {
    /// Where it lies, with its head.
    at: u64,
    /// Where in the arena.
    offset: u64,
    /// How long it can get.
    most: u64,
    /// How much of it is in memory already.
    ready: u64,
    /// Statistics that find no place there.
    unread: Statistics,
}

/// Anything that may be written down: plain words without holes.
///
/// # Safety
/// Every byte of the value is initialised.
pub unsafe trait Plain: Copy {}
// SAFETY: `repr(C)` without holes, as all of them.
unsafe impl Plain for abi::Mapping {}
// SAFETY: as above.
unsafe impl Plain for abi::Unit {}
// SAFETY: as above.
unsafe impl Plain for abi::Piece {}
// SAFETY: as above.
unsafe impl Plain for abi::Exit {}
// SAFETY: as above.
unsafe impl Plain for abi::Target {}
// SAFETY: as above.
unsafe impl Plain for abi::Edge {}
// SAFETY: as above.
unsafe impl Plain for abi::Interruption {}
// SAFETY: as above.
unsafe impl Plain for relive_abi::trace::Traced {}
// SAFETY: as above.
unsafe impl Plain for Record {}

impl Log {
    /// Nowhere: what is written is lost.
    pub fn nowhere() -> Self {
        Self { at: 0, offset: 0, most: 0, ready: 0, unread: Statistics::default() }
    }

    /// A new one for this process.
    pub fn new(arena: &Arena, process: u32, pid: u32) -> Option<Self> {
        let offset = room::take(arena, abi::LOG, process, pid, limits::log())?;
        // SAFETY: nothing is mapped over.
        let at = unsafe { limits::share(arena, offset, limits::log(), None) }.ok()?;
        // SAFETY: a part of the arena that is this process's alone.
        let head = unsafe { &mut *(at as *mut LogHead) };
        (head.engine, head.engine_end) = crate::entry::own();
        Some(Self { at, offset, most: limits::log(), ready: page_up(HEAD), unread: Statistics::default() })
    }

    /// Where it lies in the arena.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Gives up all room but for so much more. Where it begins and ends now.
    pub fn shrink(&mut self, more: u64) -> (u64, u64) {
        self.most = self.most.min(page_up(HEAD + self.written() + more));
        (self.at, self.at + self.most)
    }

    /// The memory of a log that is another process's.
    pub fn give_back(self) {
        if self.at != 0 {
            // SAFETY: nobody can write to it any more.
            unsafe { limits::give_back(self.offset, self.at, self.most) };
        }
    }

    /// How much is in it.
    pub fn written(&self) -> u64 {
        // SAFETY: the log begins with its length.
        if self.at == 0 { 0 } else { unsafe { *(self.at as *const u64) } }
    }

    /// What others look at.
    pub fn head(&self) -> Option<&LogHead> {
        // SAFETY: the log has a head, which lives as long as the process.
        (self.at != 0).then(|| unsafe { &*(self.at as *const LogHead) })
    }

    /// What happened in the process.
    pub fn statistics(&mut self) -> &mut Statistics {
        match self.at {
            0 => &mut self.unread,
            // SAFETY: the log has a head, and belongs to this process; the engine's lock is held.
            at => unsafe { &mut (*(at as *mut LogHead)).statistics },
        }
    }

    /// Asks for memory for many pages at once: the more, the more has been written.
    fn prepare(&mut self, end: u64) {
        const LEAST: u64 = 32 << 10;
        const MOST: u64 = 512 << 10;
        let len = page_up(self.ready / 2).clamp(LEAST, MOST);
        let (from, to) = (self.ready, page_up(end + len).min(self.most & !(PAGE - 1)));
        self.ready = to.max(end);
        if from < to {
            zone::populate(self.at + from, to - from);
        }
    }

    /// Writes a record in several parts, and says where what follows its head is. What finds no room any more is lost.
    pub fn write(&mut self, kind: u32, parts: &[&[u8]]) -> Option<u64> {
        if self.at == 0 {
            return None;
        }
        // SAFETY: the log has a head, and belongs to this process.
        let len = unsafe { &(*(self.at as *const LogHead)).len };
        let start = len.load(Ordering::Relaxed);
        let size = parts.iter().map(|part| part.len()).sum::<usize>() + size_of::<Record>();
        let size = size.next_multiple_of(8) as u64;
        if start + size + HEAD > self.most {
            return None;
        }
        if start + size + HEAD > self.ready {
            self.prepare(start + size + HEAD);
        }
        let mut to = self.at + HEAD + start;
        let head = Record { kind, len: size as u32 };
        for part in core::iter::once(&bytes(&head)).chain(parts) {
            // SAFETY: inside the log, by the check above.
            unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), to as *mut u8, part.len()) };
            to += part.len() as u64;
        }
        // Complete when it is seen.
        len.store(start + size, Ordering::Release);
        Some(self.at + HEAD + start + size_of::<Record>() as u64)
    }
}

/// A value as bytes.
pub fn bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain values are all bytes.
    unsafe { core::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

/// Values as bytes.
pub fn all_bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: plain values are all bytes.
    unsafe { core::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
