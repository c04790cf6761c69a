//! How small the streams of recordings get, and how long that takes.
//!
//!     cargo run --release -p relive-trace --example streams -- [--segment RECORDS] FILE…
//!
//! A file has four numbers of 8 bytes: of instructions, tags, records and values. Then for each tag, from 1
//! on, the number of its slots and the slots; then the tags of all records, 4 bytes each; then their values,
//! 8 bytes each. All are little-endian. Times are processor time for each record, the best of five.

use relive_trace::{ControlDecoder, ControlEncoder, StreamError, ValueDecoder, ValueEncoder};
use std::error::Error;

/// A recording, as it was before it was packed.
struct Recording {
    instructions: u64,
    slots: Vec<Vec<u32>>,
    tags: Vec<u32>,
    values: Vec<u64>,
}

impl Recording {
    fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let bytes = std::fs::read(path)?;
        let mut rest = &*bytes;
        let [instructions, tags, records, values] = [(); 4].map(|()| take(&mut rest).map(u64::from_le_bytes));
        let narrow = |rest: &mut _| take(rest).map(u32::from_le_bytes);
        let slots_of = |_| {
            let len = narrow(&mut rest)?;
            (0..len).map(|_| narrow(&mut rest)).collect()
        };
        let slots = (0..tags?).map(slots_of).collect::<Result<_, _>>()?;
        let tags = (0..records?).map(|_| narrow(&mut rest)).collect::<Result<_, _>>()?;
        let values =
            (0..values?).map(|_| take(&mut rest).map(u64::from_le_bytes)).collect::<Result<_, _>>()?;
        Ok(Self { instructions: instructions?, slots, tags, values })
    }

    fn slots(&self, tag: u32) -> &[u32] {
        &self.slots[tag as usize - 1]
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], &'static str> {
    let (front, rest) = bytes.split_first_chunk().ok_or("the file is cut short")?;
    *bytes = rest;
    Ok(*front)
}

/// What was measured: lengths in bytes, times in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Costs {
    control: usize,
    memory: usize,
    times: [u64; 4],
}

fn measure(recording: &Recording, segment: usize) -> Result<Costs, StreamError> {
    let mut costs = Costs::default();
    let mut values = &*recording.values;
    for tags in recording.tags.chunks(segment) {
        let mut clock = Clock::new();

        let mut encoder = ControlEncoder::new();
        tags.iter().for_each(|&tag| encoder.push(tag));
        let control = encoder.finish();
        costs.times[0] += clock.lap();

        let mut encoder = ValueEncoder::new();
        let mut next = values.iter();
        for &tag in tags {
            for (&slot, &value) in recording.slots(tag).iter().zip(&mut next) {
                encoder.push(slot, value);
            }
        }
        let memory = encoder.finish();
        costs.times[1] += clock.lap();

        let mut decoder = ControlDecoder::new(&control)?;
        let mut left = tags.iter();
        while let Some(tag) = decoder.next()? {
            assert_eq!(Some(&tag), left.next());
        }
        assert_eq!(left.as_slice(), []);
        costs.times[2] += clock.lap();

        let mut decoder = ValueDecoder::new(&memory)?;
        let mut next = values.iter();
        for &tag in tags {
            for &slot in recording.slots(tag) {
                assert_eq!(Some(&decoder.next(slot)?), next.next());
            }
        }
        decoder.finish()?;
        costs.times[3] += clock.lap();

        values = next.as_slice();
        costs.control += control.len();
        costs.memory += memory.len();
    }
    Ok(costs)
}

/// Tells the time that this thread was given.
struct Clock(u64);

impl Clock {
    fn new() -> Self {
        // The kernel brings its figure up to date when a thread gives way.
        std::thread::yield_now();
        let figures = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel that counts");
        Self(figures.split(' ').next().and_then(|time| time.parse().ok()).expect("nanoseconds"))
    }

    fn lap(&mut self) -> u64 {
        let now = Self::new();
        let passed = now.0 - self.0;
        *self = now;
        passed
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let mut segment = usize::MAX;
    if arguments.next_if_eq("--segment").is_some() {
        segment = arguments.next().ok_or("--segment needs a number")?.parse()?;
    }
    println!(
        "{:12} {:>30} {:>20} {:>20} {:>12} {:>12}",
        "", "bytes/instruction", "bytes/record", "", "ns to write", "ns to read"
    );
    println!(
        "{:12} {:>9} {:>10} {:>10} {:>9} {:>10} {:>9} {:>9} {:>6} {:>5} {:>6} {:>5}",
        "",
        "control",
        "memory",
        "both",
        "control",
        "memory",
        "instr.",
        "values",
        "contr.",
        "mem.",
        "contr.",
        "mem."
    );
    let mut logarithms = [0.0; 11];
    let files: Vec<String> = arguments.collect();
    for file in &files {
        let recording = Recording::read(file)?;
        let mut costs = measure(&recording, segment)?;
        for _ in 1..5 {
            let again = measure(&recording, segment)?;
            costs.times.iter_mut().zip(again.times).for_each(|(best, time)| *best = time.min(*best));
        }
        let instructions = recording.instructions as f64;
        let records = recording.tags.len() as f64;
        let [control, memory] = [costs.control as f64, costs.memory as f64];
        let [a, b, c, d] = costs.times.map(|time| time as f64 / records);
        let row = [
            control / instructions,
            memory / instructions,
            (control + memory) / instructions,
            control / records,
            memory / records,
            instructions / records,
            recording.values.len() as f64 / records,
            a,
            b,
            c,
            d,
        ];
        print(file.rsplit('/').next().unwrap_or(file), row);
        logarithms.iter_mut().zip(row).for_each(|(sum, figure)| *sum += figure.ln());
    }
    print("geo. mean", logarithms.map(|sum| (sum / files.len() as f64).exp()));
    Ok(())
}

fn print(name: &str, [a, b, c, d, e, f, g, h, i, j, k]: [f64; 11]) {
    println!(
        "{name:12} {a:9.4} {b:10.4} {c:10.4} {d:9.3} {e:10.3} {f:9.1} {g:9.2} {h:6.1} {i:5.1} {j:6.1} {k:5.1}"
    );
}
