//! Replays segments side by side, and writes what they say one behind the other.
//!
//! What is ahead of what is being written waits, so that not much memory is taken however long a segment is.

use super::select::{Part, Range, Selected};
use anyhow::Result;
use relive_trace::visit::{Event, Ran, Visitor};
use relive_trace::{Segment, Trace};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// How much is handed over at once.
const BLOCK: usize = 1 << 20;
/// How many blocks may wait, of each segment.
const WAITING: usize = 4;

/// Says what happens in a segment, in its own manner.
pub(super) trait Teller: Send {
    /// A part of a unit was executed.
    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>);

    /// At the beginning.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// At the end.
    fn end(&mut self, _out: &mut Vec<u8>) {}
}

struct Telling {
    teller: Box<dyn Teller>,
    range: Range,
    /// Instructions that were executed before.
    before: u64,
    out: Vec<u8>,
    to: SyncSender<Vec<u8>>,
    /// Nobody wants to know any more.
    is_over: bool,
}

impl Telling {
    fn hand_over(&mut self) {
        let block = std::mem::replace(&mut self.out, Vec::with_capacity(BLOCK + BLOCK / 4));
        self.is_over |= self.to.send(block).is_err();
    }
}

impl Visitor for Telling {
    fn ran(&mut self, ran: &Ran<'_>) {
        if self.is_over {
            return;
        }
        let part = self.range.part(self.before, ran);
        self.before += (ran.steps - ran.from) as u64;
        if part.from < part.to || !part.references.is_empty() {
            self.teller.ran(ran, &part, &mut self.out);
            if self.out.len() >= BLOCK {
                self.hand_over();
            }
        }
    }

    fn event(&mut self, _: &Event) {}
}

/// Writes what tellers say of all segments.
pub(super) fn print(
    trace: &Trace,
    selected: &Selected,
    out: &mut dyn Write,
    teller: impl Fn(&Segment) -> Box<dyn Teller> + Sync,
) -> Result<()> {
    let segments = selected.segments(trace);
    let (senders, receivers): (Vec<SyncSender<_>>, Vec<Receiver<_>>) =
        segments.iter().map(|_| sync_channel(WAITING)).unzip();
    let senders: Vec<_> = senders.into_iter().map(|sender| std::sync::Mutex::new(Some(sender))).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(segment) = segments.get(number) else { return Ok(()) };
            let Some(to) = senders[number].lock().expect("nobody panics with it").take() else {
                return Ok(());
            };
            let (before, out) = (segment.first_instruction, Vec::new());
            let mut telling = Telling {
                teller: teller(segment),
                range: selected.range(segment),
                before,
                out,
                to,
                is_over: false,
            };
            telling.teller.begin(&mut telling.out);
            if selected.memory {
                trace.replay(segment, &mut telling)?;
            } else {
                trace.replay_control(segment, &mut telling)?;
            }
            telling.teller.end(&mut telling.out);
            telling.hand_over();
            if telling.is_over {
                return Ok(());
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(segments.len().max(1));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let written = receivers
            .into_iter()
            .try_for_each(|blocks| blocks.into_iter().try_for_each(|block| out.write_all(&block)));
        // Those that still wait for somebody to read are told that nobody does.
        senders.iter().for_each(|sender| drop(sender.lock().expect("nobody panics with it").take()));
        workers.into_iter().try_for_each(|worker| worker.join().expect("whole"))?;
        Ok(written?)
    })
}
