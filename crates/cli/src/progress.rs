//! Shows on a terminal how far long work is, and leaves nothing behind.

use crate::console::{is_plain, is_quiet};
use relive_image::watch::Watch;
use std::io::{IsTerminal as _, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Work that takes less is over before anybody wonders.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a picture stays.
const REFRESH: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 24;

/// A phase: its name, and how long it takes in comparison with the others.
pub(crate) type Phase = (&'static str, u32);

/// Work that is watched, phase by phase. The line on the terminal goes when this value goes.
pub(crate) struct Progress {
    state: Arc<State>,
    /// Ends the thread that draws.
    drawing: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

struct State {
    phases: &'static [Phase],
    /// The index of the phase.
    now: AtomicUsize,
    watch: Watch,
}

impl Progress {
    /// Begins with the first of `phases`. Draws only if standard error is a terminal that knows how to clear
    /// a line.
    pub(crate) fn start(phases: &'static [Phase]) -> Self {
        let is_wanted = std::io::stderr().is_terminal() && !is_plain() && !is_quiet();
        let out = is_wanted.then(std::io::stderr);
        Self::on(out, phases, PATIENCE)
    }

    fn on(out: Option<impl Write + Send + 'static>, phases: &'static [Phase], patience: Duration) -> Self {
        let state = Arc::new(State { phases, now: AtomicUsize::new(0), watch: Watch::default() });
        let drawing = out.map(|out| {
            let (stop, stopped) = channel();
            let state = state.clone();
            (stop, std::thread::spawn(move || draw(&state, out, patience, &stopped)))
        });
        Self { state, drawing: Mutex::new(drawing) }
    }

    /// The next phase begins.
    pub(crate) fn next(&self) {
        self.state.watch.begin(0);
        self.state.now.fetch_add(1, Ordering::Relaxed);
    }

    /// What the work of this phase tells how far it is.
    pub(crate) fn watch(&self) -> &Watch {
        &self.state.watch
    }

    /// Takes the line away for good: something else is to be printed.
    pub(crate) fn clear(&self) {
        let drawing = self.drawing.lock().ok().and_then(|mut drawing| drawing.take());
        if let Some((stop, thread)) = drawing {
            drop(stop);
            // Whether it could draw is nobody's business.
            let _ = thread.join();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn draw(state: &State, mut out: impl Write, patience: Duration, stopped: &Receiver<()>) {
    let mut wait = patience;
    while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = REFRESH;
        // One write, so that nothing comes in between.
        let _ = out.write_all(format!("\r{}\x1b[K", state.line()).as_bytes()).and_then(|()| out.flush());
    }
    if wait == REFRESH {
        let _ = out.write_all(b"\r\x1b[K").and_then(|()| out.flush());
    }
}

impl State {
    /// How far the whole is, from zero to one.
    fn share(&self) -> f64 {
        let weigh = |phases: &[Phase]| phases.iter().map(|&(_, weight)| f64::from(weight)).sum::<f64>();
        let now = self.now.load(Ordering::Relaxed).min(self.phases.len());
        let (before, rest) = self.phases.split_at(now);
        let part = rest.first().map_or(0.0, |&(_, weight)| f64::from(weight) * self.watch.share());
        (weigh(before) + part) / weigh(self.phases).max(1.0)
    }

    fn line(&self) -> String {
        let share = self.share();
        let now = self.now.load(Ordering::Relaxed).min(self.phases.len() - 1);
        let full = (share * WIDTH as f64) as usize;
        let (full, rest) = ("#".repeat(full), "-".repeat(WIDTH.saturating_sub(full)));
        format!("[{full}{rest}] {:>3} % {}", (share * 100.0) as u32, self.phases[now].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: &[Phase] = &[("read", 1), ("rewrite", 3)];

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("whole").clone()).expect("text")
        }
    }

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("whole").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn phases_and_steps_add_up() {
        let state = State { phases: PHASES, now: AtomicUsize::new(0), watch: Watch::default() };
        assert_eq!(state.line(), "[------------------------]   0 % read");
        state.now.store(1, Ordering::Relaxed);
        state.watch.begin(3);
        state.watch.step();
        assert_eq!(state.line(), "[############------------]  50 % rewrite");
        state.now.store(7, Ordering::Relaxed);
        assert_eq!(state.line(), "[########################] 100 % rewrite");
    }

    #[test]
    fn the_line_goes() {
        let screen = Screen::default();
        let progress = Progress::on(Some(screen.clone()), PHASES, Duration::ZERO);
        while screen.text().is_empty() {
            std::thread::yield_now();
        }
        drop(progress);
        let text = screen.text();
        assert!(text.starts_with("\r[------------------------]   0 % read\x1b[K"), "{text:?}");
        assert!(text.ends_with("\r\x1b[K"), "{text:?}");
    }

    #[test]
    fn short_work_shows_nothing() {
        let screen = Screen::default();
        let progress = Progress::on(Some(screen.clone()), PHASES, Duration::from_secs(3600));
        progress.next();
        drop(progress);
        assert_eq!(screen.text(), "");
    }
}
