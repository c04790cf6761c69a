//! How fast segments are packed, by one thread: `pack_again FILE [SEGMENTS [TIMES]]`. Every so often one, over the whole trace.

use relive_trace::Trace;
use relive_trace::recording::again::{Again, Packer};

/// How often each is packed before the next: what a thread has just written down is in the processor's cache too.
const AT_ONCE: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which trace?")?;
    let wanted = arguments.next().map_or(Ok(12), |count| count.parse::<usize>())?;
    let times = arguments.next().map_or(Ok(5), |count| count.parse::<usize>())?;
    let trace = Trace::open(path.as_ref())?;
    let count = trace.segments().len();
    let numbers = (0..wanted.min(count)).map(|i| (i * 2 + 1) * count / (2 * wanted.min(count)));
    let segments = numbers.map(|number| Again::new(&trace, number)).collect::<Result<Vec<_>, _>>()?;
    let raw: usize = segments.iter().map(Again::len).sum();
    let mut packer = Packer::default();
    let mut best = f64::MAX;
    let mut packed = Vec::new();
    let (mut records, mut lens, mut sum) = (0, [0; 4], 0);
    for _ in 0..times {
        (records, lens, sum) = (0, [0; 4], 0);
        let started = spent()?;
        for segment in &segments {
            (1..AT_ONCE).for_each(|_| drop(packer.pack(segment)));
            let (more, parts) = packer.pack(segment);
            records += more;
            lens.iter_mut().zip(&parts).for_each(|(len, part)| *len += part.len());
            packed.push(parts);
        }
        best = best.min((spent()? - started) / AT_ONCE as f64);
        for part in packed.drain(..).flatten() {
            sum = crc32fast::hash(&[&u32::to_le_bytes(sum)[..], &part].concat());
        }
    }
    let (bytes, count) = (raw as f64, records as f64);
    println!(
        "{:.2} GB/s, {:.2} ns a record of {:.1} bytes; packed {:.4} of raw, parts {lens:?}, check sum {sum:08x}",
        bytes / best / 1e9,
        best / count * 1e9,
        bytes / count,
        lens.iter().sum::<usize>() as f64 / bytes
    );
    Ok(())
}

/// How long this thread has been running, in seconds: others may run meanwhile.
fn spent() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse::<f64>()? / 1e9)
}
