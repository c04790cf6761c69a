//! How far long work is, for whoever watches it from another thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The state of some work that consists of many steps.
#[derive(Debug, Default)]
pub struct Watch {
    steps: AtomicUsize,
    done: AtomicUsize,
}

impl Watch {
    /// Other work begins, of that many steps.
    pub fn begin(&self, steps: usize) {
        self.done.store(0, Ordering::Relaxed);
        self.steps.store(steps, Ordering::Relaxed);
    }

    /// A step is done.
    pub fn step(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How much of the work is done, from zero to one. Some steps may have to be done again.
    #[must_use]
    pub fn share(&self) -> f64 {
        let (done, steps) = (self.done.load(Ordering::Relaxed), self.steps.load(Ordering::Relaxed));
        if steps == 0 { 0.0 } else { (done as f64 / steps as f64).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::Watch;

    #[test]
    fn never_more_than_all() {
        let watch = Watch::default();
        assert_eq!(watch.share(), 0.0);
        watch.begin(2);
        watch.step();
        assert_eq!(watch.share(), 0.5);
        watch.step();
        watch.step();
        assert_eq!(watch.share(), 1.0);
        watch.begin(4);
        assert_eq!(watch.share(), 0.0);
    }
}
