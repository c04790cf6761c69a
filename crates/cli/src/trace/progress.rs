//! Says on a terminal how far a trace has come.

use crate::console::{is_plain, is_quiet};
use crate::output::grouped;
use relive_trace::Summary;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

const REFRESH: Duration = Duration::from_millis(250);

/// A line on the terminal, if standard error is one.
pub(super) struct Line {
    is_wanted: bool,
    started: Instant,
    shown: Instant,
    is_there: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let is_wanted = !is_quiet() && !is_plain() && std::io::stderr().is_terminal();
        Self { is_wanted, started: now, shown: now, is_there: false }
    }

    /// Shows what has come, now and then.
    pub(super) fn show(&mut self, summary: impl FnOnce() -> Summary) {
        if !self.is_wanted || self.shown.elapsed() < REFRESH {
            return;
        }
        let Summary { instructions, len, .. } = summary();
        let rate = instructions as f64 / self.started.elapsed().as_secs_f64() / 1e6;
        let line =
            format!("{} instructions, {} bytes, {rate:.0} million/s", grouped(instructions), grouped(len));
        // One write, so that nothing comes in between.
        let _ = std::io::stderr().write_all(format!("\r{line}\x1b[K").as_bytes());
        self.shown = Instant::now();
        self.is_there = true;
    }

    /// Takes it away.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
