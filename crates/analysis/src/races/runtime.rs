//! Whose code something is.
//!
//! The C library and the loader have races that do no harm: they ask who owns a lock before they try to take it, and the like. What
//! they do for the program, on the program's data, is another matter. So whoever asks for races says which code belongs to
//! them, and by which of their functions the program has entered it.

use relive_abi::engine::{CALL, INDIRECT_CALL, RETURN};
use relive_trace::units::{Turn, Unit};

/// What code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program, or a library like any other.
    Program,
    /// The way from the program to a function elsewhere: a stub of the procedure linkage table.
    Stub,
    /// The loader, which also finds functions when they are first called.
    Loader,
    /// The C library, somewhere inside.
    Runtime,
    /// The same, where a function begins that others can call.
    Entry(Function),
}

/// What a function of the C library is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// It works on data of the program: `memcpy`, `strlen`, `qsort`.
    Data,
    /// It takes a mutex, which knows its owner.
    Mutex,
    /// It takes another kind of lock.
    Lock,
    /// It gives a lock back.
    Unlock,
    /// It gives a lock back, waits, and takes it again.
    Wait,
    /// Anything else.
    Other,
}

impl Function {
    /// What a function is for, by its name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let name = name.trim_start_matches('_');
        let is_data = ["mem", "str", "wmem", "wcs", "stpcpy", "stpncpy", "bcopy", "bzero", "bcmp", "qsort"]
            .iter()
            .chain(&["bsearch", "swab", "rawmemchr", "index", "rindex", "sprintf", "snprintf", "vsnprintf"])
            .any(|start| name.starts_with(start));
        match name {
            "memalign" | "strdup" | "strndup" => Self::Other,
            _ if is_data => Self::Data,
            "pthread_mutex_unlock" | "pthread_spin_unlock" | "mtx_unlock" | "pthread_rwlock_unlock" => {
                Self::Unlock
            }
            _ if name.starts_with("pthread_cond_") || name.starts_with("cnd_") => Self::Wait,
            _ if name.starts_with("pthread_mutex_") || name.starts_with("mtx_") => Self::Mutex,
            _ if name.starts_with("pthread_spin_") || name.starts_with("pthread_rwlock_") => Self::Lock,
            _ => Self::Other,
        }
    }
}

/// Who knows whose code something is.
pub trait Runtime: Send + Sync {
    /// What is at an address of a process.
    fn kind(&self, process: u32, pc: u64) -> Kind;

    /// Whether somebody who calls this only wants to let time pass: `usleep`, `sched_yield`.
    fn is_pause(&self, process: u32, target: u64) -> bool;

    /// The code at an address, even if it was never executed: as many bytes as an instruction may have, if there are.
    fn code(&self, process: u32, pc: u64) -> Option<&[u8]>;

    /// Whether an instruction comes from the library that makes variables atomic, by its line of source.
    fn is_atomic(&self, _process: u32, _pc: u64) -> bool {
        false
    }
}

/// All code is the program's.
pub struct NoRuntime;

impl Runtime for NoRuntime {
    fn kind(&self, _: u32, _: u64) -> Kind {
        Kind::Program
    }

    fn is_pause(&self, _: u32, _: u64) -> bool {
        false
    }

    fn code(&self, _: u32, _: u64) -> Option<&[u8]> {
        None
    }
}

/// An instruction, and on whose behalf it is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) unit: u32,
    pub(super) step: u16,
    pub(super) owner: Owner,
    /// Where the program has called the C library, in two parts, as that takes less room; [`NONE`] if it has not.
    caller_unit: u32,
    caller_step: u16,
}

/// Not a unit.
const NONE: u32 = u32::MAX;

impl Spot {
    /// Where the program has called the C library.
    pub(super) fn caller(&self) -> Option<(u32, u16)> {
        (self.caller_unit != NONE).then_some((self.caller_unit, self.caller_step))
    }
}

/// Who does something for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Owner {
    /// The program.
    Program,
    /// The C library.
    Runtime,
    /// The loader.
    Loader,
}

impl Owner {
    /// Whether an access may race with one of another. What the C library does to itself is its own business; the loader writes what the
    /// program reads when it calls functions, at any time, and always the same.
    pub(super) fn may_race(self, other: Self) -> bool {
        match (self, other) {
            (Self::Loader, _) | (_, Self::Loader) => false,
            (one, other) => one == Self::Program || other == Self::Program,
        }
    }
}

/// What each piece of a unit is, and how it is come to from the one before.
type Pieces = Box<[(Kind, Way)]>;

/// Follows a thread into the C library and out again.
pub(super) struct Follower {
    process: u32,
    /// By unit.
    units: Vec<Option<Pieces>>,
    inside: Inside,
    /// The last instruction of the program.
    caller: Option<(u32, u16)>,
    /// What the code is that is executed now.
    kind: Kind,
}

/// How a thread has come somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Jump,
    Call,
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Program,
    Loader,
    Function(Function),
}

impl Follower {
    pub(super) fn new(process: u32) -> Self {
        // Threads begin in the C library.
        Self {
            process,
            units: Vec::new(),
            inside: Inside::Function(Function::Other),
            caller: None,
            kind: Kind::Runtime,
        }
    }

    /// Remembers what the pieces of a unit are. Whether all of it is the program's.
    #[inline]
    pub(super) fn look(&mut self, unit: &Unit, runtime: &dyn Runtime) -> bool {
        let number = unit.number as usize;
        if self.units.len() <= number {
            self.units.resize(number + 1, None);
        }
        let process = self.process;
        let kinds = self.units[number].get_or_insert_with(|| {
            let kind = |&(start, _): &(u64, u64)| (runtime.kind(process, start), Way::Jump);
            let mut pieces: Pieces = unit.pieces.iter().map(kind).collect();
            for (step, turn, _) in unit.turns() {
                pieces[usize::from(unit.steps[step].piece)].1 = match turn {
                    Turn::On => Way::Jump,
                    Turn::Call => Way::Call,
                    Turn::Return => Way::Return,
                };
            }
            pieces
        });
        kinds.iter().all(|(kind, _)| matches!(kind, Kind::Program))
    }

    /// The thread goes on in a piece of a unit that was looked at, from the one before.
    #[inline]
    pub(super) fn go_on(&mut self, unit: &Unit, piece: u16) {
        let pieces = self.units[unit.number as usize].as_deref().unwrap_or(&[]);
        let way = pieces.get(usize::from(piece)).map_or(Way::Jump, |&(_, way)| way);
        self.enter(unit, piece, way);
    }

    /// The thread goes on in a piece of a unit that was looked at.
    #[inline]
    pub(super) fn enter(&mut self, unit: &Unit, piece: u16, way: Way) {
        let kinds = self.units[unit.number as usize].as_deref().unwrap_or(&[]);
        let kind = kinds.get(usize::from(piece)).map_or(Kind::Program, |&(kind, _)| kind);
        self.kind = kind;
        self.inside = match (kind, self.inside, way) {
            (Kind::Program | Kind::Stub, ..) => Inside::Program,
            (Kind::Loader, Inside::Function(function), _) => Inside::Function(function),
            (Kind::Loader, ..) => Inside::Loader,
            (Kind::Runtime | Kind::Entry(_), Inside::Function(function), _) => Inside::Function(function),
            // It asks the C library which of several functions to take.
            (Kind::Runtime | Kind::Entry(_), Inside::Loader, Way::Call) => Inside::Loader,
            // Back from a function of the program that the C library has called.
            (Kind::Runtime | Kind::Entry(_), Inside::Program, Way::Return) => {
                Inside::Function(Function::Other)
            }
            (Kind::Entry(function), ..) => Inside::Function(function),
            // What others call and has no name was chosen when the program began: the best `memcpy` there is.
            (Kind::Runtime, ..) => Inside::Function(Function::Data),
        };
    }

    /// How a thread goes on that leaves a unit by an exit.
    pub(super) fn way(unit: &Unit, exit: Option<usize>) -> Way {
        match exit.and_then(|exit| unit.exits.get(exit)).map(|exit| u32::from(exit.kind)) {
            Some(RETURN) => Way::Return,
            Some(CALL | INDIRECT_CALL) => Way::Call,
            _ => Way::Jump,
        }
    }

    /// The function of the C library that the thread is in, if it is in one.
    pub(super) fn function(&self) -> Option<Function> {
        match self.inside {
            Inside::Program => None,
            Inside::Loader => Some(Function::Other),
            Inside::Function(function) => Some(function),
        }
    }

    /// An instruction as it is executed now.
    #[inline]
    pub(super) fn spot(&self, unit: u32, step: u16) -> Spot {
        let owner = match self.inside {
            // Whoever has asked for it.
            _ if self.kind == Kind::Loader => Owner::Loader,
            Inside::Program | Inside::Function(Function::Data) => Owner::Program,
            Inside::Function(_) => Owner::Runtime,
            Inside::Loader => Owner::Loader,
        };
        let caller = self.caller.filter(|_| self.inside != Inside::Program);
        let (caller_unit, caller_step) = caller.unwrap_or((NONE, 0));
        Spot { unit, step, owner, caller_unit, caller_step }
    }

    /// The program has executed this instruction.
    #[inline]
    pub(super) fn passed(&mut self, unit: u32, step: u16) {
        if self.inside == Inside::Program && self.kind != Kind::Stub {
            self.caller = Some((unit, step));
        }
    }
}
