//! Takes what traced threads have written down out of their rings, and tells of the code they execute.

use crate::arena::{Arena, Process, RingView};
use crate::lent::{Lender, Lent};
use relive_abi::trace::{BUFFER_LEN, BUFFERS};
use std::collections::HashMap;
use std::sync::Arc;
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
        bytes: Taken,
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

/// What a thread has written down.
pub enum Taken {
    /// Where it lies. The thread has to wait if it has filled all other buffers before this is dropped.
    Lent(Lent),
    /// A copy.
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lent(lent) => lent.as_ref(),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// Who is told.
pub type Sink<'a> = dyn FnMut(News<'_>) + Send + 'a;

/// Whoever takes things away.
pub(crate) struct Collector<'a> {
    sink: &'a mut Sink<'a>,
    /// By process, how much of its log has been told.
    told: HashMap<u32, u64>,
    /// By process and where they are.
    rings: HashMap<(u32, u64), Drained>,
}

/// A ring, and what has been taken out of it.
struct Drained {
    lender: Arc<Lender>,
    /// How many buffers.
    taken: u64,
    /// Who has filled the last of them.
    tid: Option<u32>,
}

/// How many buffers all rings may have together before each has to do with fewer, so that they take no more memory.
const ALL: usize = 96;
/// How many each has at least. A thread that has only two buffers waits for each.
const FEWEST: usize = 3;
/// How many the thread keeps for itself.
const KEPT: usize = 2;
/// What is shorter is copied.
const SHORT: usize = 1 << 18;

impl<'a> Collector<'a> {
    pub(crate) fn new(sink: &'a mut Sink<'a>) -> Self {
        Self { sink, told: HashMap::new(), rings: HashMap::new() }
    }

    /// Takes away what there is. Whether there was anything.
    pub(crate) fn drain(&mut self, arena: &Arena) -> bool {
        let mut found = false;
        let rings = arena.rings(None);
        let most = (ALL / rings.len().max(1)).clamp(FEWEST, BUFFERS);
        for (process, ring) in rings {
            ring.head().most.store(if most < BUFFERS { most as u32 } else { 0 }, Ordering::Relaxed);
            found |= self.drain_one(arena, process, &ring, most);
        }
        (self.sink)(News::Time);
        found
    }

    /// Whether somebody still looks at buffers of a process.
    pub(crate) fn has_lent(&self, process: u32) -> bool {
        self.rings.iter().any(|((of, _), ring)| *of == process && ring.lender.lent() > 0)
    }

    /// Takes away what is left of a process that is over.
    pub(crate) fn salvage(&mut self, arena: &Arena, process: &Process<'_>) {
        let number = process.number;
        for (_, ring) in arena.rings(Some(number)) {
            self.drain_one(arena, number, &ring, BUFFERS);
            let filled = ring.head().filled.load(Ordering::Acquire);
            let bytes = ring.filled(filled, BUFFER_LEN as usize);
            let tid = ring.head().tid.load(Ordering::Relaxed);
            if bytes.first_chunk() != Some(&[0; 4]) {
                self.follow(arena, number);
                (self.sink)(News::Written { process: number, tid, bytes: Taken::Copied(bytes.to_vec()) });
            }
        }
        if self.told.contains_key(&number) {
            (self.sink)(News::Over { process: number });
        }
    }

    /// A process that is over has been forgotten, as nobody refers to it any more.
    pub(crate) fn forget(&mut self, process: u32) {
        self.rings.retain(|(of, _), _| *of != process);
        if self.told.remove(&process).is_some() {
            (self.sink)(News::Gone { process });
        }
    }

    /// Takes away what there is of a ring that uses so many buffers.
    fn drain_one(&mut self, arena: &Arena, process: u32, ring: &RingView, most: usize) -> bool {
        let head = ring.head();
        let filled = head.filled.load(Ordering::Acquire);
        let drained = self.rings.entry((process, ring.offset)).or_insert_with(|| {
            let taken = head.emptied.load(Ordering::Acquire);
            Drained { lender: Arc::new(Lender::new(ring.clone())), taken, tid: None }
        });
        let (lender, taken) = (drained.lender.clone(), std::mem::replace(&mut drained.taken, filled));
        let mut last = drained.tid;
        if filled > taken {
            self.follow(arena, process);
        }
        for number in taken..filled {
            let index = number as usize % BUFFERS;
            let len = head.lens[index].load(Ordering::Relaxed) as usize;
            let tid = head.tids[index].load(Ordering::Relaxed);
            if let Some(tid) = last.replace(tid).filter(|before| *before != tid) {
                (self.sink)(News::Ended { process, tid });
            }
            let bytes = if len >= SHORT && lender.lent() as usize + KEPT < most {
                Taken::Lent(lender.lend(number, len))
            } else {
                let copy = ring.filled(number, len).to_vec();
                lender.empty(number, len);
                Taken::Copied(copy)
            };
            (self.sink)(News::Written { process, tid, bytes });
        }
        if let Some(drained) = self.rings.get_mut(&(process, ring.offset)) {
            drained.tid = last;
        }
        filled > taken
    }

    /// Tells of what is new in the log of a process, and before that in those it refers to.
    fn follow(&mut self, arena: &Arena, process: u32) {
        let Some(log) = arena.log_of(process) else { return };
        if !self.told.contains_key(&process) {
            let parent = log.parent.and_then(|(at, len)| Some((arena.process_at(at)?, len)));
            if let Some((parent, _)) = parent {
                self.follow(arena, parent);
            }
            (self.sink)(News::Process { number: process, pid: log.pid, parent });
            self.told.insert(process, 0);
        }
        let told = self.told.entry(process).or_default();
        for (kind, body, end) in log.records_from(*told) {
            (self.sink)(News::Log { process, kind, body, end });
            *told = end;
        }
    }
}
