//! Any bytes as a trace.
//!
//! Every part of a trace has a check sum, and most are packed, so that blind changes of a file hardly ever get far. Hence a second kind of
//! input, a [`Case`]: chunks before they are packed, and segments as the tags and values that a thread has written down.

use crate::stopwatch::timed;
use relive_trace::units::Unit;
use relive_trace::visit::{Event, Ran, Visitor};
use relive_trace::{ControlEncoder, Trace, ValueEncoder};
use std::io::Write as _;

/// What must hold of every trace: it is read or refused with a reason, and so is each of its processes and segments; what is told of a
/// segment makes sense.
///
/// # Panics
/// If it does not hold.
pub fn check(bytes: &[u8]) {
    timed("a trace", bytes.len(), || {
        check_file(bytes);
        check_file(&Case::decode(bytes).pack());
    });
}

fn check_file(bytes: &[u8]) {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("room for it");
    let trace = match Trace::of(file) {
        Ok(trace) => trace,
        Err(why) => return assert!(!why.to_string().is_empty()),
    };
    assert!(trace.cut_at().is_none_or(|at| at <= bytes.len() as u64));
    let mut repeats = false;
    for number in trace.processes() {
        match trace.process(number) {
            Ok(process) => repeats |= process.units.all().iter().any(|unit| may_repeat(unit)),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
    for segment in trace.segments() {
        let _ = trace.executed(segment);
        let _ = trace.replay_control(segment, &mut Listener);
        // What repeats itself takes as long as it says.
        if !repeats {
            let _ = trace.replay(segment, &mut Listener);
        }
    }
}

/// Whether an instruction of a unit may repeat itself.
fn may_repeat(unit: &Unit) -> bool {
    let is_prefix = |byte: u8| matches!(byte, 0xf2 | 0xf3);
    let is_string = |byte: u8| matches!(byte, 0xa4..=0xa7 | 0xaa..=0xaf);
    unit.code.iter().any(|&byte| is_prefix(byte)) && unit.code.iter().any(|&byte| is_string(byte))
}

/// Looks whether what it is told makes sense.
struct Listener;

impl Visitor for Listener {
    fn ran(&mut self, ran: &Ran<'_>) {
        assert!(ran.from <= ran.steps && ran.steps <= ran.unit.steps.len());
        assert!(ran.exit.is_none_or(|exit| exit < ran.unit.exits.len()));
        assert!(ran.references.iter().all(|reference| usize::from(reference.step) < ran.unit.steps.len()));
    }

    fn event(&mut self, _: &Event) {}
}

/// A trace before it is packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Its chunks, one behind the other.
    pub chunks: Vec<Chunk>,
}

/// A chunk, or what becomes of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The kind, as in a file.
    pub kind: u8,
    /// The process.
    pub process: u8,
    /// What is in it, before it is packed.
    pub body: Vec<u8>,
}

/// Kinds of chunks.
pub mod kind {
    /// How the trace was made.
    pub const ABOUT: u8 = 1;
    /// A process begins.
    pub const PROCESS: u8 = 2;
    /// Code.
    pub const CODE: u8 = 3;
    /// What a thread did.
    pub const SEGMENT: u8 = 4;
    /// The index, with which the file ends.
    pub const INDEX: u8 = 6;
}

impl Case {
    /// The case that `bytes` stand for: of each chunk the kind, the process, the length in two bytes, and what is in it.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Self {
        let mut case = Self::default();
        while let Some((&[kind, process, low, high], rest)) = bytes.split_first_chunk() {
            let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
            let (body, rest) = rest.split_at(len);
            case.chunks.push(Chunk { kind: kind % 8, process, body: body.to_vec() });
            bytes = rest;
        }
        case
    }

    /// The opposite of [`Case::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let chunk = |chunk: &Chunk| {
            let len = (chunk.body.len() as u16).to_le_bytes();
            [&[chunk.kind, chunk.process], &len[..], &chunk.body].concat()
        };
        self.chunks.iter().flat_map(chunk).collect()
    }

    /// A file with all check sums right.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let mut file = b"\x7frtrace\n\x03\0\0\0\0\0\0\0".to_vec();
        for Chunk { kind, process, body } in &self.chunks {
            let at = file.len() as u64;
            let packed = match *kind {
                kind::CODE | kind::INDEX => packed(body),
                kind::SEGMENT => segment(body),
                _ => body.clone(),
            };
            let mut head = [u32::from(*kind), u32::from(*process)].map(u32::to_le_bytes).concat();
            head.extend((packed.len() as u64).to_le_bytes());
            head.extend(crc32fast::hash(&packed).to_le_bytes());
            let own = crc32fast::hash(&head);
            file.extend(head);
            file.extend(own.to_le_bytes());
            file.extend(packed);
            if *kind == kind::INDEX {
                file.extend(at.to_le_bytes());
                file.extend(b"\nrtrend\x7f");
            }
        }
        file
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).expect("memory for what is packed")
}

/// A segment: a byte that says whether it goes on with a state and whether it is packed without looking back, how many tags and how many values there are in two bytes each, tags of four
/// bytes, values with their slots of two and eight, and what belongs to special tags; the state comes last, as far as there is one.
fn segment(body: &[u8]) -> Vec<u8> {
    let mut rest = body;
    let mut take = |len: usize| {
        let (taken, left) = rest.split_at(len.min(rest.len()));
        rest = left;
        let mut bytes = [0; 8];
        bytes[..taken.len().min(8)].copy_from_slice(&taken[..taken.len().min(8)]);
        u64::from_le_bytes(bytes)
    };
    let flags = take(1) & 3;
    let (tags, values) = (take(2), take(2));
    let (mut control, mut memory) = (ControlEncoder::<u32>::new(), ValueEncoder::new());
    memory.make_room(1 << 16);
    let mut local = Local::default();
    // No more than there can be in so many bytes.
    for _ in 0..tags.min(body.len() as u64 / 4) {
        let tag = take(4) as u32;
        control.push(tag);
        local.tag(tag);
    }
    for _ in 0..values.min(body.len() as u64 / 10) {
        let (slot, value) = (take(2) as u32, take(8));
        memory.push(slot, &[value.to_le_bytes()]);
        local.value(value);
    }
    let streams = if flags & 2 != 0 { local.finish() } else { [control.finish(), memory.finish()] };
    let [control, memory] = streams;
    let parts = [packed(&[]), control, memory, packed(rest)];
    let mut segment = Vec::new();
    [7, 0, 0, 0, tags, 0, 0, 0].into_iter().for_each(|one| number(&mut segment, one));
    parts.iter().for_each(|part| number(&mut segment, part.len() as u64));
    number(&mut segment, flags);
    if flags & 1 != 0 {
        let mut state = rest[rest.len().saturating_sub(160)..].to_vec();
        state.resize(160, 0);
        segment.extend(state);
    }
    parts.iter().for_each(|part| segment.extend(part));
    segment
}

fn number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The streams of a segment that is packed without looking back, written by hand: two of three tags are not expected, and values belong to whatever slots
/// come.
#[derive(Default)]
struct Local {
    count: u64,
    last: u32,
    runs: Vec<u8>,
    tags: Vec<u8>,
    bits: Vec<u8>,
    lens: Vec<u8>,
    bytes: Vec<u8>,
}

impl Local {
    fn tag(&mut self, tag: u32) {
        self.count += 1;
        if self.count.is_multiple_of(3) {
            // Foretold: some bits say by which exit.
            self.bits.push(tag as u8);
        } else {
            number(&mut self.runs, u64::from(self.count % 3 == 1 && self.count > 1));
            let moved = tag.wrapping_sub(self.last) as i32;
            number(&mut self.tags, (i64::from(moved) << 1 ^ i64::from(moved) >> 63) as u64);
            self.last = tag;
        }
    }

    fn value(&mut self, value: u64) {
        let len = 1 + value.trailing_zeros() as usize % 8;
        self.lens.push(len as u8 | 2 << 4);
        self.bytes.extend(&value.to_le_bytes()[..len]);
        self.bytes.extend([1, 2]);
    }

    fn finish(self) -> [Vec<u8>; 2] {
        let stream = |columns: &[&[u8]]| {
            let mut stream = Vec::new();
            for column in columns {
                number(&mut stream, column.len() as u64);
                number(&mut stream, 0);
            }
            columns.iter().for_each(|column| stream.extend_from_slice(column));
            stream
        };
        let mut control = Vec::new();
        number(&mut control, self.count);
        control.extend(stream(&[&self.runs, &self.tags, &self.bits]));
        [control, stream(&[&self.lens, &self.bytes])]
    }
}
