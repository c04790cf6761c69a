//! What a traced thread writes down, and how it gets to whoever collects it.
//!
//! Each thread has a [`Ring`] of buffers in the arena. Code in the cache appends a *record* for every unit it executes: a tag, which is
//! written last, when it is known by which exit the unit is left, and values. What else happens to a thread is written down in records
//! of their own, with [`SPECIAL`] tags. Where nothing has been written, or a record has only been begun, there is a zero.
//!
//! Nobody asks whether a buffer is full: behind each lies a page that cannot be written to.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How many buffers a ring has: some are packed where they lie, some wait for that, and the thread fills the next.
pub const BUFFERS: usize = 8;
/// The length of each. Going from one to the next takes a signal, as long as it takes to fill 20 kB. All buffers of a busy thread
/// should fit into a processor's last cache together.
pub const BUFFER_LEN: u64 = 2 << 20;
/// What lies between two of them: nothing can be written there.
pub const GUARD_LEN: u64 = 1 << 16;

/// What a record is of, or that something else has happened.
pub type Tag = u32;

/// The first word of a record of a unit: its tag, and above it how many values follow, [`MANY`] if it is so many or more. So whoever goes
/// through records does not have to look up how long each is to get to the next. Special tags stand there as they are.
#[must_use]
pub const fn word(tag: Tag, values: u16) -> u32 {
    let count = if values < MANY { values } else { MANY };
    tag | (count as u32) << TAG_BITS
}

/// The tag in the first word of a record.
#[must_use]
#[inline(always)]
pub const fn tag_of(word: u32) -> Tag {
    if word & SPECIAL == 0 { word & (MOST_TAGS - 1) } else { word }
}

/// How many values a record of a unit has by its first word, [`MANY`] if it does not say, and more for special tags.
#[must_use]
#[inline(always)]
pub const fn count_of(word: u32) -> u32 {
    word >> TAG_BITS
}

/// Tags of units are below that.
pub const MOST_TAGS: Tag = 1 << TAG_BITS;
const TAG_BITS: u32 = 26;
/// So many values, or more.
pub const MANY: u16 = 31;

/// The first tag of an exit.
pub const FIRST_TAG: Tag = 1;

/// In tags that say that something else has happened. Which is in the lowest byte.
pub const SPECIAL: Tag = 1 << 31;
/// A [`State`] follows: whatever came before, the thread goes on with it.
pub const STATE: Tag = SPECIAL | 1;
/// A unit was left in the middle: so many values follow as [`stopped_values`] says, and a [`Stop`].
pub const STOP: Tag = SPECIAL | 2;
/// The call of the kernel at the end of the record before was not made.
pub const NOT_CALLED: Tag = SPECIAL | 3;
/// A [`Call`] follows: the thread calls the kernel, with the instruction at the end of the record before.
pub const CALL: Tag = SPECIAL | 4;
/// A [`CallResult`] follows: the kernel has come back. Never said of calls that do not come back, or come back elsewhere (`exit`,
/// `execve`, `rt_sigreturn`), nor by those that begin with one (the child of `fork`).
pub const RESULT: Tag = SPECIAL | 5;

/// A [`State`] follows, which the thread has anyway: nothing has happened. What comes behind it can be understood without what comes before.
/// Soon after the beginning of each buffer, there is one.
pub const SAME_STATE: Tag = SPECIAL | 6;

/// The tag of a record of a unit that was left in the middle, behind so many values.
#[must_use]
pub const fn stopped(values: u16) -> Tag {
    STOP | (values as Tag) << 8
}

/// How many values such a record has, if it is one.
#[must_use]
pub const fn stopped_values(tag: Tag) -> Option<u16> {
    if tag & !(0xffff << 8) == STOP { Some((tag >> 8) as u16) } else { None }
}

/// How much belongs to a special tag, behind values if it has some.
#[must_use]
pub const fn payload(tag: Tag) -> Option<usize> {
    Some(match tag {
        STATE | SAME_STATE => size_of::<State>(),
        NOT_CALLED => 0,
        CALL => size_of::<Call>(),
        RESULT => size_of::<CallResult>(),
        _ if stopped_values(tag).is_some() => size_of::<Stop>(),
        _ => return None,
    })
}

/// The head of a ring. The first buffer lies a page behind it.
#[repr(C)]
pub struct Ring {
    /// The thread that fills it, as the kernel numbers it; 0 before the first.
    pub tid: AtomicU32,
    /// How many buffers may be full or being filled at a time; 0 for all. Whoever empties them says so.
    pub most: AtomicU32,
    /// How many buffers have been filled.
    pub filled: AtomicU64,
    /// How many of these have been emptied.
    pub emptied: AtomicU64,
    /// How far each buffer was filled.
    pub lens: [AtomicU32; BUFFERS],
    /// Which thread has.
    pub tids: [AtomicU32; BUFFERS],
    /// Changes when a buffer has been emptied.
    pub room: AtomicU32,
    /// Fill.
    pub unused_too: u32,
}

impl Ring {
    /// Whether the buffer behind one that is full can be filled.
    #[must_use]
    pub fn has_room_behind(&self, filled: u64) -> bool {
        self.used(filled) < self.allowed()
    }

    /// The same, for a thread that waits. If it may use all buffers it waits for several of them: it would be woken, and whoever wakes it
    /// disturbed, for each.
    #[must_use]
    pub fn has_room_for_who_waits(&self, filled: u64) -> bool {
        match self.allowed() {
            all if all == MOST.into() => self.used(filled) <= all * 3 / 4,
            _ => self.has_room_behind(filled),
        }
    }

    fn used(&self, filled: u64) -> u64 {
        filled + 1 - self.emptied.load(Ordering::Acquire)
    }

    fn allowed(&self) -> u64 {
        let most = match self.most.load(Ordering::Relaxed) {
            most @ 1..=MOST => most,
            _ => MOST,
        };
        u64::from(most)
    }
}

/// All of them.
const MOST: u32 = BUFFERS as u32;

/// Where a buffer begins in a ring.
#[must_use]
pub const fn buffer(number: u64) -> u64 {
    crate::PAGE + number % BUFFERS as u64 * (BUFFER_LEN + GUARD_LEN)
}

/// How long a ring is.
pub const RING_LEN: u64 = crate::PAGE + BUFFERS as u64 * (BUFFER_LEN + GUARD_LEN);

/// What a thread goes on with, when it has not come there by an exit.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The general registers, by their hardware numbers.
    pub registers: [u64; 16],
    /// The flags.
    pub flags: u64,
    /// Where it goes on.
    pub pc: u64,
    /// The base of `fs`.
    pub fs: u64,
    /// The program's base of `gs`.
    pub gs: u64,
}

/// A call of the kernel begins.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which; with [`BY_INTERRUPT`] if it is one of those that 32-bit programs make.
    pub number: u64,
    /// What for.
    pub arguments: [u64; 6],
    /// Some time before, by the processor's time stamp counter.
    pub time: u64,
}

/// In the number of a call: it was made by `int 0x80`, which has numbers of its own.
pub const BY_INTERRUPT: u64 = 1 << 32;

/// A call of the kernel is over.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// What it returns.
    pub value: u64,
    /// Some time behind it, by the processor's time stamp counter.
    pub time: u64,
}

/// Where a unit was left in the middle.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The first instruction that was not executed.
    pub pc: u64,
    /// The first tag of the unit.
    pub unit: Tag,
    /// The piece it was in.
    pub piece: u32,
    /// What was in `rcx`: how often an instruction that repeats itself has still to be executed.
    pub rcx: u64,
}

/// A unit whose exits have tags.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The tag of its first exit; those of the others follow.
    pub first: Tag,
    /// How many pieces it has.
    pub pieces: u16,
    /// How many exits it has.
    pub exits: u16,
    /// The registers whose values are known when it is entered, besides the stack pointer: a bit for each, by hardware number.
    pub known: u32,
    /// Fill.
    pub unused: u32,
}
