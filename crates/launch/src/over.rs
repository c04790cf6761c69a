//! Processes that are over while others go on: what they have counted is taken out of the arena, so that there is room
//! for any number of them one after the other.

use crate::arena::{Arena, Process};
use crate::collect::{Collector, Sink};
use relive_abi::engine::{ENDS, EXECUTED};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often to look for them.
const PAUSE: Duration = Duration::from_millis(5);

/// Who is told of each process, once.
pub type Each<'a> = dyn FnMut(&Arena, &Process<'_>) + Send + 'a;

/// Tells of all processes: of each when it is over, and of the rest when `stop` says so; and, to whoever wants to know, of all
/// that their threads write down until then.
pub(crate) fn tell<'a>(
    arena: &Arena,
    stop: &Receiver<()>,
    each: &mut Each<'_>,
    sink: Option<&'a mut Sink<'a>>,
) {
    /// How often to look for what is written down: long before all buffers of a thread are full.
    const SOON: Duration = Duration::from_micros(300);
    let mut over = Over::default();
    let mut looked = Instant::now();
    let mut pause = if sink.is_some() { SOON } else { PAUSE };
    let mut collector = sink.map(Collector::new);
    while stop.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        if let Some(collector) = &mut collector {
            pause = if collector.drain(arena) { Duration::ZERO } else { SOON };
        }
        if looked.elapsed() >= PAUSE {
            over.look(arena, each, collector.as_mut());
            looked = Instant::now();
        }
    }
    for process in arena.processes().iter().filter(|process| !over.told.contains(&process.at)) {
        last_of(arena, process, each, collector.as_mut());
    }
}

/// Tells of a process that is over, or is not waited for any more.
fn last_of(arena: &Arena, process: &Process<'_>, each: &mut Each<'_>, collector: Option<&mut Collector<'_>>) {
    if let Some(collector) = collector {
        collector.salvage(arena, process);
    }
    each(arena, process);
}

#[derive(Default)]
struct Over {
    /// Processes that have been told of but have not been freed yet: where their logs are.
    told: HashSet<u64>,
    /// By log, how many of the processes forked off have been freed.
    freed: HashMap<u64, u32>,
}

impl Over {
    fn look(&mut self, arena: &Arena, each: &mut Each<'_>, mut collector: Option<&mut Collector<'_>>) {
        // Who is over is found out before what it has left is looked at: what it writes down meanwhile would be missing.
        let over: HashSet<u32> =
            arena.processes().iter().filter(|process| is_over(arena, process)).map(|p| p.number).collect();
        if over.is_empty() {
            return;
        }
        for process in arena.processes().into_iter().filter(|process| over.contains(&process.number)) {
            let head = arena.log_head(process.at);
            if self.told.insert(process.at) {
                last_of(arena, &process, each, collector.as_deref_mut());
            }
            // The logs of those that were forked off refer to this one, and somebody may still look at what it has written down.
            let is_lent = collector.as_ref().is_some_and(|collector| collector.has_lent(process.number));
            let freed = self.freed.get(&process.at).copied().unwrap_or(0);
            if head.children.load(Ordering::Acquire) == freed && !is_lent {
                arena.free(&process);
                if let Some(collector) = &mut collector {
                    collector.forget(process.number);
                }
                self.told.remove(&process.at);
                self.freed.remove(&process.at);
                if let Some(parent) = process.parent() {
                    *self.freed.entry(parent).or_default() += 1;
                }
            }
        }
    }
}

/// Whether a process writes down nothing any more.
fn is_over(arena: &Arena, process: &Process<'_>) -> bool {
    match arena.log_head(process.at).state.load(Ordering::Acquire) {
        EXECUTED => true,
        ENDS => is_gone(process.pid),
        _ => false,
    }
}

/// Whether no thread of a process is left.
fn is_gone(pid: u32) -> bool {
    // SAFETY: numbers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if fd < 0 {
        return true;
    }
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, and a descriptor of our own.
    unsafe {
        libc::poll(&raw mut poll, 1, 0);
        libc::close(fd);
    }
    poll.revents & libc::POLLIN != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use relive_abi::engine::{LOG, LOG_LEN, LogHead, Record};

    /// A process that is over as soon as its log says so, with as many records.
    fn begin(arena: &Arena, number: u32, records: usize) -> u64 {
        let head = arena.head();
        let offset = head.next.fetch_add(LOG_LEN, Ordering::Relaxed);
        let chunk = (&raw const head.directory[number as usize]).cast_mut();
        // SAFETY: nobody else has this arena, and nobody looks at the chunk before its kind is set.
        unsafe {
            (*chunk).process = number;
            (*chunk).offset = offset;
            (*chunk).len = LOG_LEN;
            (*chunk).kind.store(LOG, Ordering::Release);
        }
        head.chunks.fetch_add(1, Ordering::Release);
        (0..records).for_each(|_| write(arena, offset));
        offset
    }

    /// A record without a body.
    fn write(arena: &Arena, log: u64) {
        const KIND: u32 = 99;
        let head = arena.log_head(log);
        let at = head.len.load(Ordering::Relaxed);
        let first =
            (&raw const *head).cast::<u8>().wrapping_add(size_of::<LogHead>() + at as usize).cast_mut();
        // SAFETY: in the log, which is as long as this needs.
        unsafe { first.cast::<[u32; 2]>().write([KIND, size_of::<Record>() as u32]) };
        head.len.store(at + size_of::<Record>() as u64, Ordering::Release);
    }

    fn end(arena: &Arena, log: u64) {
        arena.log_head(log).state.store(EXECUTED, Ordering::Release);
    }

    #[test]
    fn nothing_is_missing_of_a_process_that_ends_while_another_is_told_of() {
        let arena = Arena::new(&Options::default()).expect("memory");
        let (first, second) = (begin(&arena, 0, 1), begin(&arena, 1, 1));
        end(&arena, first);
        let mut told = Vec::new();
        let mut each = |arena: &Arena, process: &Process<'_>| {
            told.push((process.number, arena.records(process).len()));
            if process.number == 0 {
                write(arena, second);
                end(arena, second);
            }
        };
        let mut over = Over::default();
        over.look(&arena, &mut each, None);
        over.look(&arena, &mut each, None);
        assert_eq!(told, [(0, 1), (1, 2)]);
    }
}
