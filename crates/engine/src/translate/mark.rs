//! What place in the cache is what place in the program, and what of the program's state is elsewhere there.

use super::Pen;
use relive_code::isa::Gpr;

/// Which of the program's registers are in the thread's memory, at some place of the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spilled {
    /// `rax` is in [`crate::thread::offset::RAX`].
    pub rax: bool,
    /// `rcx` is in [`crate::thread::offset::RCX`].
    pub rcx: bool,
    /// This one is in [`crate::thread::offset::SCRATCH`].
    pub scratch: Option<Gpr>,
    /// To this one, the program's base of `gs` has been added.
    pub shifted: Option<Gpr>,
}

/// Instead of an address in a [`Mark`]: the program is about to go where `rcx` says.
pub const IN_RCX: u64 = 0;

/// The same: the engine is about to change something, and a few instructions later has put it back.
pub const STEP: u64 = 1;

/// The same: the program is about to return to where the thread's `target` says.
pub const RETURNING: u64 = 2;

/// Whether a [`Mark`] is of a place in the program.
pub fn is_place(pc: u64) -> bool {
    pc > RETURNING
}

/// From this place on, the state of the program is that before the instruction at `pc`, but for what is spilled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The address in the cache.
    pub at: u64,
    /// The address in the program.
    pub pc: u64,
    /// What to put back.
    pub spilled: Spilled,
    /// The piece it is in.
    pub piece: u32,
    /// What the unit's counters say of this.
    pub progress: Progress,
    /// What has been written down.
    pub pen: Pen,
}

impl Mark {
    /// Whether all of the program's state is what it is before an instruction of the program, which begins at this
    /// address. On the way to another unit it would be too, but that it was taken is not known yet.
    pub fn is_whole(&self, at: u64) -> bool {
        self.at == at
            && self.spilled == Spilled::default()
            && is_place(self.pc)
            && self.progress != Progress::Done
    }
}

/// How far a unit has come, for its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It has not been counted yet.
    Entered,
    /// It has.
    Counted,
    /// All of it has been executed, the last being a call of the kernel.
    Called,
    /// All of it has been executed, or what has not is known not to be.
    Done,
}

impl Progress {
    /// Whether all there is to execute has been.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Called | Self::Done)
    }
}
