//! Packs segments, several at once, while threads go on.

use super::Traced;
use super::buffer::Buffer;
use super::records::Packing;
use super::scan::scan;
use super::seams;
use super::thread::Line;
use super::watch::{Told, Watcher};
use super::window::Cutter;
use crate::file::Segment;
use crate::file::writer::Writer;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// What those who pack share.
pub(super) struct Shared {
    pub(super) writer: Mutex<Writer>,
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
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { order, mut segment, mut records, goes_on, traced, line }) = job else { break };
        let mut is_there = false;
        // Which part is wanted is known when all before it is, and that takes longer than to pack it.
        let cut = (!shared.cutter.window.is_all()).then(|| {
            let mut known = line.wait_for(segment.number);
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            match shared.cutter.cut(&mut known, &traced, std::mem::take(&mut records)) {
                Ok(wanted) => records = wanted,
                Err(wrong) => known.wrong = Some(wrong),
            }
            known
        });
        let is_stored = shared.writer.lock().unwrap_or_else(PoisonError::into_inner).is_wanted();
        let (packed, parts) = match is_stored {
            true => (packing.pack(&records, &traced), packing.finish(shared.memory)),
            false => (scan(&records, &traced), Default::default()),
        };
        let mut known = cut.unwrap_or_else(|| line.wait_for(segment.number));
        if known.wrong.is_none() && !records.is_empty() {
            segment.state = known.machine.as_ref().map(|machine| machine.state(0));
            segment.first_instruction = known.instructions;
            segment.instructions = packed.instructions;
            segment.records = packed.records;
            segment.lens = parts.each_ref().map(|part| part.len() as u64);
            known.instructions += packed.instructions;
            shared.instructions.fetch_add(packed.instructions, Ordering::Relaxed);
            let before = known.machine.take();
            let end = match packed.wrong {
                Some(wrong) => Err(wrong),
                None if !goes_on => Ok(None),
                None => {
                    let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
                    seams::end(before, &traced, &records)
                }
            };
            match end {
                Ok(machine) => known.machine = machine,
                Err(wrong) => known.wrong = Some(wrong),
            }
            let parts = parts.each_ref().map(Vec::as_slice);
            is_there = segment.records > 0;
            if is_there {
                shared.writer.lock().unwrap_or_else(PoisonError::into_inner).segment(segment.clone(), parts);
            }
        }
        line.pass(known);
        for watcher in &shared.watchers {
            match is_there {
                true => {
                    let told = Told { records: &records, traced: &traced, segment: &segment };
                    watcher.segment(order, &segment, &told);
                }
                false => watcher.nothing(order),
            }
        }
    }
}
