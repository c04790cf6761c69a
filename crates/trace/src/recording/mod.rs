//! Takes what traced threads write down while they run, and makes a file of it.

mod packing;
mod shapes;
mod thread;

use crate::file::writer::Writer;
use crate::file::{About, Begun, Module, kind};
use crate::process::{Origin, Process};
use crate::replay::Wrong;
use crate::units::Kind;
use crate::visit::Visitor;
use packing::{Job, Packers};
use shapes::Shapes;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use thread::Thread;

/// How much of a thread goes into one segment, before it is packed.
const SEGMENT: u64 = 16 << 20;
/// How long a segment may be open. When this process is ended by somebody, what happened later may be lost.
const LONGEST: Duration = Duration::from_secs(2);

/// A trace that is being made.
///
/// Whoever calls looks through what threads have written down; others pack it meanwhile.
pub struct Recording {
    writer: Arc<Mutex<Writer>>,
    packers: Packers,
    kind: Kind,
    segment: u64,
    started: Instant,
    processes: HashMap<u32, Traced>,
    modules: HashSet<Arc<Path>>,
    summary: Summary,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many instructions were executed, in finished segments and open ones.
    pub instructions: u64,
    /// How many bytes threads have written down.
    pub raw: u64,
    /// How long the file is.
    pub len: u64,
    /// How many threads there were.
    pub threads: u64,
    /// How many bytes could not be understood.
    pub lost: u64,
}

/// A process that is being traced.
struct Traced {
    process: Process,
    shapes: Arc<RwLock<Shapes>>,
    threads: HashMap<u32, Thread>,
    /// Where in its log each unit ends, and each mapping.
    unit_ends: Vec<u64>,
    mapping_ends: Vec<u64>,
    /// Records of its log that are not in the file yet.
    unwritten: Vec<u8>,
}

impl Recording {
    /// A new one, in an empty file. Of its segments, only about the last so many bytes are kept if a number is given.
    #[must_use]
    pub fn new(file: File, about: &About, ring: Option<u64>) -> Self {
        let mut writer = Writer::new(file, ring);
        writer.chunk(kind::ABOUT, 0, &json(about));
        let writer = Arc::new(Mutex::new(writer));
        Self {
            packers: Packers::new(&writer),
            writer,
            kind: about.kind(),
            // There must be several, as they are given up one by one.
            segment: ring.map_or(SEGMENT, |len| (len * 4).clamp(1 << 20, SEGMENT)),
            started: Instant::now(),
            processes: HashMap::new(),
            modules: HashSet::new(),
            summary: Summary::default(),
        }
    }

    /// A process begins, perhaps forked off another whose log had that length then.
    pub fn process(&mut self, number: u32, pid: u32, parent: Option<(u32, u64)>) {
        let mut traced = Traced {
            process: Process::new(number, pid, self.kind.clone()),
            shapes: Arc::default(),
            threads: HashMap::new(),
            unit_ends: Vec::new(),
            mapping_ends: Vec::new(),
            unwritten: Vec::new(),
        };
        let parent = parent.and_then(|(parent, len)| {
            self.write_code(parent);
            let of = self.processes.get(&parent)?;
            let before = |ends: &[u64]| ends.partition_point(|&end| end <= len);
            let (units, mappings) = (before(&of.unit_ends), before(&of.mapping_ends));
            traced.process.inherit(&of.process, units, mappings);
            // Whatever it has inherited was there before its own log began.
            traced.unit_ends = vec![0; units];
            traced.mapping_ends = vec![0; mappings];
            Some((parent, units as u32, mappings as u32))
        });
        self.writer().chunk(kind::PROCESS, number, &json(&Begun { number, pid, parent }));
        self.processes.insert(number, traced);
    }

    /// A record of the log of a process, which ends there.
    pub fn log(&mut self, number: u32, kind: u32, body: &[u8], end: u64) {
        let Some(traced) = self.processes.get_mut(&number) else { return };
        if !traced.process.add(kind, body) {
            return;
        }
        traced.unit_ends.resize(traced.process.units.all().len(), end);
        let mappings = &traced.process.mappings;
        if mappings.len() > traced.mapping_ends.len() {
            traced.mapping_ends.push(end);
            if let Some(Origin::File(path)) = mappings.last().map(|mapping| &mapping.origin)
                && self.modules.insert(path.clone())
            {
                let (path, len) = (path.to_path_buf(), std::fs::metadata(path).map_or(0, |data| data.len()));
                let build_id = build_id(&path).unwrap_or_default();
                lock(&self.writer).chunk(kind::MODULE, 0, &json(&Module { path, len, build_id }));
            }
        }
        for number in [kind, body.len() as u32] {
            traced.unwritten.extend_from_slice(&number.to_le_bytes());
        }
        traced.unwritten.extend_from_slice(body);
    }

    fn write_code(&mut self, number: u32) {
        let Some(traced) = self.processes.get_mut(&number) else { return };
        let code = std::mem::take(&mut traced.unwritten);
        if !code.is_empty() {
            let packed = zstd::bulk::compress(&code, 3).expect("memory for what is packed");
            self.writer().chunk(kind::CODE, number, &packed);
        }
    }

    /// What a thread has written down, behind what it has before. Whether it could be understood.
    ///
    /// # Errors
    /// If it makes no sense. Nothing more is taken from the thread then.
    pub fn records(&mut self, number: u32, tid: u32, bytes: &[u8]) -> Result<(), Wrong> {
        let Some(traced) = self.processes.get_mut(&number) else { return Ok(()) };
        let threads = &mut self.summary.threads;
        let thread = traced.threads.entry(tid).or_insert_with(|| {
            *threads += 1;
            Thread::new(number, tid)
        });
        let units = &traced.process.units;
        if !traced.shapes.read().unwrap_or_else(PoisonError::into_inner).is_complete(units) {
            traced.shapes.write().unwrap_or_else(PoisonError::into_inner).update(units);
        }
        let now = self.started.elapsed();
        let before = thread.instructions();
        let shapes = traced.shapes.read().unwrap_or_else(PoisonError::into_inner);
        let copy = |bytes: &[u8]| {
            let mut buffer = lock(&self.packers.spare).pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(bytes);
            buffer
        };
        let result = thread.take(units, &shapes, bytes, now, copy);
        drop(shapes);
        self.summary.instructions += thread.instructions() - before;
        self.summary.raw += bytes.len() as u64;
        if result.is_err() {
            self.summary.lost += bytes.len() as u64;
        }
        if thread.raw() >= self.segment || thread.open_for(now) >= LONGEST {
            self.close(number, tid);
        }
        result
    }

    /// Finishes the segment of a thread.
    fn close(&mut self, number: u32, tid: u32) {
        self.write_code(number);
        let Some(traced) = self.processes.get_mut(&number) else { return };
        let closed = traced.threads.get_mut(&tid).and_then(Thread::close);
        if let Some((segment, records, executed)) = closed {
            self.packers.pack(Job { segment, records, executed, shapes: traced.shapes.clone() });
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        lock(&self.writer)
    }

    /// A process is over.
    pub fn over(&mut self, number: u32) {
        let Some(traced) = self.processes.get(&number) else { return };
        let mut threads: Vec<u32> = traced.threads.keys().copied().collect();
        threads.sort_unstable();
        for tid in threads {
            self.close(number, tid);
        }
        if let Some(traced) = self.processes.get_mut(&number) {
            // Its code stays for those that were forked off.
            traced.threads.clear();
            traced.shapes = Arc::default();
        }
    }

    /// How far it has come.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary { len: self.writer().len(), ..self.summary }
    }

    /// Why nothing more is written, if so.
    #[must_use]
    pub fn failed(&self) -> Option<String> {
        self.writer().failed().map(ToString::to_string)
    }

    /// Finishes the file.
    ///
    /// # Errors
    /// If something could not be written. What was can be read.
    pub fn finish(mut self) -> io::Result<Summary> {
        let mut numbers: Vec<u32> = self.processes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            self.over(number);
            self.write_code(number);
        }
        self.packers.finish();
        let writer = Arc::into_inner(self.writer).expect("all who packed are gone");
        let len = writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?;
        Ok(Summary { len, ..self.summary })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody leaves anything half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn json(what: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(what).expect("names and numbers")
}

/// The build-id of a file, in hexadecimal.
fn build_id(path: &Path) -> Option<String> {
    use object::Object;
    let bytes = std::fs::read(path).ok()?;
    let id = object::File::parse(&*bytes).ok()?.build_id().ok()??.to_vec();
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Nobody: for who wants to know only where a thread ends up.
pub(crate) struct Nobody;

impl Visitor for Nobody {
    fn ran(&mut self, _: &crate::visit::Ran<'_>) {}
}
