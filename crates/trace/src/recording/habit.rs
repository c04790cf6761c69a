//! Which way to pack suits a thread: following an earlier part ([`crate::control`], [`crate::values`]) or without looking back
//! ([`crate::local`]).
//!
//! To follow is quick as long as what comes is expected, and each time it is not, it takes long. Without looking back, everything takes about as
//! long. What a segment would have taken the other way follows from how much in it was not expected; as that is only known of segments that were
//! packed by following, one is every so often.

use std::sync::atomic::{AtomicU32, Ordering};

/// After so many segments it is asked again whether following does not suit better.
const AGAIN: u32 = 16;

/// What was found in a segment that was packed by following.
pub(super) struct Followed {
    pub(super) records: u64,
    pub(super) values: u64,
    /// How many tags and values were not expected.
    pub(super) new_tags: u64,
    pub(super) new_values: u64,
    /// Whether values belong to it.
    pub(super) memory: bool,
}

impl Followed {
    /// How long it takes to follow, and the other way, in tenths of nanoseconds. Measured on an AMD EPYC, on lua, bzip2, sqlite, gzip, python and C++
    /// (`pack_again`); on other processors proportions are much the same.
    fn costs(&self) -> [u64; 2] {
        let Self { records, values, new_tags, new_values, memory } = self;
        match memory {
            true => {
                [5 * records + 14 * values + 600 * new_tags + 70 * new_values, 65 * records + 25 * values]
            }
            false => [7 * records + 380 * new_tags, 32 * records],
        }
    }
}

/// How the segments of a thread are packed.
#[derive(Default)]
pub(super) struct Habit {
    /// How many of the next segments are packed without looking back.
    left: AtomicU32,
}

impl Habit {
    /// Whether the next segment is.
    pub(super) fn next_is_local(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// Takes in what one was like that was packed by following.
    pub(super) fn learn(&self, followed: &Followed) {
        let [following, local] = followed.costs();
        if local < following {
            self.left.store(AGAIN, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGULAR: Followed =
        Followed { records: 100_000, values: 150_000, new_tags: 700, new_values: 8_500, memory: true };

    #[test]
    fn what_is_regular_is_followed() {
        let habit = Habit::default();
        assert!(!habit.next_is_local());
        habit.learn(&REGULAR);
        assert!(!habit.next_is_local());
    }

    #[test]
    fn what_is_not_is_asked_again_some_time() {
        let habit = Habit::default();
        habit.learn(&Followed { new_tags: 14_000, new_values: 93_000, ..REGULAR });
        assert!((0..AGAIN).all(|_| habit.next_is_local()));
        assert!(!habit.next_is_local());
        habit.learn(&REGULAR);
        assert!(!habit.next_is_local());
    }

    #[test]
    fn control_flow_alone() {
        let habit = Habit::default();
        habit.learn(&Followed { new_tags: 5_000, memory: false, ..REGULAR });
        assert!(!habit.next_is_local());
        habit.learn(&Followed { new_tags: 14_000, memory: false, ..REGULAR });
        assert!(habit.next_is_local());
    }
}
