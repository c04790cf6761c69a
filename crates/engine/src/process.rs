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
    /// Whether nobody wants to know what it does.
    pub is_apart: bool,
    /// Whether a thread has left old code since that was last looked at.
    pub has_passed: bool,
    /// The memory of all threads there have been.
    pub threads: Vec<u64>,
    /// Threads that have ended, or will have when the kernel does not know their number any more.
    pub ended: Vec<&'static mut Thread>,
}

impl Process {
    /// Begins to watch this process.
    pub fn new(arena: &'static Arena) -> Option<Self> {
        let number = arena.processes.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        let log = Log::new(arena, number, relive_abi::kernel::getpid())?;
        let cache = Cache::new(arena.options & abi::COUNT != 0, arena.cache_len);
        Some(Self {
            arena,
            number,
            maps: Maps::new(),
            cache,
            log,
            is_apart: false,
            has_passed: false,
            threads: Vec::new(),
            ended: Vec::new(),
        })
    }
}
