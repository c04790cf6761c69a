//! Packs segments, several at once, while threads go on.

use super::Traced;
use super::buffer::Buffer;
use super::records::{Packed, Packing};
use super::scan::scan;
use super::thread::{Known, Line};
use super::watch::{Told, Watcher};
use super::window::Cutter;
use super::{lock, seams};
use crate::file::Segment;
use crate::file::writer::Writer;
use crate::machine::Machine;
use crate::replay::Wrong;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

/// Segments that may wait for each that is being packed. More take memory; with fewer, somebody waits now and then.
const WAITING: usize = 2;

/// A segment that is not packed yet. Its description lacks what only packing finds out.
pub(super) struct Job {
    /// Its place among all, in the order in which they begin.
    pub(super) order: u64,
    pub(super) segment: Segment,
    pub(super) records: Vec<Buffer>,
    /// Whether the next one begins with what is known where this one ends.
    pub(super) goes_on: bool,
    pub(super) traced: Arc<RwLock<Traced>>,
    pub(super) line: Arc<Line>,
}

/// A segment that is packed. Its description lacks what follows from those before.
pub(super) struct Ready {
    segment: Segment,
    packed: Packed,
    parts: [Vec<u8>; 4],
}

/// What those who pack share.
pub(super) struct Shared {
    pub(super) writer: Mutex<Writer>,
    /// Whether it still takes anything.
    pub(super) is_stored: AtomicBool,
    /// Whether accesses to memory are written down.
    pub(super) memory: bool,
    /// How many instructions have been packed.
    pub(super) instructions: AtomicU64,
    /// Which part of each thread is wanted.
    pub(super) cutter: Cutter,
    /// Who looks at segments.
    pub(super) watchers: Vec<Arc<dyn Watcher>>,
}

/// Those who pack: others, and whoever hands segments over when there are more than the others can do soon. As nobody only waits
/// for somebody who packs, and wakes him when he has, processors have something to do all the time.
pub(super) struct Packers {
    shared: Arc<Shared>,
    jobs: Arc<Jobs>,
    others: Vec<JoinHandle<()>>,
    own: Packing,
}

/// Segments that wait, those first that came first. That whoever waits for a segment before his own does not wait for ever, everybody takes
/// the first.
#[derive(Default)]
struct Jobs {
    waiting: Mutex<Waiting>,
    came: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Whether nothing comes any more.
    is_all: bool,
}

impl Packers {
    /// As many as there are processors.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(16);
        let jobs = Arc::new(Jobs::default());
        let start = |_| {
            let (jobs, shared) = (jobs.clone(), shared.clone());
            std::thread::spawn(move || {
                let mut packing = Packing::default();
                while let Some(job) = jobs.wait() {
                    shared.work(job, &mut packing);
                }
            })
        };
        let others = (1..count).map(start).collect();
        Self { shared: shared.clone(), jobs, others, own: Packing::default() }
    }

    /// Packs a segment some time, or one that came before it now if there are many already.
    pub(super) fn pack(&mut self, job: Job) {
        let mut waiting = lock(&self.jobs.waiting);
        waiting.jobs.push_back(job);
        if waiting.jobs.len() <= self.others.len() * WAITING {
            drop(waiting);
            self.jobs.came.notify_one();
            return;
        }
        let first = waiting.jobs.pop_front();
        drop(waiting);
        if let Some(job) = first {
            self.shared.work(job, &mut self.own);
        }
    }

    /// Packs what is left, and waits for the others.
    pub(super) fn finish(mut self) {
        lock(&self.jobs.waiting).is_all = true;
        self.jobs.came.notify_all();
        while let Some(job) = self.jobs.wait() {
            self.shared.work(job, &mut self.own);
        }
        for other in self.others {
            other.join().expect("whoever packs does not panic");
        }
    }
}

impl Jobs {
    /// The first that waits, as soon as there is one; none if nothing comes any more.
    fn wait(&self) -> Option<Job> {
        let waiting = lock(&self.waiting);
        let is_idle = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.is_all;
        let mut waiting = self.came.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
        waiting.jobs.pop_front()
    }
}

/// Packs a segment when all before it are.
fn pack_in_turn(job: Job, packing: &mut Packing, shared: &Shared) {
    let Job { order, segment, mut records, goes_on, traced, line } = job;
    let cut = (!shared.cutter.window.is_all()).then(|| {
        let mut known = line.wait_for(segment.number);
        let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
        match shared.cutter.cut(&mut known, &traced, std::mem::take(&mut records)) {
            Ok(wanted) => records = wanted,
            Err(wrong) => known.wrong = Some(wrong),
        }
        known
    });
    let (packed, parts) = shared.pack(packing, &records, &traced, &line);
    let mut known = cut.unwrap_or_else(|| line.wait_for(segment.number));
    let ready = Ready { segment, packed, parts };
    let added = shared.add(&mut known, ready, |before| match goes_on {
        true => seams::end(before, &traced.read().unwrap_or_else(PoisonError::into_inner), &records),
        false => Ok(None),
    });
    line.pass(known);
    for watcher in &shared.watchers {
        match &added {
            Some(segment) => {
                watcher.segment(order, segment, &Told { records: &records, traced: &traced, segment });
            }
            None => watcher.nothing(order),
        }
    }
}

impl Shared {
    /// Packs a segment, and goes on with all that waited for it.
    fn work(&self, job: Job, packing: &mut Packing) {
        let line = job.line.clone();
        // Which part is wanted, what a thread goes on with, and what somebody makes of it, is known when all before it is.
        if job.goes_on || !self.watchers.is_empty() || !self.cutter.window.is_all() {
            pack_in_turn(job, packing, self);
        } else {
            let Job { segment, records, traced, .. } = job;
            let (packed, parts) = self.pack(packing, &records, &traced, &line);
            // The thread may be waiting for it.
            drop(records);
            lock(&line.ready).insert(segment.number, Ready { segment, packed, parts });
        }
        line.settle(|known, ready| {
            self.add(known, ready, |_| Ok(None));
        });
    }

    fn pack(
        &self,
        packing: &mut Packing,
        records: &[Buffer],
        traced: &RwLock<Traced>,
        line: &Line,
    ) -> (Packed, [Vec<u8>; 4]) {
        match self.is_stored.load(Ordering::Relaxed) {
            true => {
                let packed = packing.pack(records, traced, &line.habit);
                let parts = packing.finish(self.memory, &packed);
                (packed, parts)
            }
            false => (scan(records, traced), Default::default()),
        }
    }

    /// Writes a segment that begins with what is known, if there is anything in it; `end` tells what is known where it ends, by what is known
    /// where it begins.
    fn add(
        &self,
        known: &mut Known,
        ready: Ready,
        end: impl FnOnce(Option<Machine>) -> Result<Option<Machine>, Wrong>,
    ) -> Option<Segment> {
        let Ready { mut segment, packed, parts } = ready;
        if known.wrong.is_some() || packed.is_empty() {
            return None;
        }
        segment.state = known.machine.as_ref().map(|machine| machine.state(0));
        segment.first_instruction = known.instructions;
        segment.instructions = packed.instructions;
        segment.records = packed.records;
        segment.is_local = packed.is_local;
        segment.lens = parts.each_ref().map(|part| part.len() as u64);
        known.instructions += packed.instructions;
        self.instructions.fetch_add(packed.instructions, Ordering::Relaxed);
        let before = known.machine.take();
        match packed.wrong.map_or_else(|| end(before), Err) {
            Ok(machine) => known.machine = machine,
            Err(wrong) => known.wrong = Some(wrong),
        }
        (segment.records > 0).then(|| {
            let mut writer = lock(&self.writer);
            writer.segment(segment.clone(), parts.each_ref().map(Vec::as_slice));
            self.is_stored.store(writer.is_wanted(), Ordering::Relaxed);
            segment
        })
    }
}
