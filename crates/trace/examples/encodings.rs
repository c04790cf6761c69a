//! How many bytes other ways to write down the same take, against those of a trace.
//!
//!     cargo run --release -p relive-trace --example encodings -- FILE.rtrace
//!
//! A line for each way: its name, how many bytes it takes, and how many when zstd -3 has packed it. As in the paper on DEP (§7), with
//! what belongs together in one stream. Addresses of code have 4 bytes there, as on the machines of its time.
//!
//! | name | |
//! |---|---|
//! | `bb_pc` | where each basic block begins: 4 bytes |
//! | `cf_bit` | a bit for each conditional branch, and 4 bytes for where each computed jump, call and return leads |
//! | `dep_c` | the paper's: 2 bytes for each basic block, and where the upper half of its address changes, 4 more |
//! | `tags` | 4 bytes for each unit: what threads write down here |
//! | `mem_addr` | the address of each access: 8 bytes |
//! | `mem_addr_4` | the lower half of that: 4 bytes |
//! | `mem_delta` | how far it is from the access before, 7 bits in each byte |
//! | `values` | 8 bytes for each value: what threads write down here |
//!
//! Then what is stored: `stored_control`, `stored_memory` and `stored` altogether, and `instructions`, `accesses`, `blocks`, with how many there are.

use relive_code::isa::Flow;
use relive_trace::units::Unit;
use relive_trace::visit::{Event, Ran, Visitor};
use relive_trace::{Segment, Trace};
use std::collections::HashMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

/// A stream, packed on the way.
struct Stream {
    raw: u64,
    packer: zstd::stream::write::Encoder<'static, Count>,
}

/// Only counts.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    fn new() -> Self {
        let packer = zstd::stream::write::Encoder::new(Count(0), 3).expect("memory for what is packed");
        Self { raw: 0, packer }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.raw += bytes.len() as u64;
        self.packer.write_all(bytes).expect("counting works");
    }

    /// How long it is, and packed.
    fn finish(self) -> io::Result<[u64; 2]> {
        Ok([self.raw, self.packer.finish()?.0])
    }
}

/// An instruction of a unit that control does not simply go on from.
#[derive(Clone, Copy)]
struct Turn {
    step: usize,
    flow: Flow,
    /// Behind it.
    next: u64,
}

/// All the ways to write down what happens.
struct Encodings {
    bb_pc: Stream,
    bits: Stream,
    targets: Stream,
    dep_c: Stream,
    mem_addr: Stream,
    mem_addr_4: Stream,
    mem_delta: Stream,
    instructions: u64,
    accesses: u64,
    blocks: u64,
    turns: HashMap<(u32, u32), Vec<Turn>>,
    process: u32,
    /// The last instruction that was executed, if control did not simply go on from it. A thread begins as if it had come from elsewhere.
    last: Option<Turn>,
    is_begin: bool,
    /// Bits that do not make a byte yet, behind a one.
    open: u8,
    high: u16,
    address: u64,
}

impl Encodings {
    fn new() -> Self {
        Self {
            bb_pc: Stream::new(),
            bits: Stream::new(),
            targets: Stream::new(),
            dep_c: Stream::new(),
            mem_addr: Stream::new(),
            mem_addr_4: Stream::new(),
            mem_delta: Stream::new(),
            instructions: 0,
            accesses: 0,
            blocks: 0,
            turns: HashMap::new(),
            process: 0,
            last: None,
            is_begin: true,
            open: 1,
            high: 0,
            address: 0,
        }
    }

    /// A segment of a thread begins. The last instruction of the one before is not known.
    fn begin(&mut self, segment: &Segment) {
        (self.process, self.last, self.is_begin) = (segment.process, None, true);
    }

    /// Control comes to a place.
    fn arrive(&mut self, pc: u64) {
        match self.last.take() {
            None if !self.is_begin => return,
            None => {}
            Some(turn) => match turn.flow {
                Flow::Branch(_) => self.bit(pc != turn.next),
                Flow::IndirectJump | Flow::IndirectCall | Flow::Return => {
                    self.targets.put(&(pc as u32).to_le_bytes());
                }
                _ => {}
            },
        }
        self.is_begin = false;
        self.block(pc as u32);
    }

    fn bit(&mut self, bit: bool) {
        let is_full = self.open & 0x80 != 0;
        self.open = self.open << 1 | u8::from(bit);
        if is_full {
            self.bits.put(&[self.open]);
            self.open = 1;
        }
    }

    fn block(&mut self, pc: u32) {
        self.blocks += 1;
        self.bb_pc.put(&pc.to_le_bytes());
        let (high, low) = ((pc >> 16) as u16, pc as u16);
        if high != self.high {
            self.high = high;
            self.dep_c.put(&[0, 0]);
            self.dep_c.put(&high.to_le_bytes());
        }
        if low == 0 {
            self.dep_c.put(&[0, 0]);
        }
        self.dep_c.put(&low.to_le_bytes());
    }

    fn access(&mut self, address: u64) {
        self.accesses += 1;
        self.mem_addr.put(&address.to_le_bytes());
        self.mem_addr_4.put(&(address as u32).to_le_bytes());
        let step = address.wrapping_sub(std::mem::replace(&mut self.address, address)) as i64;
        let mut left = (step << 1 ^ step >> 63) as u64;
        while left >= 0x80 {
            self.mem_delta.put(&[left as u8 | 0x80]);
            left >>= 7;
        }
        self.mem_delta.put(&[left as u8]);
    }
}

fn turns(unit: &Unit) -> Vec<Turn> {
    let turn = |step: usize| {
        let insn = unit.decode(step)?;
        let flow = insn.flow();
        flow.ends_straight_code().then(|| Turn { step, flow, next: insn.next_addr().0 })
    };
    (0..unit.steps.len()).filter_map(turn).collect()
}

impl Visitor for Encodings {
    fn ran(&mut self, ran: &Ran<'_>) {
        let unit = ran.unit;
        self.instructions += (ran.steps - ran.from) as u64;
        if ran.from < ran.steps {
            self.arrive(unit.steps[ran.from].pc);
            let key = (self.process, unit.number);
            let all = self.turns.remove(&key).unwrap_or_else(|| turns(unit));
            for turn in all.iter().filter(|turn| (ran.from..ran.steps).contains(&turn.step)) {
                self.last = Some(*turn);
                if turn.step + 1 < ran.steps {
                    self.arrive(unit.steps[turn.step + 1].pc);
                }
            }
            self.turns.insert(key, all);
        }
        ran.references.iter().for_each(|reference| self.access(reference.address));
    }

    fn event(&mut self, event: &Event) {
        if let Event::State(_) = event {
            (self.last, self.is_begin) = (None, true);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os().nth(1).ok_or("encodings FILE.rtrace")?;
    let trace = Trace::open(Path::new(&file))?;
    let mut all = Encodings::new();
    let (mut tags, mut values) = (Stream::new(), Stream::new());
    for segment in trace.segments() {
        all.begin(segment);
        trace.replay(segment, &mut all)?;
        let written = trace.written(segment)?;
        written.tags.iter().for_each(|tag| tags.put(&tag.to_le_bytes()));
        written.values.iter().for_each(|value| values.put(&value.to_le_bytes()));
    }
    let (bits, targets) = (all.bits.finish()?, all.targets.finish()?);
    let ways = [
        ("bb_pc", all.bb_pc.finish()?),
        ("cf_bit", [bits[0] + targets[0], bits[1] + targets[1]]),
        ("dep_c", all.dep_c.finish()?),
        ("tags", tags.finish()?),
        ("mem_addr", all.mem_addr.finish()?),
        ("mem_addr_4", all.mem_addr_4.finish()?),
        ("mem_delta", all.mem_delta.finish()?),
        ("values", values.finish()?),
    ];
    for (name, [raw, packed]) in ways {
        println!("{name}\t{raw}\t{packed}");
    }
    let sum = |of: fn(&Segment) -> u64| trace.segments().iter().map(of).sum::<u64>();
    let (stored, control) = (sum(Segment::packed), sum(Segment::packed_control));
    for (name, number) in [
        ("stored_control", control),
        ("stored_memory", stored - control),
        ("stored", stored),
        ("instructions", all.instructions),
        ("accesses", all.accesses),
        ("blocks", all.blocks),
    ] {
        println!("{name}\t{number}");
    }
    Ok(())
}
