//! A bound on translated code: when there is too much, everything is given up and translated again where it is needed.
//!
//! Threads may still be in the old code, even in that of several *generations*. A thread notes when it passes through the
//! engine which generation it goes on in; as no way leads from one generation to another but through the engine, it
//! can be in no other. Memory is given back when no thread is in it any more. Of threads that wait in a system call,
//! only the units that they come back to are kept: all ways out of these lead to the engine.

use crate::cache::Cache;
use crate::log::Log;
use crate::maps::Maps;
use crate::process::{Process, cache_len};
use crate::region::Regions;
use crate::thread::{NO_GENERATION, Thread, offset};
use crate::translate::{Entrance, Exit};
use crate::written::WayOut;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::{self, Write};
use relive_abi::{PAGE, kernel, page_up};

impl Process {
    /// Starts anew if there is too much code.
    pub fn make_room(&mut self) {
        let most = cache_len(self.arena);
        if self.cache.regions.used() > most {
            self.cache.renew(most);
            self.has_passed = true;
            self.log.statistics().renewals += 1;
        }
        if !core::mem::take(&mut self.has_passed) {
            return;
        }
        // SAFETY: threads' memory is never given back; the lock is held.
        let threads = self.threads.iter().map(|&thread| unsafe { &*(thread as *const Thread) });
        // One that has not started yet has no number, and one that was killed does not come back.
        let is_there = |thread: &&Thread| thread.tid == 0 || kernel::thread_exists(thread.tid);
        let used: Vec<(u32, u32)> = threads
            .filter(|t| self.cache.old.iter().any(|old| old.generation == t.generation))
            .filter(is_there)
            .map(|t| (t.generation, t.tid))
            .collect();
        let all = core::mem::take(&mut self.cache.old);
        for mut old in all {
            let mut tids = used.iter().filter(|(generation, _)| *generation == old.generation).peekable();
            if tids.peek().is_none() {
                old.give_back(&mut self.maps);
                continue;
            }
            let mut places = Vec::new();
            let all_wait = tids.all(|&(_, tid)| waits_at(tid).map(|at| places.push(at)).is_some());
            if !old.is_trimmed && all_wait {
                old.trim(&places, &mut self.maps);
            }
            self.cache.old.push(old);
        }
    }
}

impl Cache {
    /// Gives everything up.
    fn renew(&mut self, most: u64) {
        let invalid = self.invalid;
        self.invalidate(0, u64::MAX);
        let mut next = Self::new(false, most);
        next.generation = self.generation + 1;
        next.written = self.written.take();
        // Tags mean the same for ever.
        next.tags = self.tags.map(|tags| tags.from(self.exits.len() as u32));
        // Counters that have been used are not zero.
        next.watched = self.watched;
        next.guard = core::mem::take(&mut self.guard);
        next.old = core::mem::take(&mut self.old);
        (next.links, next.invalid) = (self.links, invalid);
        let old = core::mem::replace(self, next);
        self.old.push(old);
    }

    /// Gives its memory back.
    fn give_back(mut self, maps: &mut Maps) {
        self.keep(&[], maps);
    }

    /// Gives all memory for code back: nothing is executed there any more.
    pub fn unmap(&mut self, maps: &mut Maps) {
        for old in core::mem::take(&mut self.old) {
            old.give_back(maps);
        }
        self.keep(&[], maps);
    }

    /// Gives back all but the units that threads come back to from system calls.
    fn trim(&mut self, places: &[u64], maps: &mut Maps) {
        let mut kept = Vec::new();
        for &at in places {
            let Some(unit) = self.units.iter().find(|unit| unit.holds(at)) else { return };
            // SAFETY: in the unit. A system call is the last instruction of the program in it.
            if unsafe { *((at - 2) as *const [u8; 2]) } != [0x0f, 0x05] {
                return;
            }
            for (start, len) in [unit.hot, unit.cold] {
                kept.push((start & !(PAGE - 1), page_up(start + u64::from(len))));
            }
        }
        kept.sort_unstable();
        self.keep(&kept, maps);
        self.is_trimmed = true;
    }

    /// Gives back all but some pages, in order, which may overlap.
    fn keep(&mut self, kept: &[(u64, u64)], maps: &mut Maps) {
        let unmap = |start: u64, end: u64| {
            if start < end {
                // SAFETY: no thread is in it, and nothing leads there.
                unsafe { kernel::munmap(start, end - start) };
            }
        };
        for (start, end) in self.regions.ranges() {
            maps.show(start);
            let mut next = start;
            for &(from, to) in kept.iter().filter(|(from, _)| (start..end).contains(from)) {
                unmap(next, from);
                next = next.max(to);
            }
            unmap(next, end);
        }
        for &(start, end) in kept {
            maps.hide(start, end);
        }
        self.regions = Regions::full(kept);
        self.sites.give_back();
        self.returns.give_back();
    }

    /// An exit of a generation.
    pub fn exit_of(&self, generation: u32, number: u32) -> Exit {
        self.of(generation).exit(number)
    }

    pub(crate) fn of(&self, generation: u32) -> &Self {
        self.old.iter().find(|old| old.generation == generation).unwrap_or(self)
    }

    /// The counter of a computed jump or call of a generation that does not learn any more.
    pub fn target_of(
        &mut self,
        (generation, exit): (u32, u32),
        to: u64,
        maps: &mut Maps,
        log: &mut Log,
    ) -> Option<u32> {
        self.find_or_translate(to, Entrance::Jump, maps, log)?;
        let way = WayOut { to_unit: self.record_at(to), ..self.of(generation).way_out(exit, to) };
        self.written.as_mut()?.target(&way, maps, log)
    }
}

impl Thread {
    /// Notes that the thread goes on in the latest generation.
    pub fn pass(&mut self, cache: &Cache) {
        if self.generation != cache.generation {
            self.generation = cache.generation;
            self.all_returns = cache.returns.at();
            self.forget_returns();
        }
    }

    /// Notes that the thread has ended.
    pub fn is_over(&mut self) {
        self.generation = NO_GENERATION;
    }

    /// Counts for the thread.
    pub fn count(&self, counter: u32) {
        self.count_by(counter, 1);
    }

    /// Takes that back.
    pub fn count_back(&self, counter: u32) {
        self.count_by(counter, 1u64.wrapping_neg());
    }

    fn count_by(&self, counter: u32, change: u64) {
        let at = (self.this + u64::from(offset::counter(counter))) as *mut u64;
        // SAFETY: the thread's own counters; it is not counting itself just now.
        unsafe { *at = (*at).wrapping_add(change) };
    }
}

/// Where a thread comes back to that waits in a system call; `None` if it does not, or that cannot be told.
fn waits_at(tid: u32) -> Option<u64> {
    let mut path = Path { text: [0; 40], len: 0 };
    write!(path, "/proc/self/task/{tid}/syscall").ok()?;
    let path = CStr::from_bytes_until_nul(&path.text).ok()?;
    let fd = kernel::open(path, kernel::O_RDONLY, 0).ok()?;
    let mut text = [0; 256];
    let read = kernel::read(fd, &mut text);
    kernel::close(fd);
    // Its number, arguments, the stack pointer and the program counter.
    let text = core::str::from_utf8(&text[..read.ok()?]).ok()?;
    let mut last = text.split_ascii_whitespace().skip(8);
    let hex = last.next()?.strip_prefix("0x")?;
    u64::from_str_radix(hex, 16).ok().filter(|_| last.next().is_none())
}

/// A short text with a zero behind it.
struct Path {
    text: [u8; 40],
    len: usize,
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.text.len() - 1;
        let place = self.text[..room].get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
