//! What `relive run` shares with the engine inside the programs it runs: one arena of memory that all processes
//! map, in which each writes down what it runs and counts how often.
//!
//! The arena is a sparse file in memory. Its head says how much of it is taken; what is taken is a row of chunks,
//! each of one process. Nothing in it is ever moved, so that it can be read at any time, whatever became of the
//! processes.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first bytes of an arena.
pub const MAGIC: u64 = u64::from_le_bytes(*b"relive\x00\x01");

/// The most chunks there can be.
pub const MOST_CHUNKS: usize = 1 << 16;

/// Requests that can be open at the same time.
pub const MAILBOXES: usize = 64;

/// The head of the arena.
#[repr(C)]
pub struct Arena {
    /// [`MAGIC`].
    pub magic: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Where the next chunk goes.
    pub next: AtomicU64,
    /// How many chunks there are.
    pub chunks: AtomicU32,
    /// How many processes there are, and have been.
    pub processes: AtomicU32,
    /// What to do, as bits: [`COUNT`] and so on.
    pub options: u32,
    /// Rings when a mailbox has been filled.
    pub doorbell: AtomicU32,
    /// The process that answers, as the kernel numbers it.
    pub tool: u32,
    /// Not zero if nobody answers any more.
    pub closed: AtomicU32,
    /// How many bytes of translated code a process may have before it starts anew.
    pub cache_len: u64,
    /// How many chunks are [`FREED`].
    pub freed: AtomicU32,
    /// Not zero if somebody found no room for what was to be counted.
    pub full: AtomicU32,
    /// Requests of processes to whoever runs them.
    pub mailboxes: [Mailbox; MAILBOXES],
    /// What the arena is divided into.
    pub directory: [Chunk; MOST_CHUNKS],
    /// How many of those behind this are used.
    pub exempt_count: u64,
    /// Code that need not be counted, by file and place: written before any process begins.
    pub exempt: [Exempt; MOST_EXEMPT],
}

/// Code in a file that need not be counted.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exempt {
    /// Which file: see [`file_mark`].
    pub file: u64,
    /// Where it begins in the file.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

/// As many stretches of code can be left out of counting. Functions that lie side by side are one.
pub const MOST_EXEMPT: usize = 1 << 16;

/// Stands for a file, by the last part of its path and its number in decimal digits, as `/proc/PID/maps` has them. What that says of the device is
/// something else than `stat` tells on some file systems.
#[must_use]
pub fn file_mark(path: &[u8], inode: &[u8]) -> u64 {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    crate::hash::fnv1a(crate::hash::of(name), inode)
}

/// Count blocks and edges.
pub const COUNT: u32 = 1;
/// Take the time in the engine.
pub const TIME: u32 = 2;
/// Leave alone what the process starts: forks are not written down, and programs it executes run by themselves.
pub const ALONE: u32 = 4;
/// Look at all translations.
pub const VERIFY: u32 = 8;

/// Write down which way control goes: see [`crate::trace::Ring`].
pub const TRACE: u32 = 16;

/// Write down accesses to memory too.
pub const TRACE_MEMORY: u32 = 32;

/// And when those happen that nobody can come in between, which other threads may wait for.
pub const TRACE_ORDER: u32 = 64;

/// A part of the arena that belongs to one process.
#[repr(C)]
pub struct Chunk {
    /// [`LOG`], [`COUNTERS`] or [`FREED`]; 0 while it is being filled in.
    pub kind: AtomicU32,
    /// The number of the process.
    pub process: u32,
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub len: u64,
    /// The process, as the kernel numbers it.
    pub pid: u32,
    /// Fill.
    pub unused: u32,
}

/// A chunk that begins with a [`LogHead`], followed by records: see [`Record`].
pub const LOG: u32 = 1;
/// A chunk of counters of eight bytes, for one thread at a time.
pub const COUNTERS: u32 = 2;
/// A chunk, all zero, of a process that is over: for the next that needs one of its length.
pub const FREED: u32 = 3;
/// A chunk that begins with a [`crate::trace::Ring`], for one thread.
pub const RING: u32 = 4;

/// A request, and its answer.
#[repr(C)]
pub struct Mailbox {
    /// One of the states below.
    pub state: AtomicU32,
    /// The thread that asks.
    pub tid: AtomicU32,
    /// Where the log of the process is that is over then; 0 if the thread only borrows another's memory.
    pub log: AtomicU64,
    /// The signals that the new program shall block.
    pub mask: AtomicU64,
}

/// Nobody uses the mailbox.
pub const FREE: u32 = 0;
/// Somebody fills it in.
pub const TAKEN: u32 = 1;
/// The thread is about to execute another program and asks to be followed.
pub const WILL_EXECUTE: u32 = 2;
/// It will be.
pub const FOLLOWED: u32 = 3;
/// It cannot be.
pub const NOT_FOLLOWED: u32 = 4;
/// The program could not be executed after all.
pub const DID_NOT_EXECUTE: u32 = 5;
/// The process is about to restrict its system calls, and asks to be let go.
pub const WILL_RESTRICT: u32 = 6;

impl Arena {
    /// Code that need not be counted, in order.
    #[must_use]
    pub fn exempt(&self) -> &[Exempt] {
        &self.exempt[..(self.exempt_count as usize).min(MOST_EXEMPT)]
    }

    /// Takes a part of the arena. `None` if it is full.
    pub fn take(&self, kind: u32, process: u32, pid: u32, len: u64) -> Option<u64> {
        let (index, offset) = self.reuse(len).or_else(|| self.fresh(len))?;
        let chunk = (&raw const *self.directory.get(index)?).cast_mut();
        // SAFETY: the entry is ours: just freed by somebody else, or never used. Others look at it when the kind is set.
        #[allow(unsafe_code)]
        unsafe {
            (*chunk).process = process;
            (*chunk).offset = offset;
            (*chunk).len = len;
            (*chunk).pid = pid;
            (*chunk).kind.store(kind, Ordering::Release);
        }
        Some(offset)
    }

    /// A chunk that somebody else has used before.
    fn reuse(&self, len: u64) -> Option<(usize, u64)> {
        if self.freed.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let n = self.chunks.load(Ordering::Acquire) as usize;
        let (index, chunk) = self.directory.iter().take(n).enumerate().find(|(_, chunk)| {
            chunk.kind.load(Ordering::Acquire) == FREED
                && chunk.len == len
                && chunk.kind.compare_exchange(FREED, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        self.freed.fetch_sub(1, Ordering::Relaxed);
        Some((index, chunk.offset))
    }

    /// A chunk that nobody has used.
    fn fresh(&self, len: u64) -> Option<(usize, u64)> {
        let more = |next: u64| next.checked_add(len).filter(|end| *end <= self.len);
        let offset = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let more = |n: u32| ((n as usize) < MOST_CHUNKS).then_some(n + 1);
        let index = self.chunks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some((index as usize, offset))
    }
}

/// How much room there is: of addresses, not of memory.
pub const ARENA_LEN: u64 = 1 << 43;

/// Where the arena is best mapped, and behind it whatever else the engine needs: far from where the kernel puts
/// things by itself, so that the program finds its memory where it would be without the engine.
pub const ZONE: u64 = 0x2000_0000_0000;

/// Where the engine itself is.
pub const HOME: u64 = ZONE - (1 << 30);

/// The start of a log.
#[repr(C)]
pub struct LogHead {
    /// The length of all records.
    pub len: AtomicU64,
    /// What happened in the process.
    pub statistics: Statistics,
    /// Where the engine lies in it.
    pub engine: u64,
    /// Where that ends.
    pub engine_end: u64,
    /// [`RUNS`], [`ENDS`] or [`EXECUTED`].
    pub state: AtomicU32,
    /// How many processes have been forked off, whose logs refer to this one.
    pub children: AtomicU32,
}

/// The process runs, or was ended by somebody else.
pub const RUNS: u32 = 0;
/// It is about to end.
pub const ENDS: u32 = 1;
/// It has become another program, which has a log of its own.
pub const EXECUTED: u32 = 2;

/// What the engine did.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Units translated.
    pub units: u64,
    /// Bytes of code in the cache.
    pub code: u64,
    /// Exits that were given a way.
    pub links: u64,
    /// Times the engine was entered.
    pub entries: u64,
    /// Returns it had to look up.
    pub returns: u64,
    /// Computed jumps and calls it had to look up.
    pub targets: u64,
    /// System calls it looked at.
    pub kernel_calls: u64,
    /// Signals that arrived.
    pub signals: u64,
    /// Units that were given up because their code changed.
    pub invalid: u64,
    /// Nanoseconds in the engine.
    pub time: u64,
    /// Units that follow a usual way, in place of another.
    pub traces: u64,
    /// Units and targets for which there was no counter any more.
    pub lost: u64,
    /// Times the cache was full.
    pub renewals: u64,
    /// Units that were looked at and are right.
    pub verified: u64,
    /// Units that were not, as they have rare instructions.
    pub unverified: u64,
}

impl Statistics {
    /// Adds what happened in another process.
    pub fn add(&mut self, other: &Self) {
        self.units += other.units;
        self.code += other.code;
        self.links += other.links;
        self.entries += other.entries;
        self.returns += other.returns;
        self.targets += other.targets;
        self.kernel_calls += other.kernel_calls;
        self.signals += other.signals;
        self.invalid += other.invalid;
        self.time += other.time;
        self.traces += other.traces;
        self.lost += other.lost;
        self.renewals += other.renewals;
        self.verified += other.verified;
        self.unverified += other.unverified;
    }
}

/// How long a process's log can get.
pub const LOG_LEN: u64 = 1 << 30;
/// How much memory for counters a thread has.
pub const COUNTERS_LEN: u64 = 64 << 20;

/// The head of a record in a log; what follows depends on the kind. Records are multiples of eight bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Record {
    /// [`MAPPING`] or one of those behind it.
    pub kind: u32,
    /// The length with this head.
    pub len: u32,
}

/// A [`Mapping`], followed by the path.
pub const MAPPING: u32 = 1;
/// A [`Unit`], followed by its [`Piece`]s and [`Exit`]s.
pub const UNIT: u32 = 2;
/// A [`Target`].
pub const TARGET: u32 = 3;

/// This process was forked off: all of another log up to some length holds for it too. Two words: where that log
/// lies, and the length.
pub const PARENT: u32 = 4;

/// An [`Interruption`].
pub const INTERRUPTION: u32 = 5;

/// The code of the [`UNIT`] before, if not all of it is in files: the bytes of its pieces, one behind the other.
pub const CODE: u32 = 6;

/// A unit whose code was written down is in use again after other code has lain there. Two words of four bytes: which of
/// the [`UNIT`]s, and nothing.
pub const AGAIN: u32 = 7;

/// An [`Edge`].
pub const EDGE: u32 = 8;

/// A [`crate::trace::Traced`] unit, followed by its [`Piece`]s and [`Exit`]s. A [`CODE`] comes next.
pub const TRACED: u32 = 9;

/// Whether executable memory is that of a file, which can be read later too. One that is gone cannot.
#[must_use]
pub fn is_file(path: &[u8], inode: u64) -> bool {
    path.starts_with(b"/") && inode != 0 && !path.ends_with(b" (deleted)")
}

/// A unit that was left in the middle, by a signal whose handler did not come back there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Interruption {
    /// Whether that is so: one that came back does not count.
    pub holds: u32,
    /// Which of the [`UNIT`]s.
    pub unit: u32,
    /// In which piece.
    pub piece: u32,
    /// Whether the unit had been counted already.
    pub counted: u32,
    /// The instruction that was not executed any more.
    pub pc: u64,
}

/// Executable memory of a process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mapping {
    /// Its number, in the process.
    pub number: u32,
    /// The length of the path, which follows.
    pub path_len: u32,
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// What to add to an address for a place in the file.
    pub offset: u64,
    /// The file's number, 0 if there is none.
    pub inode: u64,
}

/// Code that was translated in one go: entered at one place, left at several.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Unit {
    /// The counter of its entries; [`NO_COUNTER`] if they were used up, so that it is not known how often it ran.
    pub entries: u32,
    /// How many pieces it has.
    pub pieces: u32,
    /// How many exits it has.
    pub exits: u32,
    /// Whether nobody wants to know how often it ran: it has no counter then. See [`Exempt`].
    pub exempt: u32,
}

/// Instructions one behind the other. Control goes from each piece to the next unless it takes an exit.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first instruction.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
}

/// A way out of a unit.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Where it leads, as far as that is known: 0 if it is computed.
    pub to: u64,
    /// For a [`GUESS`], the counter of how often it is wrong. For a [`CALL`] or an [`INDIRECT_CALL`], its number: that of
    /// others that end with the same call. Otherwise nothing: see [`Edge`].
    pub number: u32,
    /// The piece it leaves.
    pub piece: u16,
    /// One of the kinds below.
    pub kind: u16,
}

/// The end of a unit: a jump, or simply the next instruction.
pub const JUMP: u32 = 0;
/// A call.
pub const CALL: u32 = 1;
/// A computed jump.
pub const INDIRECT_JUMP: u32 = 2;
/// A computed call.
pub const INDIRECT_CALL: u32 = 3;
/// A return.
pub const RETURN: u32 = 4;
/// A call of the kernel.
pub const KERNEL: u32 = 5;
/// Nowhere: an instruction that cannot be executed.
pub const NOWHERE: u32 = 6;

/// A branch that is taken.
pub const BRANCH: u32 = 7;

/// A branch that is *not* taken; otherwise it is followed to its target, the next piece.
pub const STRAY: u32 = 8;

/// A computed jump, at `to`, that leads elsewhere than to the next piece.
pub const GUESS: u32 = 9;

/// A call of the kernel that could not write to memory of the program, because there was code.
pub const REFUSED: u32 = 10;

/// A call of the next instruction: only to learn where it is, as nobody returns from there.
pub const CALL_NEXT: u32 = 11;

/// Behind an instruction that has changed the base of a segment. Only in programs that are traced.
pub const REBASED: u32 = 12;

/// There is no counter.
pub const NO_COUNTER: u32 = u32::MAX;

/// A way that control has taken from one unit to another.
///
/// Most of them are not counted, as they follow from those that are: as often as a unit is entered by all ways, it is left
/// by all. A way is only counted if otherwise there would be more than one solution.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// What kind of thing it comes from: [`FROM_EXIT`] and so on.
    pub kind: u32,
    /// Which.
    pub from: u32,
    /// For [`FROM_EXIT`], which of the unit's exits.
    pub exit: u32,
    /// Which of the [`UNIT`]s it leads to; [`OUTSIDE`] if there is no code.
    pub to: u32,
    /// How often; [`NO_COUNTER`] if that follows.
    pub counter: u32,
    /// Fill.
    pub unused: u32,
}

/// From an exit of one of the [`UNIT`]s.
pub const FROM_EXIT: u32 = 0;
/// From a call, by its number.
pub const FROM_CALL: u32 = 1;
/// From a computed jump or call that has found its target: a [`Target`], by its counter.
pub const FROM_TARGET: u32 = 2;
/// From a return, or the engine has led there by itself.
pub const FROM_OUTSIDE: u32 = 3;

/// Not a unit.
pub const OUTSIDE: u32 = u32::MAX;

/// Where a computed jump or call went.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Target {
    /// The jump or call.
    pub site: u64,
    /// Where it went.
    pub to: u64,
    /// How often; [`NO_COUNTER`] as for units.
    pub counter: u32,
    /// The mapping the site lies in.
    pub mapping: u32,
    /// For a jump, which of the [`UNIT`]s it is in.
    pub unit: u32,
    /// For a call, its number; otherwise [`NO_CALL`].
    pub call: u32,
}

/// Not a call.
pub const NO_CALL: u32 = u32::MAX;

/// How the engine is started in a process: lies in the process's memory, filled in from outside.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Boot {
    /// Where the arena is mapped.
    pub arena: u64,
    /// How much of it is.
    pub mapped: u64,
    /// Where the engine's own memory begins and ends: its code, data and first stack.
    pub engine: u64,
    /// Its end.
    pub engine_end: u64,
    /// The general registers, by their hardware number.
    pub registers: [u64; 16],
    /// The program counter.
    pub rip: u64,
    /// The flags.
    pub rflags: u64,
}

/// How far behind its entry the engine is entered for a [`Visit`].
pub const VISIT_ENTRY: u64 = 16;

/// The same for what is done once for all processes: a function that is given the beginning and the end of some memory, and says
/// how far it has used that.
pub const PREPARE_ENTRY: u64 = 32;

/// The number of the system call that says that a visit is over. There is none of that number.
pub const VISIT_OVER: u64 = 0x7265_6c76;

/// Something the engine does for whoever holds a thread still: lies at the end of the engine's own memory.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Visit {
    /// [`ADOPT`] and so on.
    pub what: u64,
    /// Where the arena is mapped.
    pub arena: u64,
    /// How much of it is.
    pub mapped: u64,
    /// Where the engine's own memory begins.
    pub engine: u64,
    /// Where it ends.
    pub engine_end: u64,
    /// The thread's own memory; for [`ADOPT`], that of one that has been adopted already.
    pub thread: u64,
    /// The program counter: that of the thread, and then where it goes on.
    pub pc: u64,
    /// Whether the thread is in a system call that may have to be made again.
    pub in_call: u64,
    /// What the thread blocks; and then, what the kernel is to block.
    pub mask: u64,
    /// The program's own base of `gs`, and what it has loaded into it.
    pub gs: [u64; 2],
    /// Where the kernel keeps restartable sequences for the thread, their length, and their signature.
    pub rseq: [u64; 3],
    /// What came of it: [`DONE`] and so on.
    pub answer: u64,
}

/// Takes over a thread that has been running without the engine. It goes on at `pc`, with its memory at `thread`.
pub const ADOPT: u64 = 1;
/// Finds out where a thread is in the program.
pub const LOCATE: u64 = 2;
/// Gives a thread back what the engine has changed for it.
pub const RELEASE: u64 = 3;
/// Gives the process back what the engine has changed for all threads, each of which has been released.
pub const CLOSE: u64 = 4;

/// It is done.
pub const DONE: u64 = 1;
/// The thread is in the middle of something that the engine has added: one instruction further.
pub const STEP: u64 = 2;
/// The engine is at work for the thread.
pub const BUSY: u64 = 3;
/// It cannot be done.
pub const FAILED: u64 = 4;
/// The engine waits in a system call for the thread. If the thread goes on at `pc` instead, it will soon be found where its
/// state is the program's, before the call.
pub const GIVE_UP: u64 = 5;
