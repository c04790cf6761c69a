//! Packs segments, several at once, while threads go on.
//!
//! A segment can begin wherever a buffer ends, as what is known of registers there is found when the one before is packed: where
//! the stack is, each record tells without being executed; the rest is found by executing a few records again, from the last that
//! took nothing for known.

use super::shapes::{More, Shape, Shapes};
use super::thread::Line;
use super::window::Cutter;
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
    /// Which part of each thread is wanted.
    pub(super) cutter: Cutter,
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
        let Ok(Job { mut segment, mut records, traced, line }) = job else { break };
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
        let scanned = packing.pack(&records, &traced);
        let parts = packing.finish();
        let mut known = cut.unwrap_or_else(|| line.wait_for(segment.number));
        if known.wrong.is_none() && !records.is_empty() {
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
        if !units.is_of_memory() {
            // Nobody asks.
            return Ok(before);
        }
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

/// The way through one buffer, with or without values.
struct Walk<'a, const MEMORY: bool> {
    bytes: &'a [u8],
    shapes: &'a Shapes,
    at: usize,
    stack: u64,
    rare: Rare,
    /// Where the last [`Base`] is, and what was known there.
    base: Option<usize>,
    base_stack: u64,
    base_rare: Rare,
    instructions: u64,
    records: u64,
}

impl<const MEMORY: bool> Walk<'_, MEMORY> {
    /// The tag of the next record; 0 if there is none.
    #[inline(always)]
    fn tag(&self) -> Tag {
        let word = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| Tag::from_le_bytes(*word))
    }

    /// Takes in the rest of a record that has this shape. Whether it is there.
    #[inline(always)]
    fn go_on(&mut self, shape: &Shape, values: &mut ValueEncoder) -> bool {
        self.instructions += u64::from(shape.steps);
        self.records += 1;
        if !MEMORY {
            self.at += size_of::<Tag>();
            return true;
        }
        if shape.is_base() {
            (self.base, self.base_stack, self.base_rare) = (Some(self.at), self.stack, self.rare);
        }
        let start = self.at + size_of::<Tag>();
        let end = start + shape.values() * 8;
        let Some(own) = self.bytes.get(start..end) else { return false };
        let (own, _) = own.as_chunks();
        for (slot, value) in (shape.slot..).zip(own) {
            values.push(slot, u64::from_le_bytes(*value));
        }
        self.stack = self.stack.wrapping_add_signed(shape.moved.into());
        if shape.has_more() {
            let more = self.shapes.more(self.tag());
            self.rare.go_on(&mut self.stack, &more, own);
        }
        self.at = end;
        true
    }
}

/// Packs one segment after the other; keeps its tables.
struct Packing {
    control: ControlEncoder,
    values: ValueEncoder,
    /// What tags are, by the numbers of those that the control flow keeps.
    described: Vec<Shape>,
    /// What belongs to special tags.
    rest: Vec<u8>,
    /// The numbers of all units that are executed, in the order in which they are first; and whether one is among them.
    executed: Vec<u8>,
    is_executed: Vec<bool>,
}

impl Default for Packing {
    fn default() -> Self {
        Self {
            control: ControlEncoder::new(),
            values: ValueEncoder::new(),
            described: vec![Shape::default(); ControlEncoder::KEPT],
            rest: Vec::new(),
            executed: Vec::new(),
            is_executed: Vec::new(),
        }
    }
}

impl Packing {
    /// Packs records, as far as they make sense.
    fn pack(&mut self, records: &[Vec<u8>], traced: &RwLock<Traced>) -> Scanned {
        let mut scanned = Scanned::default();
        for (number, bytes) in records.iter().enumerate() {
            // One after the other, so that nobody who has something to add waits long.
            let traced = traced.read().unwrap_or_else(PoisonError::into_inner);
            self.is_executed.resize(self.is_executed.len().max(traced.process.units.all().len()), false);
            let packed = match traced.process.units.is_of_memory() {
                true => self.pack_one::<true>(number, bytes, &traced.shapes, &mut scanned),
                false => self.pack_one::<false>(number, bytes, &traced.shapes, &mut scanned),
            };
            if let Err(wrong) = packed {
                scanned.wrong = Some(wrong);
                break;
            }
        }
        scanned
    }

    fn pack_one<const MEMORY: bool>(
        &mut self,
        number: usize,
        bytes: &[u8],
        shapes: &Shapes,
        scanned: &mut Scanned,
    ) -> Result<(), Wrong> {
        let mut walk = Walk::<MEMORY> {
            bytes,
            shapes,
            at: 0,
            stack: scanned.stack,
            rare: scanned.rare,
            base: None,
            base_stack: 0,
            base_rare: Rare::default(),
            instructions: 0,
            records: 0,
        };
        let result = self.pack_all(&mut walk, scanned);
        if let Some(at) = walk.base {
            let (stack, rare) = (walk.base_stack, walk.base_rare);
            scanned.base = Some(Base { buffer: number, at, stack, rare });
        }
        (scanned.stack, scanned.rare) = (walk.stack, walk.rare);
        scanned.instructions += walk.instructions;
        scanned.records += walk.records;
        result
    }

    #[inline(always)]
    fn pack_all<const MEMORY: bool>(
        &mut self,
        walk: &mut Walk<'_, MEMORY>,
        scanned: &mut Scanned,
    ) -> Result<(), Wrong> {
        let mut tag = walk.tag();
        while tag != 0 {
            // What comes again is described where it came before: one thing next to the other.
            let (values, described) = (&mut self.values, &mut self.described);
            let mut is_whole = true;
            tag = self.control.push_foreseen(tag, |before, now| {
                let shape = described[before];
                described[now] = shape;
                is_whole = walk.go_on(&shape, values);
                if is_whole { walk.tag() } else { 0 }
            });
            if !is_whole {
                return Err(Wrong::CutShort);
            }
            match walk.shapes.get(tag).copied() {
                // The end, or what is begun here was not finished.
                _ if tag == 0 => break,
                Some(shape) => {
                    self.described[self.control.number()] = shape;
                    self.push_new(tag, shape.unit);
                    if !walk.go_on(&shape, &mut self.values) {
                        return Err(Wrong::CutShort);
                    }
                }
                None => {
                    let behind = &walk.bytes[walk.at + size_of::<Tag>()..];
                    let len = self.special(tag, behind, walk.shapes, scanned)?;
                    if tag == STATE {
                        (walk.stack, walk.rare) = (0, Rare::default());
                        (walk.base, walk.base_stack, walk.base_rare) = (Some(walk.at), 0, Rare::default());
                    }
                    walk.at += size_of::<Tag>() + len;
                }
            }
            tag = walk.tag();
        }
        Ok(())
    }

    /// A tag that was not foreseen, as none is that comes for the first time.
    fn push_new(&mut self, tag: Tag, unit: u32) {
        self.control.push_new(tag);
        if !std::mem::replace(&mut self.is_executed[unit as usize], true) {
            put_number(&mut self.executed, unit.into());
        }
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
