//! Runs a program out of a code cache, inside its own process, and counts what it does.
//!
//! The program is never changed: what is executed are copies of its code that do the same, made piece by piece as
//! the program gets there (see [`translate`]). The engine has no library under it, as it shares a process with a
//! program that has its own, and reaches its memory through `gs`.
//!
//! * [`boot`]: how it begins; [`visit`]: how it takes over a program that runs, and leaves it
//! * [`entry`], [`dispatch`]: between the cache and the engine
//! * [`translate`], [`cache`], [`sites`], [`region`], [`renewal`]: code
//! * [`verify`]: whether that is right
//! * [`kernel_calls`], [`threads`], [`execute`], [`masks`]: what the program asks of the kernel
//! * [`signals`], [`interrupted`]: what the kernel tells the program
//! * [`maps`], [`log`], [`written`], [`room`], [`limits`]: what lies where, for the engine and for whoever reads the counters

#![cfg_attr(not(test), no_std)]
#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]

extern crate alloc;

pub mod asked;
pub mod boot;
pub mod cache;
pub mod dispatch;
pub mod entry;
pub mod execute;
pub mod flow;
pub mod frame;
pub mod guard;
pub mod habit;
pub mod heap;
pub mod interrupted;
pub mod kernel_calls;
pub mod kernel_calls_32;
pub mod kernel_writes;
pub mod limits;
pub mod lock;
pub mod log;
pub mod made_up;
pub mod making;
pub mod maps;
pub mod masks;
pub mod message;
pub mod places;
pub mod process;
pub mod processor;
pub mod program_memory;
pub mod record;
pub mod region;
pub mod renewal;
pub mod restrict;
pub mod returns;
pub mod room;
pub mod rseq;
pub mod segments;
pub mod signals;
pub mod sites;
pub mod thread;
pub mod threads;
pub mod traces;
pub mod translate;
pub mod verify;
pub mod versions;
pub mod visit;
pub mod whereabouts;
pub mod written;
pub mod zone;
