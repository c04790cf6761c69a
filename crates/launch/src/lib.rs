//! Starts programs under the engine, follows them into the programs they execute, and collects what the engine
//! counts.
//!
//! * [`run`]: a command from its start to its end
//! * `inject`: puts the engine into a process that stands still
//! * `follow`: answers processes that are about to execute another program
//! * [`arena`]: the memory shared with all of them, and what is written there
//! * [`seen`]: what that says about the files they executed
//! * [`generated`], [`vdso`]: code that is in no file

#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod arena;
mod follow;
pub mod generated;
mod image;
mod inject;
mod intervals;
mod run;
pub mod seen;
pub mod vdso;

pub use run::{Ended, Options, end_by, run};

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
}

impl Error {
    /// What the kernel just refused.
    fn last(what: &'static str) -> Self {
        Self::Kernel { what, error: std::io::Error::last_os_error() }
    }
}
