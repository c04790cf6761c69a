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
        for process in arena.processes() {
            let head = arena.log_head(process.at);
            let is_over = match head.state.load(Ordering::Acquire) {
                EXECUTED => true,
                ENDS => is_gone(process.pid),
                _ => false,
            };
            if !is_over {
                continue;
            }
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
