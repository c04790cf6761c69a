//! Replays segments side by side and combines their parts in order.
//!
//! Only so many parts are there at a time, as each may be large: replaying waits until the combination has caught up.

use crate::{Analysis, Segment};
use relive_trace::visit::Visitor;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// What is replayed.
pub trait Source: Sync {
    /// Why a segment cannot be replayed.
    type Error: Send;

    /// All segments, in the order of time.
    fn segments(&self) -> &[Segment];

    /// Tells all that happened in one of them.
    fn replay<V: Visitor>(&self, index: usize, visitor: &mut V) -> Result<(), Self::Error>;
}

/// So many parts for each thread that replays: one at work, one to come, one to be combined.
const PARTS_EACH: usize = 3;

/// Asks all segments. `progress` is told how many have been combined.
///
/// # Errors
///
/// The first segment that cannot be replayed.
pub fn run<A: Analysis, S: Source>(
    analysis: &mut A,
    source: &S,
    workers: NonZeroUsize,
    progress: &mut dyn FnMut(usize),
) -> Result<(), S::Error> {
    let segments = source.segments();
    let (orders, taken) = mpsc::channel::<(usize, A::Part)>();
    let (finished, results) = mpsc::channel();
    let taken = Mutex::new(taken);
    thread::scope(|scope| {
        for _ in 0..workers.get().min(segments.len()) {
            let (taken, finished) = (&taken, finished.clone());
            scope.spawn(move || {
                loop {
                    let order = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((index, mut part)) = order else { return };
                    let result = source.replay(index, &mut part).map(|()| part);
                    if finished.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(finished);
        let mut waiting = BTreeMap::new();
        let (mut ordered, mut combined) = (0, 0);
        let outcome = loop {
            while ordered < segments.len() && ordered - combined < workers.get() * PARTS_EACH {
                // The other end lives as long as there are workers.
                let _ = orders.send((ordered, analysis.part(&segments[ordered])));
                ordered += 1;
            }
            if combined == segments.len() {
                break Ok(());
            }
            let Ok((index, result)) = results.recv() else { break Ok(()) };
            match result {
                Ok(part) => waiting.insert(index, part),
                Err(error) => break Err(error),
            };
            while let Some(part) = waiting.remove(&combined) {
                analysis.combine(&segments[combined], part);
                combined += 1;
                progress(combined);
            }
        };
        drop(orders);
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Locate};
    use relive_trace::visit::{Event, Ran};

    /// Segments that tell their numbers, the first ones last.
    struct Numbers(Vec<Segment>, Option<usize>);

    impl Source for Numbers {
        type Error = usize;

        fn segments(&self) -> &[Segment] {
            &self.0
        }

        fn replay<V: Visitor>(&self, index: usize, visitor: &mut V) -> Result<(), usize> {
            if self.1 == Some(index) {
                return Err(index);
            }
            thread::sleep(std::time::Duration::from_micros(200 * (7 - index as u64 % 7)));
            visitor.event(&Event::Result { value: index as u64, time: 0 });
            Ok(())
        }
    }

    #[derive(Default)]
    struct Order(Vec<u64>);

    #[derive(Default)]
    struct Told(u64);

    impl Visitor for Told {
        fn ran(&mut self, _: &Ran<'_>) {}

        fn event(&mut self, event: &Event) {
            if let Event::Result { value, .. } = event {
                self.0 = *value;
            }
        }
    }

    impl Analysis for Order {
        type Part = Told;
        type Report = ();

        fn part(&self, _: &Segment) -> Told {
            Told::default()
        }

        fn combine(&mut self, _: &Segment, part: Told) {
            self.0.push(part.0);
        }

        fn finish(self, _: &dyn Code, _: &dyn Locate) {}
    }

    fn segments(count: u32) -> Vec<Segment> {
        (0..count).map(|number| Segment { process: 0, thread: 0, number, instruction: 0 }).collect()
    }

    #[test]
    fn parts_come_in_order() {
        for (count, workers) in [(0, 1), (1, 4), (50, 1), (50, 4)] {
            let mut order = Order::default();
            let mut told = Vec::new();
            let workers = NonZeroUsize::new(workers).expect("some");
            run(&mut order, &Numbers(segments(count), None), workers, &mut |n| told.push(n)).expect("all");
            assert_eq!(order.0, (0..count.into()).collect::<Vec<_>>());
            assert_eq!(told, (1..=count as usize).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_broken_segment_is_an_error() {
        let workers = NonZeroUsize::new(3).expect("some");
        let broken = Numbers(segments(20), Some(11));
        assert_eq!(run(&mut Order::default(), &broken, workers, &mut |_| {}), Err(11));
    }
}
