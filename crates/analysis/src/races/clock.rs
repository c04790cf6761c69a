//! What each thread knows of the others: how far each had come when it last learned of it.

/// A point in the life of a thread: which thread, and how far it has come. 0 is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn new(thread: u32, time: u32) -> Self {
        Self(u64::from(thread) << 32 | u64::from(time))
    }

    pub(super) fn thread(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn time(self) -> u32 {
        self.0 as u32
    }
}

/// How far each thread had come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u32>);

impl Clock {
    #[inline]
    pub(super) fn of(&self, thread: u32) -> u32 {
        self.0.get(thread as usize).copied().unwrap_or(0)
    }

    /// Whether this point comes before.
    #[inline]
    pub(super) fn knows(&self, epoch: Epoch) -> bool {
        epoch.time() <= self.of(epoch.thread())
    }

    /// A thread goes on.
    pub(super) fn advance(&mut self, thread: u32) {
        let thread = thread as usize;
        if self.0.len() <= thread {
            self.0.resize(thread + 1, 0);
        }
        self.0[thread] += 1;
    }

    /// Learns what another knows.
    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }
}
