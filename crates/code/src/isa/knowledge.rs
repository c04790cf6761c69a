//! Which registers have to be written down so that all accesses to memory can be told later, and which need not be as
//! they can be computed.
//!
//! Who records and who replays ask the same: the one what to write, the other what to read.

use super::{Access, Accesses, Flag, Form, Gpr, How, RegSet, Replayed, Wide};

/// The registers whose values are known, and perhaps the direction flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knowledge {
    known: RegSet,
    /// Whether it has to be known when instructions happen that other threads may wait for.
    order: bool,
}

/// What has to be written down of an instruction, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needed {
    /// Registers before it, in the order of their numbers.
    pub before: RegSet,
    /// Other registers before it: one with indices, and one with a mask.
    pub wide: [Option<Wide>; 2],
    /// The word of memory before it that says in which form the processor's state is.
    pub form: bool,
    /// The word on the stack before it, from which it loads flags.
    pub flags: bool,
    /// The time right before it, and the time right behind it.
    pub times: bool,
    /// Registers behind it, in the order of their numbers.
    pub after: RegSet,
}

impl Needed {
    /// How many words that are.
    #[must_use]
    pub fn len(&self) -> usize {
        let wide = self.wide.iter().flatten().map(|wide| wide.words()).sum::<usize>();
        let others = wide + usize::from(self.form) + usize::from(self.flags) + 2 * usize::from(self.times);
        self.before.gprs().count() + others + self.after.gprs().count()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Knowledge {
    /// What is known wherever code is entered: the stack pointer and the direction flag.
    pub const ALWAYS: RegSet = RegSet::gpr(Gpr::RSP).with(RegSet::flag(Flag::Df));

    /// These, and what is always known.
    #[must_use]
    pub fn of(registers: RegSet, order: bool) -> Self {
        Self { known: registers | Self::ALWAYS, order }
    }

    /// What is known.
    #[must_use]
    pub fn known(self) -> RegSet {
        self.known
    }

    /// Goes on behind an instruction, given what it accesses and what it does. Says what has to be written down.
    pub fn step(&mut self, accesses: &Accesses, replayed: &Replayed) -> Needed {
        let needs = accesses.iter().fold(RegSet::EMPTY, |all, access| all | access.needs());
        let before = (needs - self.known) & RegSet::GPRS;
        let known = self.known | before;
        let wide = accesses.iter().map(Access::needs_wide).find(|wide| wide.iter().any(Option::is_some));
        let wide = wide.unwrap_or_default();
        let form = accesses.iter().any(|access| access.how == How::State(Form::Said));
        let times = self.order && accesses.iter().any(|access| access.is_locked);
        let computed = replayed.sets.iter().filter(|set| known.contains(set.needs())).map(|set| set.to);
        let computed: RegSet = computed.collect();
        let set: RegSet = replayed.sets.iter().map(|set| set.to).collect();
        let lost = replayed.loses | (set - computed);
        if lost.contains(RegSet::GPRS) {
            // An interrupt: whoever comes back from it says with what.
            self.known = Self::ALWAYS;
            return Needed { before, ..Needed::default() };
        }
        // How far a comparison of strings has come.
        let compares = accesses.iter().any(|access| access.how == How::Repeated { compares: true });
        let counted = if compares { RegSet::gpr(Gpr::RCX) } else { RegSet::EMPTY };
        // Where the stack is can so be told without computing anything else.
        let moved = replayed.sets.iter().any(|set| set.to == Gpr::RSP && set.moved_by().is_none());
        let stack = if moved { RegSet::gpr(Gpr::RSP) } else { lost & RegSet::gpr(Gpr::RSP) };
        let after = stack | counted;
        let flags = lost.contains(RegSet::flag(Flag::Df));
        self.known = (known - lost) | computed | after | Self::ALWAYS;
        Needed { before, wide, form, flags, times, after }
    }
}
