//! Takes what traced threads write down while they run, and makes a file of it.

pub mod again;
mod buffer;
mod executed;
mod habit;
mod local;
#[cfg(test)]
mod one_by_one;
mod packing;
mod past;
mod records;
mod scan;
mod seams;
mod shapes;
mod thread;
pub mod watch;
mod window;

use crate::file::writer::Writer;
use crate::file::{About, Begun, Module, Segment, kind};
use crate::process::{Origin, Process};
use crate::replay::Wrong;
use crate::units::Kind;
use crate::visit::Visitor;
use buffer::Buffer;
use packing::{Job, Packers, Shared};
use past::Past;
use shapes::Shapes;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use thread::Thread;
use watch::Watcher;
use window::Cutter;
pub use window::{IsPlace, Point, Window};

/// How much of a thread goes into one segment, before it is packed: a buffer of the thread, which is packed where it lies. What is foretold
/// has to be learnt in each segment anew. With 16 MiB copied together, traces of six programs are
/// between as long and a third as long; how large segments are is not what takes time.
const SEGMENT: u64 = 3 << 19;
/// How many times as long it may get if there is nowhere to cut it.
const LONG: u64 = 4;
/// How long a segment may be open. When this process is ended by somebody, what happened later may be lost.
const LONGEST: Duration = Duration::from_secs(2);
/// How much of all threads may wait to be packed. With more, what comes next is packed at once.
const MOST: u64 = 128 << 20;

/// How far segments may be apart that are open at the same time, if somebody looks at them in order: those in between wait.
const FAR: u64 = 64;

/// Where a trace goes, and who looks at it.
#[derive(Default)]
pub struct Plan {
    /// An empty file, if it is stored.
    pub file: Option<File>,
    /// How long that may get.
    pub most: Option<u64>,
    /// Of its segments, only about the last so many bytes are kept, if not all.
    pub ring: Option<u64>,
    /// From where to where each thread is recorded.
    pub window: Window,
    /// Who looks at segments meanwhile.
    pub watchers: Vec<Arc<dyn Watcher>>,
}

/// A trace that is being made.
///
/// Whoever calls hands over what threads have written down; others pack it meanwhile.
pub struct Recording {
    shared: Arc<Shared>,
    packers: Packers,
    kind: Kind,
    segment: u64,
    started: Instant,
    processes: BTreeMap<u32, Followed>,
    paths: HashSet<Arc<Path>>,
    modules: Vec<Module>,
    /// How many segments have begun.
    begun: u64,
    /// How much waits to be packed.
    waiting: u64,
    /// When it was last seen to it that nothing waits for too long.
    looked: Duration,
    raw: u64,
    threads: u64,
    wrong: Option<(u32, Wrong)>,
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many instructions were executed, as far as they are packed.
    pub instructions: u64,
    /// How many bytes threads have written down.
    pub raw: u64,
    /// How long the file is.
    pub len: u64,
    /// How many threads there were.
    pub threads: u64,
    /// A thread of which something could not be understood, so that what it did from there on is missing, and why.
    pub wrong: Option<(u32, Wrong)>,
}

/// A trace that was made.
pub struct Recorded {
    /// What was recorded.
    pub summary: Summary,
    /// Whether all of it could be written. What was can be read.
    pub written: io::Result<()>,
    /// Files that code came from.
    pub modules: Vec<Module>,
    /// All processes, by their numbers.
    pub processes: BTreeMap<u32, Process>,
}

/// What those who pack have to know of a process.
struct Traced {
    process: Process,
    shapes: Shapes,
}

/// A process that is being traced.
struct Followed {
    traced: Arc<RwLock<Traced>>,
    threads: BTreeMap<u32, Thread>,
    /// Threads that are over.
    past: Past,
    /// Records of its log that are not in [`Followed::traced`] yet, and where they end.
    new: Vec<(u32, Vec<u8>, u64)>,
    /// Where in its log each unit ends, and each mapping.
    unit_ends: Vec<u64>,
    mapping_ends: Vec<u64>,
    /// Records of its log that are not in the file yet.
    unwritten: Vec<u8>,
}

impl Recording {
    /// A new one.
    #[must_use]
    pub fn new(about: &About, plan: Plan) -> Self {
        let Plan { file, most, ring, window, watchers } = plan;
        let mut writer = Writer::new(file, most, ring);
        writer.chunk(kind::ABOUT, 0, &json(about));
        let shared = Arc::new(Shared {
            is_stored: AtomicBool::new(writer.is_wanted()),
            writer: Mutex::new(writer),
            memory: about.memory,
            instructions: AtomicU64::new(0),
            cutter: Cutter::new(window),
            watchers,
        });
        Self {
            packers: Packers::new(&shared),
            shared,
            kind: about.kind(),
            // There must be several, as they are given up one by one.
            segment: ring.map_or(SEGMENT, |len| (len * 4).clamp(1 << 20, SEGMENT)),
            started: Instant::now(),
            processes: BTreeMap::new(),
            paths: HashSet::new(),
            modules: Vec::new(),
            begun: 0,
            waiting: 0,
            looked: Duration::ZERO,
            raw: 0,
            threads: 0,
            wrong: None,
        }
    }

    /// A process begins, perhaps forked off another whose log had that length then.
    pub fn process(&mut self, number: u32, pid: u32, parent: Option<(u32, u64)>) {
        let mut process = Process::new(number, pid, self.kind.clone());
        let (mut unit_ends, mut mapping_ends) = (Vec::new(), Vec::new());
        let parent = parent.and_then(|(parent, len)| {
            self.write_code(parent);
            let of = self.processes.get(&parent)?;
            let before = |ends: &[u64]| ends.partition_point(|&end| end <= len);
            let (units, mappings) = (before(&of.unit_ends), before(&of.mapping_ends));
            process.inherit(&read(&of.traced).process, units, mappings);
            // Whatever it has inherited was there before its own log began.
            unit_ends = vec![0; units];
            mapping_ends = vec![0; mappings];
            Some((parent, units as u32, mappings as u32))
        });
        self.writer().chunk(kind::PROCESS, number, &json(&Begun { number, pid, parent }));
        let mut shapes = Shapes::default();
        shapes.update(&process.units);
        let followed = Followed {
            traced: Arc::new(RwLock::new(Traced { process, shapes })),
            threads: BTreeMap::new(),
            past: Past::default(),
            new: Vec::new(),
            unit_ends,
            mapping_ends,
            unwritten: Vec::new(),
        };
        self.processes.insert(number, followed);
    }

    /// A record of the log of a process, which ends there.
    pub fn log(&mut self, number: u32, kind: u32, body: &[u8], end: u64) {
        if let Some(followed) = self.processes.get_mut(&number) {
            followed.new.push((kind, body.to_vec(), end));
        }
    }

    /// Takes in what is new in the log of a process.
    fn update(&mut self, number: u32) {
        let Some(followed) = self.processes.get_mut(&number).filter(|followed| !followed.new.is_empty())
        else {
            return;
        };
        let mut traced = followed.traced.write().unwrap_or_else(PoisonError::into_inner);
        let Traced { process, shapes } = &mut *traced;
        for (kind, body, end) in followed.new.drain(..) {
            if !process.add(kind, &body) {
                continue;
            }
            followed.unit_ends.resize(process.units.all().len(), end);
            if process.mappings.len() > followed.mapping_ends.len() {
                followed.mapping_ends.push(end);
                let origin = process.mappings.last().map(|mapping| &mapping.origin);
                if let Some(Origin::File(path)) = origin
                    && self.paths.insert(path.clone())
                {
                    let module = Module::read(path);
                    lock(&self.shared.writer).chunk(kind::MODULE, 0, &json(&module));
                    self.modules.push(module);
                }
            }
            for number in [kind, body.len() as u32] {
                followed.unwritten.extend_from_slice(&number.to_le_bytes());
            }
            followed.unwritten.extend_from_slice(&body);
        }
        shapes.update(&process.units);
    }

    /// Writes all code of a process that is not in the file yet.
    fn write_code(&mut self, number: u32) {
        self.update(number);
        let Some(followed) = self.processes.get_mut(&number) else { return };
        let code = std::mem::take(&mut followed.unwritten);
        if !code.is_empty() && self.writer().is_wanted() {
            let packed = zstd::bulk::compress(&code, 3).expect("memory for what is packed");
            self.writer().chunk(kind::CODE, number, &packed);
        }
    }

    /// What a thread has written down, behind what it has before. All units that it mentions have been told of.
    pub fn records(&mut self, number: u32, tid: u32, bytes: impl AsRef<[u8]> + Send + Sync + 'static) {
        let now = self.started.elapsed();
        let mut bytes = Buffer::new(bytes);
        self.raw += bytes.len() as u64;
        let is_due = self.processes.get(&number).and_then(|followed| followed.threads.get(&tid));
        let is_due = is_due
            .is_some_and(|thread| thread.raw >= self.segment || now.saturating_sub(thread.begins) >= LONGEST);
        if is_due {
            self.update(number);
            let followed = self.processes.get(&number);
            let seam = followed.and_then(|followed| {
                let traced = read(&followed.traced);
                seams::seam(&bytes, &traced.shapes, self.kind.memory)
            });
            if let Some(seam) = seam {
                self.add(number, tid, Buffer::new(bytes[..seam].to_vec()), now);
                self.close(number, tid, false);
                self.close_old();
                bytes.skip(seam);
            }
        }
        self.add(number, tid, bytes, now);
    }

    fn add(&mut self, number: u32, tid: u32, bytes: Buffer, now: Duration) {
        let len = bytes.len() as u64;
        let Some(followed) = self.processes.get_mut(&number) else { return };
        let Followed { threads, past, .. } = followed;
        let thread = threads.entry(tid).or_insert_with(|| {
            self.threads += 1;
            past.take(tid).unwrap_or_default()
        });
        thread.add(bytes, now, &mut self.begun);
        self.waiting += len;
        if thread.raw >= self.segment * LONG || self.waiting >= MOST {
            self.close(number, tid, true);
        }
        if now.saturating_sub(self.looked) >= LONGEST {
            self.looked = now;
            self.close_idle(now);
        }
    }

    /// Closes segments of threads that have not written anything down for long.
    fn close_idle(&mut self, now: Duration) {
        let of_process = |(&number, followed): (&u32, &Followed)| {
            let is_idle =
                |thread: &Thread| !thread.records.is_empty() && now.saturating_sub(thread.ends) >= LONGEST;
            let idle = followed.threads.iter().filter(|(_, thread)| is_idle(thread));
            idle.map(|(&tid, _)| (number, tid)).collect::<Vec<_>>()
        };
        for (number, tid) in self.processes.iter().flat_map(of_process).collect::<Vec<_>>() {
            self.close(number, tid, true);
        }
    }

    /// Closes segments that began long before others, so that whoever looks at all in order need not keep many.
    fn close_old(&mut self) {
        if self.shared.watchers.is_empty() {
            return;
        }
        let newest = self.begun.saturating_sub(FAR);
        let open = self.processes.iter().flat_map(|(&number, followed)| {
            let old = followed.threads.iter().filter(|(_, t)| !t.records.is_empty() && t.order < newest);
            old.map(move |(&tid, thread)| (thread.order, number, tid))
        });
        let mut old: Vec<_> = open.collect();
        old.sort_unstable();
        old.into_iter().for_each(|(_, number, tid)| self.close(number, tid, true));
    }

    /// Has what a thread has written down packed. If it goes on, and not at a seam, it has to be found out with what.
    fn close(&mut self, number: u32, tid: u32, goes_on: bool) {
        self.write_code(number);
        let Some(followed) = self.processes.get_mut(&number) else { return };
        let Some(thread) = followed.threads.get_mut(&tid) else { return };
        let records = std::mem::take(&mut thread.records);
        if records.is_empty() {
            return;
        }
        self.waiting -= thread.raw;
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        let segment = Segment {
            process: number,
            thread: tid,
            number: thread.cut(),
            first_instruction: 0,
            instructions: 0,
            records: 0,
            raw: thread.raw,
            begins: nanoseconds(thread.begins),
            ends: nanoseconds(thread.ends),
            state: None,
            is_local: false,
            lens: [0; 4],
            at: 0,
            len: 0,
        };
        let (order, traced, line) = (thread.order, followed.traced.clone(), thread.line.clone());
        self.packers.pack(Job { order, segment, records, goes_on, traced, line });
    }

    /// A thread is over.
    pub fn ended(&mut self, number: u32, tid: u32) {
        self.close(number, tid, false);
        let Some(followed) = self.processes.get_mut(&number) else { return };
        if let Some(thread) = followed.threads.remove(&tid) {
            followed.past.add(tid, thread);
        }
        let wrong = followed.past.settle();
        self.wrong = self.wrong.take().or(wrong);
    }

    /// A process is over, and so are all that may be told of and were forked off it.
    pub fn gone(&mut self, number: u32) {
        self.over(number);
        self.write_code(number);
        // Whoever looks at all of it asks for the code at the end.
        if self.shared.watchers.is_empty() {
            self.processes.remove(&number);
        }
    }

    /// A process is over.
    pub fn over(&mut self, number: u32) {
        let Some(followed) = self.processes.get(&number) else { return };
        for tid in followed.threads.keys().copied().collect::<Vec<_>>() {
            self.close(number, tid, false);
        }
        let Some(followed) = self.processes.get_mut(&number) else { return };
        // Its code stays for those that were forked off.
        for (tid, thread) in std::mem::take(&mut followed.threads) {
            followed.past.add(tid, thread);
        }
        let wrong = std::mem::take(&mut followed.past).finish();
        self.wrong = self.wrong.take().or(wrong);
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        lock(&self.shared.writer)
    }

    /// How far it has come.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let (raw, threads, wrong) = (self.raw, self.threads, self.wrong.clone());
        let instructions = self.shared.instructions.load(Ordering::Relaxed);
        Summary { instructions, raw, len: self.writer().len(), threads, wrong }
    }

    /// Why nothing more is written, if so.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        if self.shared.is_stored.load(Ordering::Relaxed) {
            // Nobody waits until something is written.
            return None;
        }
        self.writer().failed().map(ToString::to_string)
    }

    /// Finishes the file, when everybody has looked at everything.
    #[must_use]
    pub fn finish(mut self) -> Recorded {
        for number in self.processes.keys().copied().collect::<Vec<_>>() {
            self.over(number);
            self.write_code(number);
        }
        let mut summary = self.summary();
        self.packers.finish();
        let shared = Arc::into_inner(self.shared).expect("all who packed are gone");
        let written = shared.writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
        let written = written.map(|len| summary.len = len);
        let traced = |followed: Followed| {
            let traced = Arc::into_inner(followed.traced).expect("all who packed are gone");
            traced.into_inner().unwrap_or_else(PoisonError::into_inner).process
        };
        let processes = self.processes.into_iter().map(|(number, followed)| (number, traced(followed)));
        Recorded { summary, written, modules: self.modules, processes: processes.collect() }
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody leaves anything half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn json(what: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(what).expect("names and numbers")
}

/// Nobody: for who wants to know only where a thread ends up.
pub(crate) struct Nobody;

impl Visitor for Nobody {
    fn ran(&mut self, _: &crate::visit::Ran<'_>) {}
}
