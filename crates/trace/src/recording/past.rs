//! Threads that are over. There may be very many, so that little is kept of each.

use super::thread::Thread;
use crate::replay::Wrong;
use std::collections::{HashMap, VecDeque};

#[derive(Default)]
pub(super) struct Past {
    /// Those of which something may not be packed yet.
    ending: VecDeque<(u32, Thread)>,
    /// How many segments and how many instructions others had. The kernel gives their numbers to new threads, which go on from there.
    left: HashMap<u32, (u32, u64)>,
}

impl Past {
    /// A thread is over.
    pub(super) fn add(&mut self, tid: u32, thread: Thread) {
        self.ending.push_back((tid, thread));
    }

    /// What there is to go on with, if there was such a thread.
    pub(super) fn take(&mut self, tid: u32) -> Option<Thread> {
        if let Some(at) = self.ending.iter().position(|(of, _)| *of == tid) {
            return self.ending.remove(at).map(|(_, thread)| thread);
        }
        self.left.remove(&tid).map(|(segments, instructions)| Thread::after(segments, instructions))
    }

    /// Forgets what is not needed of those that are packed. The first of which something could not be understood, and why.
    pub(super) fn settle(&mut self) -> Option<(u32, Wrong)> {
        let mut first = None;
        while let Some((tid, thread)) = self.ending.front() {
            let Some(known) = thread.line.is_at(thread.segments()) else { break };
            first = first.or_else(|| Some((*tid, known.wrong.clone()?)));
            self.left.insert(*tid, (thread.segments(), known.instructions));
            drop(known);
            self.ending.pop_front();
        }
        first
    }

    /// Waits until all are packed. As above.
    pub(super) fn finish(self) -> Option<(u32, Wrong)> {
        let mut first = None;
        for (tid, thread) in self.ending {
            let known = thread.line.wait_for(thread.segments());
            first = first.or_else(|| Some((tid, known.wrong.clone()?)));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut past = Past::default();
        past.add(7, Thread::after(2, 100));
        // Before anybody has looked whether it is packed, and behind that.
        let thread = past.take(7).expect("the same");
        assert_eq!(thread.segments(), 2);
        past.add(7, thread);
        assert!(past.settle().is_none());
        let thread = past.take(7).expect("what it has left");
        assert_eq!((thread.segments(), thread.line.known().instructions), (2, 100));
        assert!(past.take(7).is_none());
    }

    #[test]
    fn what_is_not_packed_is_kept() {
        let mut past = Past::default();
        let mut thread = Thread::after(2, 100);
        thread.cut();
        past.add(7, thread);
        past.add(8, Thread::after(1, 10));
        assert!(past.settle().is_none());
        assert_eq!(past.ending.len(), 2);
        let line = past.ending[0].1.line.clone();
        line.pass(line.wait_for(2));
        assert!(past.settle().is_none());
        assert_eq!((past.ending.len(), past.left.len()), (0, 2));
    }
}
