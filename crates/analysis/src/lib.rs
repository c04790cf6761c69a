//! Analyses of traces.
//!
//! A trace is replayed segment by segment, several at once. Each [`Analysis`] makes a *part* for every segment, which
//! sees all that the segment tells and does what can be done without the others; then the parts are combined, in the
//! order in which the segments happened. What is found is a report: a value that prints itself as JSON, and names
//! functions and lines of source as whoever asks can tell them ([`Locate`]).
//!
//! | module | question |
//! |---|---|
//! | [`mix`] | which instructions are executed |
//! | [`strides`] | by how much the address of each load and store moves from one time to the next |
//! | [`working_set`] | how much memory is in use, over time |
//! | [`cache`] | which instructions miss in which cache |
//! | [`reuse`] | how much other memory is touched before the same memory is touched again |
//! | [`profile`] | how often each block is executed, and each way from block to block |
//! | [`hot_paths`] | which ways through the program are taken most |
//! | [`calls`] | which functions call which, in order and one in the other |
//! | [`races`] | which accesses of different threads nothing brings in order, and which are made without their lock |
//!
//! What they are made of:
//!
//! | module | |
//! |---|---|
//! | [`driver`] | replays segments side by side, combines parts in order |
//! | [`mod@file`] | segments out of the file of a trace |
//! | [`on_line`] | segments while they are recorded |
//! | [`place`] | where in the program something happened |
//! | [`except`] | code that is not looked at |
//! | [`executions`] | how often units were executed |
//! | [`steps`] | numbers for every instruction of every unit |
//! | `map` | hash tables for numbers |

pub mod cache;
pub mod calls;
pub mod driver;
pub mod except;
pub mod executions;
pub mod file;
pub mod hot_paths;
pub mod map;
pub mod mix;
pub mod on_line;
pub mod place;
pub mod profile;
pub mod races;
pub mod reuse;
pub mod steps;
pub mod strides;
pub mod working_set;

#[cfg(test)]
mod testing;

pub use place::{Level, Locate, Location, Place};

use relive_trace::units::Unit;
use relive_trace::visit::Visitor;
use std::sync::Arc;

/// A piece of the life of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// Which process, in the trace.
    pub process: u32,
    /// Which thread, as the kernel numbers it.
    pub thread: u32,
    /// The how manieth of the thread.
    pub number: u32,
    /// How many instructions of the thread come before it.
    pub instruction: u64,
}

/// The code of all processes of a trace.
pub trait Code {
    /// The units of a process, by their numbers.
    fn units(&self, process: u32) -> &[Arc<Unit>];
}

/// A question to a trace.
pub trait Analysis {
    /// What is found out of one segment alone, by whatever thread replays it.
    type Part: Visitor + Send;
    /// The answer.
    type Report;

    /// Whether accesses to memory are asked for. If not, a trace of control flow alone will do.
    fn wants_memory(&self) -> bool {
        true
    }

    /// A part for a segment that is about to be replayed.
    fn part(&self, segment: &Segment) -> Self::Part;

    /// Takes a part in. Segments of a thread come in their order, those of different threads in the order of time.
    fn combine(&mut self, segment: &Segment, part: Self::Part);

    /// The answer, when all is in.
    fn finish(self, code: &dyn Code, locate: &dyn Locate) -> Self::Report;
}
