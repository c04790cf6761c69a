//! A process: what its threads share.

use crate::cache::Cache;
use crate::lock::Lock;
use crate::log::Log;
use crate::maps::Maps;
use crate::thread::Thread;
use alloc::vec::Vec;
use relive_abi::engine::{self as abi, Arena};

/// The process the engine is in.
pub static PROCESS: Lock<Option<Process>> = Lock::new(None);

/// What its threads share.
pub struct Process {
    /// Shared with whoever runs the process.
    pub arena: &'static Arena,
    /// The number of the process in it.
    pub number: u32,
    /// What can be executed.
    pub maps: Maps,
    /// What has been translated.
    pub cache: Cache,
    /// What is written down.
    pub log: Log,
    /// Whether it had been running when the engine came.
    pub is_adopted: bool,
    /// Threads that have ended, or will have when the kernel does not know their number any more.
    pub ended: Vec<&'static mut Thread>,
}

impl Process {
    /// Begins to watch this process.
    pub fn new(arena: &'static Arena) -> Self {
        let number = arena.processes.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        // Without room it runs all the same; the tool says that it was not counted.
        let log = Log::new(arena, number, relive_abi::kernel::getpid()).unwrap_or_else(Log::nowhere);
        let cache = Cache::new(arena.options & abi::COUNT != 0);
        Self { arena, number, maps: Maps::new(), cache, log, is_adopted: false, ended: Vec::new() }
    }
}
