//! Packs segments, several at once, while threads go on.
//!
//! A segment can begin wherever a buffer ends, as what is known of registers there is found when the one before is packed: where
//! the stack is, each record tells without being executed; the rest is found by executing a few records again, from the last that
//! took nothing for known.

use super::shapes::{More, Shapes};
use super::thread::Line;
use super::{Nobody, Traced};
use crate::columns::put_number;
use crate::file::Segment;
use crate::file::writer::Writer;
use crate::machine::{DIRECTION, Machine};
use crate::operations::Direction;
use crate::replay::{Raw, Replay, Wrong};
use crate::units::{State, Units, Words};
use crate::{ControlEncoder, ValueEncoder};
use relive_abi::trace::{STATE, Tag, payload, stopped_values};
use relive_code::isa::Gpr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

/// Segments that may wait for each that is being packed. More take memory; with fewer, somebody waits now and then.
const WAITING: usize = 1;

/// A segment that is not packed yet. Its description lacks what only packing finds out.
pub(super) struct Job {
    pub(super) segment: Segment,
    pub(super) records: Vec<Vec<u8>>,
    pub(super) traced: Arc<RwLock<Traced>>,
    pub(super) line: Arc<Line>,
}

/// What those who pack share.
pub(super) struct Shared {
    pub(super) writer: Mutex<Writer>,
    /// Buffers that can be used again.
    pub(super) spare: Mutex<Vec<Vec<u8>>>,
    /// How many instructions have been packed.
    pub(super) instructions: AtomicU64,
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
        let Ok(Job { mut segment, records, traced, line }) = job else { break };
        let scanned = packing.pack(&records, &traced);
        let parts = packing.finish();
        let mut known = line.wait_for(segment.number);
        if known.wrong.is_none() {
            segment.state = known.machine.as_ref().map(|machine| machine.state(0));
            segment.first_instruction = known.instructions;
            segment.instructions = scanned.instructions;
            segment.records = scanned.records;
            segment.lens = parts.each_ref().map(|part| part.len() as u64);
            known.instructions += scanned.instructions;
            shared.instructions.fetch_add(scanned.instructions, Ordering::Relaxed);
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            let units = &traced.process.units;
            match scanned.end(known.machine.take(), units, &records) {
                Ok(machine) => known.machine = machine,
                Err(wrong) => known.wrong = Some(wrong),
            }
            let parts = parts.each_ref().map(Vec::as_slice);
            if segment.records > 0 {
                shared.writer.lock().unwrap_or_else(PoisonError::into_inner).segment(segment, parts);
            }
        }
        line.pass(known);
        shared.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(records);
    }
}

/// What was found in the records of a segment.
#[derive(Default)]
struct Scanned {
    instructions: u64,
    records: u64,
    /// The last state that the thread went on with, if there was one.
    state: Option<State>,
    /// Where the stack is: see [`Rare`].
    stack: u64,
    rare: Rare,
    base: Option<Base>,
    wrong: Option<Wrong>,
}

/// What seldom changes of what each record tells without being executed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Rare {
    /// Whether it is known where the stack is, and not only how far it has moved since the start or the last state.
    is_stack_known: bool,
    /// Whether string instructions go downwards, if that has changed since.
    backwards: Option<bool>,
}

/// The last record before which nothing had to be known but what each record tells: where it is, and that.
#[derive(Clone, Copy)]
struct Base {
    buffer: usize,
    at: usize,
    stack: u64,
    rare: Rare,
}

impl Rare {
    /// Behind a record that changes more than where the stack is by a number.
    #[cold]
    fn go_on(&mut self, stack: &mut u64, more: &More, values: &[[u8; 8]]) {
        let value = |n: u16| values.get(usize::from(n)).map(|value| u64::from_le_bytes(*value));
        if let Some((known, moved)) = more.stack.and_then(|(n, moved)| Some((value(n)?, moved))) {
            self.is_stack_known = true;
            *stack = known.wrapping_add_signed(moved);
        }
        match more.direction {
            Direction::Same => {}
            Direction::Backwards(backwards) => self.backwards = Some(backwards),
            Direction::Value(n) => self.backwards = value(n).map(|flags| flags & DIRECTION != 0),
        }
    }
}

impl Base {
    /// All that is always known of a thread here.
    fn machine(&self, mut before: Machine) -> Machine {
        let start = if self.rare.is_stack_known { 0 } else { before.stack() };
        before.set(Gpr::RSP, start.wrapping_add(self.stack));
        if let Some(backwards) = self.rare.backwards {
            before.turn(backwards);
        }
        before
    }
}

impl Scanned {
    /// What is known at the end of a segment, from what was at its start.
    fn end(
        self,
        before: Option<Machine>,
        units: &Units,
        records: &[Vec<u8>],
    ) -> Result<Option<Machine>, Wrong> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let before = self.state.as_ref().map(Machine::new).or(before);
        let (buffer, mut at, machine) = match self.base {
            Some(base) => (base.buffer, base.at, before.map(|before| base.machine(before))),
            None => (0, 0, before),
        };
        let mut replay = Replay::on(machine);
        for records in &records[buffer..] {
            replay.run(units, &mut Raw::new(&records[at..]), &mut Nobody)?;
            at = 0;
        }
        Ok(replay.machine)
    }
}

/// Packs one segment after the other; keeps its tables.
#[derive(Default)]
struct Packing {
    control: ControlEncoder,
    values: ValueEncoder,
    /// What belongs to special tags.
    rest: Vec<u8>,
    /// The numbers of all units that are executed, in the order in which they are first; and whether one is among them.
    executed: Vec<u8>,
    is_executed: Vec<bool>,
}

impl Packing {
    /// Packs records, as far as they make sense.
    fn pack(&mut self, records: &[Vec<u8>], traced: &RwLock<Traced>) -> Scanned {
        let mut scanned = Scanned::default();
        for (number, bytes) in records.iter().enumerate() {
            // One after the other, so that nobody who has something to add waits long.
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            self.is_executed.resize(self.is_executed.len().max(traced.process.units.all().len()), false);
            if let Err(wrong) = self.pack_one(number, bytes, &traced.shapes, &mut scanned) {
                scanned.wrong = Some(wrong);
                break;
            }
        }
        scanned
    }

    fn pack_one(
        &mut self,
        number: usize,
        bytes: &[u8],
        shapes: &Shapes,
        scanned: &mut Scanned,
    ) -> Result<(), Wrong> {
        let Scanned { mut stack, mut rare, mut base, .. } = *scanned;
        let (mut instructions, mut records) = (0, 0);
        let mut at = 0;
        let result = loop {
            let Some((word, behind)) = bytes[at..].split_first_chunk() else { break Ok(()) };
            let tag = Tag::from_le_bytes(*word);
            let Some(shape) = shapes.get(tag) else {
                if tag == 0 {
                    // What is begun here was not finished.
                    break Ok(());
                }
                let len = match self.special(tag, behind, shapes, scanned) {
                    Ok(len) => len,
                    Err(wrong) => break Err(wrong),
                };
                if tag == STATE {
                    (stack, rare) = (0, Rare::default());
                    base = Some(Base { buffer: number, at, stack, rare });
                }
                at += word.len() + len;
                continue;
            };
            if shape.is_base() {
                base = Some(Base { buffer: number, at, stack, rare });
            }
            let len = shape.values() * 8;
            let Some(values) = behind.get(..len) else { break Err(Wrong::CutShort) };
            let (values, _) = values.as_chunks();
            let is_expected = self.control.push(tag);
            for (slot, value) in (shape.slot..).zip(values) {
                self.values.push(slot, u64::from_le_bytes(*value));
            }
            stack = stack.wrapping_add_signed(shape.moved.into());
            if shape.has_more() {
                rare.go_on(&mut stack, &shapes.more(tag), values);
            }
            instructions += u64::from(shape.steps);
            records += 1;
            if !is_expected && !std::mem::replace(&mut self.is_executed[shape.unit as usize], true) {
                put_number(&mut self.executed, shape.unit.into());
            }
            at += word.len() + len;
        };
        (scanned.stack, scanned.rare, scanned.base) = (stack, rare, base);
        scanned.instructions += instructions;
        scanned.records += records;
        result
    }

    /// Something that is not an exit. Gives back how long it is.
    #[cold]
    fn special(
        &mut self,
        tag: Tag,
        bytes: &[u8],
        shapes: &Shapes,
        scanned: &mut Scanned,
    ) -> Result<usize, Wrong> {
        let count = usize::from(stopped_values(tag).unwrap_or(0));
        let len = payload(tag).ok_or(Wrong::UnknownTag(tag))?;
        let (values, behind) = bytes.split_at_checked(count * 8).ok_or(Wrong::CutShort)?;
        let own = behind.get(..len).ok_or(Wrong::CutShort)?;
        if tag == STATE {
            scanned.state = Words(own).state();
        } else if stopped_values(tag).is_some() {
            // A state follows, so that nobody asks where the stack is.
            let stop = Words(own).stop().ok_or(Wrong::CutShort)?;
            let shape = shapes.get(stop.unit).ok_or(Wrong::UnknownTag(stop.unit))?;
            for (slot, value) in (shape.slot..).zip(values.as_chunks().0) {
                self.values.push(slot, u64::from_le_bytes(*value));
            }
            scanned.instructions += shapes.steps_before(&stop) as u64;
        }
        self.control.push(tag);
        self.rest.extend_from_slice(own);
        scanned.records += 1;
        Ok(count * 8 + len)
    }

    /// The parts of the segment.
    fn finish(&mut self) -> [Vec<u8>; 4] {
        let zip = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).expect("memory for what is packed");
        let (executed, rest) = (zip(&self.executed), zip(&self.rest));
        self.executed.clear();
        self.is_executed.fill(false);
        self.rest.clear();
        [executed, self.control.finish(), self.values.finish(), rest]
    }
}
