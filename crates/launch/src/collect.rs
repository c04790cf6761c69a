//! Takes what traced threads have written down out of their rings, and tells of the code they execute.

use crate::arena::{Arena, Process, RingView};
use relive_abi::trace::{BUFFER_LEN, BUFFERS};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// What happens to traced processes, one thing after the other.
pub enum News<'a> {
    /// A process begins.
    Process {
        /// Its number, in the order in which they begin.
        number: u32,
        /// As the kernel numbers it.
        pid: u32,
        /// The process it was forked off, and how long that one's log was then.
        parent: Option<(u32, u64)>,
    },
    /// A record of the log of a process.
    Log {
        /// The number of the process.
        process: u32,
        /// What kind of record it is.
        kind: u32,
        /// What it says.
        body: &'a [u8],
        /// Where it ends in the log.
        end: u64,
    },
    /// A thread has written something down, behind what it has before. All units it mentions have been told of.
    Written {
        /// The number of the process.
        process: u32,
        /// The thread, as the kernel numbers it.
        tid: u32,
        /// What it has written. If it was ended by somebody else, zeros follow, perhaps behind a record that was begun.
        bytes: &'a [u8],
    },
    /// A thread is over, and another one uses its ring; nothing comes of it any more. Not told of those that are over with their process.
    Ended {
        /// The number of the process.
        process: u32,
        /// The thread, as the kernel numbered it.
        tid: u32,
    },
    /// A process is over; nothing comes of it any more.
    Over {
        /// The number of the process.
        process: u32,
    },
    /// No process that may still be told of was forked off this one, which is over.
    Gone {
        /// The number of the process.
        process: u32,
    },
    /// Some time has passed.
    Time,
}

/// Who is told.
pub type Sink<'a> = dyn FnMut(&News<'_>) + Send + 'a;

/// Whoever takes things away.
pub(crate) struct Collector<'a> {
    sink: &'a mut Sink<'a>,
    /// By process, how much of its log has been told.
    told: HashMap<u32, u64>,
    /// By process and ring, who has filled it last.
    threads: HashMap<(u32, u64), u32>,
}

/// With more rings than this, buffers are given back to the kernel when they are empty. It takes as long to fill one then as it takes
/// to get its pages; otherwise rings would keep 12 MB for each thread.
const MANY: usize = 32;

impl<'a> Collector<'a> {
    pub(crate) fn new(sink: &'a mut Sink<'a>) -> Self {
        Self { sink, told: HashMap::new(), threads: HashMap::new() }
    }

    /// Takes away what there is. Whether there was anything.
    pub(crate) fn drain(&mut self, arena: &Arena) -> bool {
        let mut found = false;
        let rings = arena.rings(None);
        let are_many = rings.len() > MANY;
        for (process, ring) in rings {
            found |= self.drain_one(arena, process, &ring, are_many);
        }
        (self.sink)(&News::Time);
        found
    }

    /// Takes away what is left of a process that is over.
    pub(crate) fn salvage(&mut self, arena: &Arena, process: &Process<'_>) {
        let number = process.number;
        for (_, ring) in arena.rings(Some(number)) {
            self.drain_one(arena, number, &ring, false);
            let filled = ring.head.filled.load(Ordering::Acquire);
            let bytes = ring.filled(filled, BUFFER_LEN as usize);
            let tid = ring.head.tid.load(Ordering::Relaxed);
            if bytes.first_chunk() != Some(&[0; 4]) {
                self.follow(arena, number);
                (self.sink)(&News::Written { process: number, tid, bytes });
            }
        }
        self.threads.retain(|(process, _), _| *process != number);
        if self.told.contains_key(&number) {
            (self.sink)(&News::Over { process: number });
        }
    }

    /// A process that is over has been forgotten, as nobody refers to it any more.
    pub(crate) fn forget(&mut self, process: u32) {
        if self.told.remove(&process).is_some() {
            (self.sink)(&News::Gone { process });
        }
    }

    fn drain_one(&mut self, arena: &Arena, process: u32, ring: &RingView<'_>, are_many: bool) -> bool {
        let head = ring.head;
        let (emptied, filled) = (head.emptied.load(Ordering::Relaxed), head.filled.load(Ordering::Acquire));
        if filled > emptied {
            self.follow(arena, process);
        }
        for number in emptied..filled {
            let index = number as usize % BUFFERS;
            let len = head.lens[index].load(Ordering::Relaxed) as usize;
            let tid = head.tids[index].load(Ordering::Relaxed);
            let before = self.threads.insert((process, ring.offset), tid);
            if let Some(tid) = before.filter(|before| *before != tid) {
                (self.sink)(&News::Ended { process, tid });
            }
            (self.sink)(&News::Written { process, tid, bytes: ring.filled(number, len) });
            if !are_many || !arena.give_back(ring, number) {
                ring.wipe(number, len);
            }
            head.emptied.store(number + 1, Ordering::Release);
            head.room.fetch_add(1, Ordering::Release);
            crate::follow::futex_wake(&head.room);
        }
        filled > emptied
    }

    /// Tells of what is new in the log of a process, and before that in those it refers to.
    fn follow(&mut self, arena: &Arena, process: u32) {
        let Some(log) = arena.log_of(process) else { return };
        if !self.told.contains_key(&process) {
            let parent = log.parent.and_then(|(at, len)| Some((arena.process_at(at)?, len)));
            if let Some((parent, _)) = parent {
                self.follow(arena, parent);
            }
            (self.sink)(&News::Process { number: process, pid: log.pid, parent });
            self.told.insert(process, 0);
        }
        let told = self.told.entry(process).or_default();
        for (kind, body, end) in log.records_from(*told) {
            (self.sink)(&News::Log { process, kind, body, end });
            *told = end;
        }
    }
}
