//! What a thread has done, as it was written down or as a single-stepper has seen it.

use relive_code::isa::AccessKind;
use std::fmt::Debug;

/// What a thread has done, from its start, or from when it became another program.
#[derive(Default)]
pub(crate) struct History {
    /// Every instruction.
    pub(crate) pcs: Vec<u64>,
    /// Every access to memory.
    pub(crate) references: Vec<Referred>,
    /// Every call of the kernel.
    pub(crate) calls: Vec<Called>,
    /// The times before and behind every locked instruction. A single-stepper does not know them.
    pub(crate) times: Vec<[u64; 2]>,
}

/// An access to memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Referred {
    pub(crate) pc: u64,
    pub(crate) address: u64,
    pub(crate) size: u32,
    pub(crate) kind: AccessKind,
}

/// A call of the kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) number: u64,
    pub(crate) arguments: [u64; 6],
    /// What it returned, if it did.
    pub(crate) result: Option<u64>,
}

impl Called {
    /// Without what is not the same the next time: numbers of processes and threads, as results and of those that get signals.
    /// Calls with fewer than six arguments have the rest by chance, which a library does not leave to that.
    fn steady(&self, has_library: bool) -> Self {
        const KILL: u64 = 62;
        /// `getpid`, `clone`, `fork`, `vfork`, `wait4`, `gettid`, `set_tid_address`, and `getpid` by `int 0x80`.
        const NUMBERS: [u64; 8] = [39, 56, 57, 58, 61, 186, 218, 1 << 32 | 20];
        let mut arguments = if has_library { [0; 6] } else { self.arguments };
        if self.number == KILL {
            arguments[0] = 0;
        }
        let result = self.result.filter(|_| !NUMBERS.contains(&self.number));
        Self { number: self.number, arguments, result }
    }
}

impl History {
    /// Fails at the first difference.
    pub(crate) fn compare(&self, other: &Self, has_library: bool) {
        compare(&self.pcs, &other.pcs);
        compare(&self.references, &other.references);
        let calls =
            |history: &Self| history.calls.iter().map(|call| call.steady(has_library)).collect::<Vec<_>>();
        compare(&calls(self), &calls(other));
    }
}

fn compare<T: PartialEq + Debug>(one: &[T], other: &[T]) {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (one, other) = (&one[same..], &other[same..]);
    assert!(one.is_empty() && other.is_empty(), "{same}, then {:x?} against {:x?}", first(one), first(other));
}

fn first<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(10)]
}
