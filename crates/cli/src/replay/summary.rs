//! What a trace holds, without replaying it.

use super::select::Selected;
use crate::output::{field, grouped, several};
use anyhow::Result;
use relive_trace::{Segment, Trace};
use std::io::Write;

/// Prints it.
pub(super) fn print(trace: &Trace, selected: &Selected, out: &mut dyn Write) -> Result<()> {
    let about = trace.about();
    let command = about.command.join(" ");
    writeln!(out, "{}", field(&command))?;
    let segments = selected.segments(trace);
    let sum = |of: fn(&Segment) -> u64| segments.iter().map(|segment| of(segment)).sum::<u64>();
    let instructions = sum(|segment| segment.instructions);
    let each = |bytes: u64| bytes as f64 / instructions.max(1) as f64;
    let (packed, control) = (sum(Segment::packed), sum(Segment::packed_control));
    let what = if about.memory { "control flow and memory" } else { "control flow alone" };
    writeln!(
        out,
        "{what}, {} in {}",
        several(segments.len() as u64, "segment"),
        several(instructions, "instruction")
    )?;
    writeln!(
        out,
        "written down {} bytes ({:.3} for each instruction), stored in {} ({:.4}; {:.4} for control flow)\n",
        grouped(sum(|segment| segment.raw)),
        each(sum(|segment| segment.raw)),
        grouped(packed),
        each(packed),
        each(control)
    )?;
    writeln!(
        out,
        "{:>8} {:>8} {:>10} {:>9} {:>17} {:>15} {:>15}",
        "process", "pid", "thread", "segments", "instructions", "records", "bytes"
    )?;
    for of_thread in segments.chunk_by(|one, next| (one.process, one.thread) == (next.process, next.thread)) {
        let first = of_thread[0];
        let sum = |of: fn(&Segment) -> u64| grouped(of_thread.iter().map(|segment| of(segment)).sum::<u64>());
        writeln!(
            out,
            "{:>8} {:>8} {:>10} {:>9} {:>17} {:>15} {:>15}",
            first.process,
            trace.pid(first.process).unwrap_or(0),
            first.thread,
            of_thread.len(),
            sum(|segment| segment.instructions),
            sum(|segment| segment.records),
            sum(Segment::packed)
        )?;
    }
    if !trace.modules().is_empty() {
        writeln!(out, "\ncode of")?;
        for module in trace.modules() {
            let path = module.path.to_string_lossy();
            writeln!(out, "  {} {}", field(&path), module.build_id)?;
        }
    }
    Ok(())
}
