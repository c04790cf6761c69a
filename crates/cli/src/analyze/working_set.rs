//! `relive analyze working-set`.

use super::table::Table;
use super::{Asked, Of, Once};
use crate::output::grouped;
use crate::traced::Traced;
use anyhow::{Result, bail};
use relive_analysis::working_set::{PAGE, Report, SHORTEST_LINE, Settings, Window, WorkingSet};
use std::io::Write;
use std::num::NonZeroU64;

const EXAMPLES: &str = "\
EXAMPLES:
  relive analyze working-set app.rtrace --window 10000000
      how much memory is in use, every ten million instructions
  relive analyze working-set app.rtrace --line 4096
      the same in pages";

/// Arguments of `relive analyze working-set`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,

    /// How many instructions of a thread a window has
    #[arg(long, value_name = "N", default_value = "1000000")]
    window: NonZeroU64,

    /// How many bytes a line has
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    line: u64,
}

impl Once for Args {
    type Analysis = WorkingSet;

    fn of(&self) -> &Of {
        &self.asked.of
    }

    fn analysis(&self) -> Result<WorkingSet> {
        let Some(settings) = Settings::new(self.window, self.line) else {
            bail!("--line {}: must be a power of two from {SHORTEST_LINE} to {PAGE}", self.line);
        };
        Ok(WorkingSet::new(settings))
    }

    fn answer(&self, analysis: WorkingSet, traced: &Traced<'_>) -> Result<()> {
        self.asked.answer("working-set", analysis, traced, |report, out| print(report, self.asked.top, out))
    }
}

fn print(report: &Report, top: usize, out: &mut dyn Write) -> Result<()> {
    let heads = ["data", "lines", "pages", "code", "lines", "pages"];
    let bytes = |lines: u64| size(lines * report.line);
    let cells = |window: &Window| {
        let Window { data, code, .. } = window;
        [
            bytes(data.lines),
            grouped(data.lines),
            grouped(data.pages),
            bytes(code.lines),
            grouped(code.lines),
            grouped(code.pages),
        ]
    };
    let mut table = Table::new("Altogether", &[&heads[..], &["process"]].concat());
    for total in &report.processes {
        let (data, code) = (total.data, total.code);
        table.row(cells(&Window { data, code, ..Window::default() }), total.process.to_string());
    }
    writeln!(out, "lines of {} bytes, windows of {} instructions", report.line, grouped(report.window))?;
    table.print(usize::MAX, out)?;
    for thread in &report.threads {
        let title = format!("Over time: thread {} of process {}", thread.thread, thread.process);
        let mut table = Table::new(title, &[&heads[..], &["from instruction"]].concat());
        for window in evenly(&thread.windows, top) {
            table.row(cells(window), grouped(window.instruction));
        }
        table.print(usize::MAX, out)?;
        let most = thread.windows.iter().max_by_key(|window| window.data.lines);
        if let Some(most) = most.filter(|_| thread.windows.len() > top) {
            writeln!(
                out,
                "  {} windows in all; the largest has {} of data, from instruction {}",
                grouped(thread.windows.len() as u64),
                bytes(most.data.lines),
                grouped(most.instruction)
            )?;
        }
    }
    Ok(())
}

/// As many windows as that, from all of the time.
fn evenly(windows: &[Window], count: usize) -> impl Iterator<Item = &Window> {
    let shown = windows.len().min(count);
    (0..shown).map(move |i| &windows[i * windows.len() / shown])
}

/// So many bytes, roughly.
fn size(bytes: u64) -> String {
    match bytes {
        ..0x2_8000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x2_8000..0xa00_0000 => format!("{} KiB", grouped(bytes >> 10)),
        _ => format!("{} MiB", grouped(bytes >> 20)),
    }
}
