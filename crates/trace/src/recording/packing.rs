//! Packs segments, several at once, while threads go on.

use super::shapes::Shapes;
use crate::file::Segment;
use crate::file::writer::Writer;
use crate::units::Words;
use crate::{ControlEncoder, ValueEncoder};
use relive_abi::trace::{Tag, payload, stopped_values};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

/// Segments that may wait for each that is being packed. More take memory; with fewer, somebody waits now and then.
const WAITING: usize = 1;

/// A segment that is not packed yet.
pub(super) struct Job {
    pub(super) segment: Segment,
    /// What the thread has written down, and which units that mentions.
    pub(super) records: Vec<Vec<u8>>,
    pub(super) executed: Vec<u8>,
    pub(super) shapes: Arc<RwLock<Shapes>>,
}

/// Those who pack.
pub(super) struct Packers {
    jobs: SyncSender<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Buffers that can be used again.
    pub(super) spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Packers {
    /// As many as there are processors. What they have packed goes to a file.
    pub(super) fn new(writer: &Arc<Mutex<Writer>>) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(16);
        let (jobs, waiting) = sync_channel::<Job>(count * WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let spare = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let start = |_| {
            let (waiting, writer, spare) = (waiting.clone(), writer.clone(), spare.clone());
            std::thread::spawn(move || work(&waiting, &writer, &spare))
        };
        let threads = (0..count).map(start).collect();
        Self { jobs, threads, spare }
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

fn work(waiting: &Mutex<Receiver<Job>>, writer: &Mutex<Writer>, spare: &Mutex<Vec<Vec<u8>>>) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { break };
        let parts = pack(&job);
        let Job { mut segment, records, .. } = job;
        segment.lens = parts.each_ref().map(|part| part.len() as u64);
        writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .segment(segment, parts.each_ref().map(Vec::as_slice));
        spare.lock().unwrap_or_else(PoisonError::into_inner).extend(records);
    }
}

/// The parts of a segment, of records that make sense.
fn pack(job: &Job) -> [Vec<u8>; 4] {
    let mut packing =
        Packing { control: ControlEncoder::new(), values: ValueEncoder::new(), rest: Vec::new() };
    for records in &job.records {
        // One after the other, so that nobody who has something to add waits long.
        let shapes = job.shapes.read().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = &**records;
        while let Some((word, rest)) = bytes.split_first_chunk() {
            let tag = Tag::from_le_bytes(*word);
            packing.control.push(tag);
            bytes = match shapes.get(tag) {
                Some(shape) => packing.values(rest, shape.slot, shape.values),
                None => packing.special(tag, rest, &shapes),
            };
        }
    }
    let zip = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).expect("memory for what is packed");
    [zip(&job.executed), packing.control.finish(), packing.values.finish(), zip(&packing.rest)]
}

struct Packing {
    control: ControlEncoder,
    values: ValueEncoder,
    /// What belongs to special tags.
    rest: Vec<u8>,
}

impl Packing {
    /// Packs values; gives back what follows them.
    #[inline]
    fn values<'a>(&mut self, bytes: &'a [u8], slot: u32, count: u16) -> &'a [u8] {
        let (values, rest) = bytes.split_at(usize::from(count) * 8);
        for (slot, value) in (slot..).zip(values.as_chunks().0) {
            self.values.push(slot, u64::from_le_bytes(*value));
        }
        rest
    }

    #[cold]
    fn special<'a>(&mut self, tag: Tag, bytes: &'a [u8], shapes: &Shapes) -> &'a [u8] {
        let count = stopped_values(tag).unwrap_or(0);
        let stop = Words(&bytes[usize::from(count) * 8..]).stop();
        let slot = stop.and_then(|stop| shapes.get(stop.unit)).map_or(0, |shape| shape.slot);
        let bytes = self.values(bytes, slot, count);
        let len = payload(tag).unwrap_or(0);
        let (own, rest) = bytes.split_at(len);
        self.rest.extend_from_slice(own);
        rest
    }
}
