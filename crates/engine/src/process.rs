//! A process: what its threads share.

use crate::cache::Cache;
use crate::limits;
use crate::lock::Lock;
use crate::log::Log;
use crate::maps::Maps;
use crate::thread::Thread;
use crate::translate::Tags;
use alloc::vec::Vec;
use relive_abi::engine::{self as abi, Arena};
use relive_abi::kernel;
use relive_abi::trace::FIRST_TAG;
use relive_code::isa::RegSet;

/// The process the engine is in.
pub static PROCESS: Lock<Option<Process>> = Lock::new(None);

/// What its threads share.
pub struct Process {
    /// Shared with whoever runs the process.
    pub arena: &'static Arena,
    /// The number of the process in it.
    pub number: u32,
    /// As the kernel numbers it.
    pub pid: u32,
    /// What can be executed.
    pub maps: Maps,
    /// What has been translated.
    pub cache: Cache,
    /// What is written down.
    pub log: Log,
    /// Whether it had been running when the engine came.
    pub is_adopted: bool,
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
    pub fn new(arena: &'static Arena) -> Self {
        let number = arena.processes.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        let pid = kernel::getpid();
        // Without room it runs all the same; the tool says that it was not counted.
        let log = Log::new(arena, number, pid).unwrap_or_else(Log::nowhere);
        let mut cache = Cache::new(arena.options & abi::COUNT != 0, cache_len(arena));
        let (memory, order) = (arena.options & abi::TRACE_MEMORY, arena.options & abi::TRACE_ORDER);
        cache.tags = (arena.options & abi::TRACE != 0).then_some(Tags {
            first: FIRST_TAG,
            memory: memory != 0,
            order: order != 0,
            known: RegSet::EMPTY,
        });
        Self {
            arena,
            number,
            pid,
            maps: Maps::new(arena.exempt()),
            cache,
            log,
            is_adopted: false,
            is_apart: false,
            has_passed: false,
            threads: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Whether the calling thread is one of the process, not a child that borrows its memory.
    pub fn is_own(&self) -> bool {
        kernel::getpid() == self.pid
    }
}

/// How many bytes of translated code the process may have before it starts anew.
pub fn cache_len(arena: &Arena) -> u64 {
    const LEAST: u64 = 1 << 20;
    (arena.cache_len >> limits::smaller()).max(LEAST)
}
