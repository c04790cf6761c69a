//! The memory that is shared with all processes of a run.

use crate::memory;
use crate::processes;
use crate::run::arena_options;
use crate::{Error, Options};
use relive_abi::engine::{self as abi, Arena as Head, Record};
use relive_abi::trace::{BUFFER_LEN, RING_LEN, Ring, buffer};
use relive_abi::{PAGE, page_up};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How much room there is: of addresses, not of memory. Less if this process may not have so many (`ulimit -v`).
fn room() -> u64 {
    let limit = processes::limit_of_addresses(std::process::id() as libc::pid_t);
    abi::ARENA_LEN.min(limit / 2) & !(PAGE - 1)
}

/// The arena, mapped here.
pub struct Arena {
    file: Arc<File>,
    mapped: Arc<Mapped>,
    at: *mut Head,
    len: u64,
}

// SAFETY: what others change at the same time is atomic, or read after it was published by something atomic.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// Its memory, for as long as somebody looks at a part of it.
struct Mapped {
    at: *mut Head,
    len: u64,
}

// SAFETY: only given back here.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Arena {
    /// A new one, for what is asked for.
    ///
    /// # Errors
    /// If the kernel has no memory.
    pub fn new(options: &Options) -> Result<Self, Error> {
        Self::of(memory::file()?, options)
    }

    /// One in an empty file that somebody else has made.
    pub(crate) fn open(path: &str, options: &Options) -> Result<Self, Error> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.map_err(|error| Error::Kernel { what: "the memory shared with it", error })?;
        Self::of(file, options)
    }

    fn of(file: File, options: &Options) -> Result<Self, Error> {
        let len = room();
        file.set_len(len).map_err(|error| Error::Kernel { what: "no room for counters", error })?;
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping replaces nothing.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len as usize, prot, flags, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(Error::last("no addresses for counters"));
        }
        let at = at.cast::<Head>();
        // SAFETY: fresh memory, all zero, which is a valid head; nobody else has it yet.
        unsafe {
            (*at).magic = abi::MAGIC;
            (*at).len = len;
            (*at).options = arena_options(options);
            (*at).tool = std::process::id();
            (*at).cache_len = options.cache_len;
            let exempt = options.exempt.len().min(abi::MOST_EXEMPT);
            (&mut (*at).exempt)[..exempt].copy_from_slice(&options.exempt[..exempt]);
            (*at).exempt_count = exempt as u64;
            (*at).next.store((size_of::<Head>() as u64).next_multiple_of(1 << 20), Ordering::Relaxed);
        }
        Ok(Self { file: Arc::new(file), mapped: Arc::new(Mapped { at, len }), at, len })
    }

    /// Its head.
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: mapped as long as this lives.
        unsafe { &*self.at }
    }

    /// What other processes can open it by, while this one lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// How much of it a process should map: all, if it may have so many addresses.
    pub(crate) fn share_of(&self, pid: libc::pid_t) -> u64 {
        match processes::limit_of_addresses(pid) {
            u64::MAX => self.len,
            _ => page_up(size_of::<Head>() as u64),
        }
    }

    /// A range of it.
    fn bytes(&self, offset: u64, len: u64) -> &[u8] {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: mapped as long as this lives.
        unsafe { std::slice::from_raw_parts(self.at.cast::<u8>().add(offset as usize), len as usize) }
    }

    /// What it is divided into.
    fn chunks(&self) -> impl Iterator<Item = &abi::Chunk> {
        let head = self.head();
        let n = (head.chunks.load(Ordering::Acquire) as usize).min(abi::MOST_CHUNKS);
        head.directory[..n]
            .iter()
            .filter(|c| matches!(c.kind.load(Ordering::Acquire), abi::LOG | abi::COUNTERS | abi::RING))
    }

    /// The rings of all processes, or of one: with the number of the process.
    pub(crate) fn rings(&self, of: Option<u32>) -> Vec<(u32, RingView)> {
        let is_ring = |chunk: &&abi::Chunk| chunk.kind.load(Ordering::Relaxed) == abi::RING;
        let chunks = self.chunks().filter(is_ring).filter(|chunk| of.is_none_or(|of| chunk.process == of));
        let view = |chunk: &abi::Chunk| {
            let at = self.bytes(chunk.offset, RING_LEN).as_ptr();
            let (file, mapped) = (self.file.clone(), self.mapped.clone());
            RingView { offset: chunk.offset, at: at.cast_mut(), file, _mapped: mapped }
        };
        chunks.map(|chunk| (chunk.process, view(chunk))).collect()
    }

    /// Whether there was room for everything that was to be counted.
    #[must_use]
    pub(crate) fn is_complete(&self) -> bool {
        self.head().full.load(Ordering::Relaxed) == 0
    }

    /// All processes there are, and have been but for those whose room was given to others.
    #[must_use]
    pub fn processes(&self) -> Vec<Process<'_>> {
        let mut found: Vec<Process<'_>> = Vec::new();
        let mut by_number: HashMap<u32, usize> = HashMap::new();
        for chunk in self.chunks() {
            let index = *by_number.entry(chunk.process).or_insert_with(|| {
                let statistics = abi::Statistics::default();
                let (number, pid, engine) = (chunk.process, chunk.pid, (0, 0));
                found.push(Process {
                    number,
                    pid,
                    statistics,
                    engine,
                    at: 0,
                    log: &[],
                    counters: Vec::new(),
                });
                found.len() - 1
            });
            match chunk.kind.load(Ordering::Relaxed) {
                abi::LOG => {
                    found[index].at = chunk.offset;
                    found[index].log = self.log(chunk.offset, u64::MAX);
                    let head = self.log_head(chunk.offset);
                    found[index].statistics = head.statistics;
                    found[index].engine = (head.engine, head.engine_end);
                }
                abi::COUNTERS => found[index].counters.push(self.bytes(chunk.offset, chunk.len)),
                _ => {}
            }
        }
        found
    }

    /// Where the engine is in a process: the last, if it has executed one program after the other.
    pub(crate) fn engine_of(&self, pid: libc::pid_t) -> Option<(u64, u64)> {
        let processes = self.processes();
        let found = processes.iter().filter(|p| p.pid as libc::pid_t == pid).max_by_key(|p| p.number);
        found.map(|p| p.engine).filter(|&engine| engine != (0, 0))
    }

    /// Gives the room of a process to others.
    pub(crate) fn free(&self, process: &Process<'_>) {
        for chunk in self.chunks().filter(|chunk| chunk.process == process.number) {
            // Nobody looks at it any more.
            let done = punch(&self.file, chunk.offset, chunk.len);
            if done {
                chunk.kind.store(abi::FREED, Ordering::Release);
                self.head().freed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A log, up to some length.
    fn log(&self, offset: u64, most: u64) -> &[u8] {
        let head = size_of::<abi::LogHead>() as u64;
        let len = self.log_head(offset).len.load(Ordering::Acquire);
        self.bytes(offset + head, len.min(most).min(abi::LOG_LEN - head))
    }

    pub(crate) fn log_head(&self, offset: u64) -> &abi::LogHead {
        let bytes = self.bytes(offset, size_of::<abi::LogHead>() as u64);
        // SAFETY: every log begins with one, at a multiple of a page.
        unsafe { &*bytes.as_ptr().cast() }
    }

    /// The records that hold for a process, those of the process it was forked off first.
    #[must_use]
    pub fn records<'a>(&'a self, process: &Process<'a>) -> Vec<(u32, &'a [u8])> {
        let mut all = Vec::new();
        self.collect(process.log, true, &mut all);
        all
    }

    fn collect<'a>(&'a self, log: &'a [u8], is_own: bool, all: &mut Vec<(u32, &'a [u8])>) {
        for (kind, body, _) in (Records { bytes: log, at: 0 }) {
            if kind == abi::PARENT && body.len() >= 16 {
                let word = |i: usize| u64::from_le_bytes(body[i * 8..][..8].try_into().expect("eight bytes"));
                self.collect(self.log(word(0), word(1)), false, all);
            } else if is_own || kind != abi::INTERRUPTION {
                // What signals did to the parent is no business of the child.
                all.push((kind, body));
            }
        }
    }
}

impl Arena {
    /// The log of a process.
    pub(crate) fn log_of(&self, process: u32) -> Option<Log<'_>> {
        let is_log = |chunk: &&abi::Chunk| chunk.kind.load(Ordering::Relaxed) == abi::LOG;
        let chunk = self.chunks().filter(is_log).find(|chunk| chunk.process == process)?;
        let bytes = self.log(chunk.offset, u64::MAX);
        let parent = Records { bytes, at: 0 }.next().filter(|(kind, ..)| *kind == abi::PARENT);
        let parent = parent.and_then(|(_, body, _)| {
            let (at, len) = body.split_first_chunk()?;
            Some((u64::from_le_bytes(*at), u64::from_le_bytes(*len.first_chunk()?)))
        });
        Some(Log { pid: chunk.pid, parent, bytes })
    }

    /// The process whose log is there.
    pub(crate) fn process_at(&self, log: u64) -> Option<u32> {
        self.chunks().find(|chunk| chunk.offset == log).map(|chunk| chunk.process)
    }
}

/// The log of a process, as long as it is now.
pub(crate) struct Log<'a> {
    pub(crate) pid: u32,
    /// Where the log of the process is that this one was forked off, and how long it was then.
    pub(crate) parent: Option<(u64, u64)>,
    bytes: &'a [u8],
}

impl<'a> Log<'a> {
    /// Its own records from some place on: what kind, what they say and where they end.
    pub(crate) fn records_from(&self, at: u64) -> Records<'a> {
        Records { bytes: self.bytes, at: at as usize }
    }
}

/// Records of a log one behind the other.
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = (u32, &'a [u8], u64);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..)?;
        let (first, _) = rest.split_first_chunk::<8>()?;
        let kind = u32::from_le_bytes(first[..4].try_into().expect("four bytes"));
        let len = u32::from_le_bytes(first[4..].try_into().expect("four bytes")) as usize;
        let body = rest.get(size_of::<Record>()..len)?;
        self.at += len;
        Some((kind, body, self.at as u64))
    }
}

/// A thread's ring of buffers. Its memory stays, though it may become that of another, once the process is over and [freed](Arena::free).
#[derive(Clone)]
pub(crate) struct RingView {
    /// Where it is in the arena.
    pub(crate) offset: u64,
    at: *mut u8,
    file: Arc<File>,
    _mapped: Arc<Mapped>,
}

// SAFETY: as for the arena.
unsafe impl Send for RingView {}
// SAFETY: as above.
unsafe impl Sync for RingView {}

impl RingView {
    pub(crate) fn head(&self) -> &Ring {
        // SAFETY: mapped as long as this is there; every ring begins with a head, at a multiple of a page.
        unsafe { &*self.at.cast() }
    }

    /// A buffer, as far as it has been filled.
    pub(crate) fn filled(&self, number: u64, len: usize) -> &[u8] {
        // SAFETY: in the ring; the thread is done with what it has given away, or has ended.
        unsafe {
            std::slice::from_raw_parts(self.at.add(buffer(number) as usize), len.min(BUFFER_LEN as usize))
        }
    }

    /// Empties it.
    pub(crate) fn wipe(&self, number: u64, len: usize) {
        // SAFETY: as above; nobody else looks at it.
        unsafe { self.at.add(buffer(number) as usize).write_bytes(0, len.min(BUFFER_LEN as usize)) };
    }

    /// Gives the memory of a buffer that has been emptied back to the kernel. Whether that was possible: then it is all zero.
    pub(crate) fn give_back(&self, number: u64) -> bool {
        punch(&self.file, self.offset + buffer(number), BUFFER_LEN)
    }
}

/// Makes a part of a file zero, which takes no memory then. Whether that was possible.
fn punch(file: &File, offset: u64, len: u64) -> bool {
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: numbers only.
    unsafe { libc::fallocate(file.as_raw_fd(), PUNCH, offset as i64, len as i64) == 0 }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; nothing that refers to it can outlive this.
        unsafe { libc::munmap(self.at.cast(), self.len as usize) };
    }
}

/// What a process has left.
pub struct Process<'a> {
    /// Its number, in the order in which they began.
    pub number: u32,
    /// As the kernel numbered it.
    pub pid: u32,
    /// What the engine did in it.
    pub statistics: abi::Statistics,
    /// Where the engine lies in it; zero if it has no log that says so.
    pub(crate) engine: (u64, u64),
    /// Where its log is.
    pub(crate) at: u64,
    log: &'a [u8],
    counters: Vec<&'a [u8]>,
}

impl Process<'_> {
    /// Where the log of the process is that this one was forked off.
    pub(crate) fn parent(&self) -> Option<u64> {
        let (kind, rest) = self.log.split_first_chunk::<4>()?;
        let at = rest.get(4..12)?.try_into().expect("eight bytes");
        (u32::from_le_bytes(*kind) == abi::PARENT).then(|| u64::from_le_bytes(at))
    }

    /// A counter, over all its threads.
    #[must_use]
    pub fn count(&self, counter: u32) -> u64 {
        let at = counter as usize * 8;
        let value =
            |bytes: &&[u8]| bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8")));
        self.counters.iter().map(value).sum()
    }
}
