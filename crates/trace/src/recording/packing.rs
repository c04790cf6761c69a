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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

/// Segments that may wait for each that is being packed. More take memory; with fewer, somebody waits now and then.
const WAITING: usize = 1;

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

/// Those who pack.
pub(super) struct Packers {
    jobs: SyncSender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl Packers {
    /// As many as there are processors.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(16);
        let (jobs, waiting) = sync_channel::<Job>(count * WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let start = |_| {
            let (waiting, shared) = (waiting.clone(), shared.clone());
            std::thread::spawn(move || work(&waiting, &shared))
        };
        let threads = (0..count).map(start).collect();
        Self { jobs, threads }
    }

    /// Packs a segment some time; waits if there are many already.
    pub(super) fn pack(&self, job: Job) {
        self.jobs.send(job).expect("there are packers as long as this is here");
    }

    /// Waits until everything is packed.
    pub(super) fn finish(self) {
        drop(self.jobs);
        for thread in self.threads {
            thread.join().expect("whoever packs does not panic");
        }
    }
}

fn work(waiting: &Mutex<Receiver<Job>>, shared: &Shared) {
    let mut packing = Packing::default();
    loop {
        let job = lock(waiting).recv();
        let Ok(job) = job else { break };
        let line = job.line.clone();
        // Which part is wanted, what a thread goes on with, and what somebody makes of it, is known when all before it is.
        if job.goes_on || !shared.watchers.is_empty() || !shared.cutter.window.is_all() {
            pack_in_turn(job, &mut packing, shared);
        } else {
            let Job { segment, records, traced, .. } = job;
            let (packed, parts) = shared.pack(&mut packing, &records, &traced);
            // The thread may be waiting for it.
            drop(records);
            lock(&line.ready).insert(segment.number, Ready { segment, packed, parts });
        }
        line.settle(|known, ready| {
            shared.add(known, ready, |_| Ok(None));
        });
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
    let (packed, parts) = shared.pack(packing, &records, &traced);
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
    fn pack(
        &self,
        packing: &mut Packing,
        records: &[Buffer],
        traced: &RwLock<Traced>,
    ) -> (Packed, [Vec<u8>; 4]) {
        match self.is_stored.load(Ordering::Relaxed) {
            true => (packing.pack(records, traced), packing.finish(self.memory)),
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
