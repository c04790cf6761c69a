//! How small what a program writes down gets, and how long it takes to pack it and to replay it.
//!
//!     cargo run --release -p relive-trace --example streams -- [--most MIB] [--control] COMMAND…
//!
//! The first part of what the command writes down is kept in memory; then it is packed into a file and replayed, five times each.
//! Times are processor time; the best counts.

use relive_code::isa::AccessKind;
use relive_launch::collect::News;
use relive_launch::{Options, Trace as What};
use relive_trace::recording::Plan;
use relive_trace::visit::{Ran, Visitor};
use relive_trace::{About, Recording, Segment, Trace};
use std::error::Error;
use std::ffi::OsString;
use std::path::Path;

/// Something that happened.
enum Kept {
    Process(u32, u32, Option<(u32, u64)>),
    Log(u32, u32, Vec<u8>, u64),
    Written(u32, u32, Vec<u8>),
}

fn run(command: Vec<OsString>, most: u64, memory: bool) -> Result<Vec<Kept>, Box<dyn Error>> {
    let (count, time, follow, verify) = (false, false, true, false);
    let trace = Some(What { memory, order: false });
    let options =
        Options { command, count, time, follow, verify, cache_len: 512 << 20, trace, exempt: Vec::new() };
    let (mut kept, mut len) = (Vec::new(), 0);
    let mut sink = |news: News<'_>| match news {
        _ if len > most => {}
        News::Process { number, pid, parent } => kept.push(Kept::Process(number, pid, parent)),
        News::Log { process, kind, body, end } => kept.push(Kept::Log(process, kind, body.to_vec(), end)),
        News::Written { process, tid, bytes } => {
            let bytes = bytes.as_ref().to_vec();
            len += bytes.len() as u64;
            kept.push(Kept::Written(process, tid, bytes));
        }
        News::Ended { .. } | News::Over { .. } | News::Gone { .. } | News::Time => {}
    };
    relive_launch::trace(&options, &mut |_, _| {}, &mut sink)?;
    Ok(kept)
}

fn pack(kept: &[Kept], path: &Path, memory: bool) -> Result<u64, Box<dyn Error>> {
    let about = About { memory, ..About::default() };
    let clock = Clock::new();
    let file = Some(std::fs::File::create(path)?);
    let mut recording = Recording::new(&about, Plan { file, ..Plan::default() });
    for news in kept {
        match news {
            Kept::Process(number, pid, parent) => recording.process(*number, *pid, *parent),
            Kept::Log(process, kind, body, end) => recording.log(*process, *kind, body, *end),
            Kept::Written(process, tid, bytes) => recording.records(*process, *tid, bytes.clone()),
        }
    }
    recording.finish().written?;
    Ok(clock.passed())
}

#[derive(Default)]
struct Count {
    instructions: u64,
    accesses: u64,
    sum: u64,
}

impl Visitor for Count {
    fn ran(&mut self, ran: &Ran<'_>) {
        self.instructions += ran.steps as u64;
        self.accesses += ran.references.len() as u64;
        for reference in ran.references {
            let kind = u64::from(reference.kind == AccessKind::Read);
            self.sum = self.sum.wrapping_add(reference.address ^ kind);
        }
    }
}

fn replay(trace: &Trace) -> Result<(Count, u64), Box<dyn Error>> {
    let mut count = Count::default();
    for number in trace.processes() {
        trace.process(number)?;
    }
    let clock = Clock::new();
    for segment in trace.segments() {
        trace.replay(segment, &mut count)?;
    }
    Ok((count, clock.passed()))
}

/// Tells the time that all threads of this process were given.
struct Clock(u64);

impl Clock {
    fn new() -> Self {
        const TICK: u64 = 10_000_000;
        let figures = std::fs::read_to_string("/proc/self/stat").expect("a kernel that counts");
        let behind_name = figures.rsplit(')').next().unwrap_or_default();
        let ticks =
            behind_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok());
        Self(ticks.sum::<u64>() * TICK)
    }

    fn passed(&self) -> u64 {
        Self::new().0 - self.0
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    let mut most = 256;
    if arguments.next_if(|word| word == "--most").is_some() {
        most =
            arguments.next().and_then(|word| word.to_str()?.parse().ok()).ok_or("--most needs a number")?;
    }
    let memory = arguments.next_if(|word| word == "--control").is_none();
    let kept = run(arguments.collect(), most << 20, memory)?;
    let file = std::env::temp_dir().join(format!("streams-{}.rtrace", std::process::id()));
    let (mut packing, mut replaying) = (u64::MAX, u64::MAX);
    for _ in 0..5 {
        packing = packing.min(pack(&kept, &file, memory)?);
    }
    let trace = Trace::open(&file)?;
    std::fs::remove_file(&file)?;
    let mut count = Count::default();
    for _ in 0..5 {
        let (found, time) = replay(&trace)?;
        replaying = replaying.min(time);
        count = found;
    }
    let sum = |of: fn(&Segment) -> u64| trace.segments().iter().map(of).sum::<u64>() as f64;
    let (records, instructions) = (sum(|segment| segment.records), count.instructions as f64);
    let (raw, packed, control) =
        (sum(|segment| segment.raw), sum(Segment::packed), sum(Segment::packed_control));
    println!(
        "instructions   {:>14}   in {records} records of {:.1}",
        count.instructions,
        instructions / records
    );
    println!("accesses       {:>14}   sum {:x}", count.accesses, count.sum);
    println!("written down   {:>14.3}   bytes for each instruction", raw / instructions);
    println!(
        "packed         {:>14.4}   of these {:.4} for control flow",
        packed / instructions,
        control / instructions
    );
    println!(
        "to pack        {:>14.1}   ns for each record, {:.2} for each instruction",
        packing as f64 / records,
        packing as f64 / instructions
    );
    println!(
        "to replay      {:>14.1}   ns for each record, {:.0} million instructions a second",
        replaying as f64 / records,
        instructions * 1e3 / replaying as f64
    );
    Ok(())
}
