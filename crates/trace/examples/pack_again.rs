//! How fast segments are packed, by one thread: `pack_again FILE [SEGMENTS [TIMES]]`. Every so often one, over the whole trace.

use relive_trace::Trace;
use relive_trace::recording::again::{Again, Packer};

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
    let (mut records, mut lens) = (0, [0; 4]);
    for _ in 0..times {
        (records, lens) = (0, [0; 4]);
        let started = spent()?;
        for segment in &segments {
            let (more, parts) = packer.pack(segment);
            records += more;
            lens.iter_mut().zip(parts).for_each(|(len, part)| *len += part);
        }
        best = best.min(spent()? - started);
    }
    let (bytes, count) = (raw as f64, records as f64);
    println!(
        "{:.2} GB/s, {:.2} ns a record of {:.1} bytes; packed {:.4} of raw, parts {lens:?}",
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
