//! Starts programs under the engine, follows them into the programs they execute, and collects what the engine
//! counts.
//!
//! * [`run`]: a command from its start to its end
//! * [`measure()`]: a process that is running already, for a while
//! * `inject`: puts the engine into a process that stands still, by `calls`; `attach`: into one that runs, and out of it again
//! * `follow`: answers processes that are about to execute another program
//! * `over`: processes that are over while others go on
//! * [`collect`]: what traced threads write down; `lent`: buffers that others look at meanwhile
//! * `privileges`: programs that do not get theirs
//! * [`arena`]: the memory shared with all of them, and what is written there
//! * [`seen`]: what that says about the files they executed
//! * [`generated`], [`vdso`]: code that is in no file
//! * [`memory`]: files that are nowhere but there
//! * [`processor`]: what this processor is like

#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod arena;
mod attach;
mod calls;
pub mod collect;
mod flow;
mod follow;
pub mod generated;
pub mod heap;
mod image;
mod inject;
mod intervals;
mod lent;
mod limits;
mod measure;
pub mod memory;
mod over;
mod privileges;
mod processes;
pub mod processor;
mod run;
pub mod seen;
mod tracee;
pub mod vdso;

pub use measure::measure;
pub use over::Each;
pub use run::{Done, Ended, Options, Trace, end_by, run, trace};

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused something.
    #[error("{what}: {error}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// What it said.
        error: std::io::Error,
    },
    /// The command could not be executed.
    #[error("{command}: {error}")]
    Command {
        /// As it was given.
        command: String,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// A program ended, or went its own way, before the engine was in it.
    #[error("process {0} ended before the engine was in it")]
    Gone(i32),
    /// A thread did not come to a place where it can be held.
    #[error("thread {0} does not stand still: it waits for something that cannot be interrupted")]
    Busy(i32),
    /// Something is wrong in the engine.
    #[error("the engine is broken: signal {signal} while it was asked about thread {tid}")]
    Broken {
        /// The thread.
        tid: i32,
        /// What happened.
        signal: i32,
    },
    /// A process that cannot be measured.
    #[error("process {pid} cannot be measured: {why}")]
    Refused {
        /// The process.
        pid: i32,
        /// Why, and what can be done about it.
        why: String,
    },
}

impl Error {
    /// What the kernel just refused.
    fn last(what: &'static str) -> Self {
        Self::Kernel { what, error: std::io::Error::last_os_error() }
    }
}
