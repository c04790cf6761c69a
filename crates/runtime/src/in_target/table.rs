//! A hash table from call site and a word to a number.
//!
//! It is read without a lock: by a thread that may be interrupted by a signal whose handler adds to the
//! table. So an entry, once there, stays where it is, and its number is written last.

use core::ptr;

/// An entry, empty if its number is zero.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Entry {
    word: u64,
    site: u32,
    /// One more than what was put in.
    number: u32,
}

/// The places where an entry may be, in the order they are to be looked at.
fn places(len: usize, site: u32, word: u64) -> impl Iterator<Item = usize> {
    let mixed = (word ^ u64::from(site).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = (mixed >> 32) as usize;
    (0..len).map(move |n| first.wrapping_add(n) & (len - 1))
}

/// The number put in for this site and word.
pub(crate) fn find(entries: &[Entry], site: u32, word: u64) -> Option<u32> {
    for place in places(entries.len(), site, word) {
        let entry = entries.get(place)?;
        if entry.number == 0 {
            return None;
        }
        if entry.word == word && entry.site == site {
            return Some(entry.number - 1);
        }
    }
    None
}

/// What became of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Changed,
    Added,
    NoRoom,
}

/// Puts in a number. The number of entries must be a power of two.
pub(crate) fn put(entries: &mut [Entry], site: u32, word: u64, number: u32) -> Put {
    for place in places(entries.len(), site, word) {
        let Some(entry) = entries.get_mut(place) else { return Put::NoRoom };
        let known = entry.number != 0;
        if known && (entry.word != word || entry.site != site) {
            continue;
        }
        entry.word = word;
        entry.site = site;
        // SAFETY: a reference is valid. Volatile, so that it is the last of the three.
        unsafe { ptr::write_volatile(&raw mut entry.number, number + 1) };
        return if known { Put::Changed } else { Put::Added };
    }
    Put::NoRoom
}

/// Puts all entries of one table into another.
pub(crate) fn copy(from: &[Entry], to: &mut [Entry]) {
    for entry in from.iter().filter(|entry| entry.number != 0) {
        put(to, entry.site, entry.word, entry.number - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_found() {
        let mut table = vec![Entry::default(); 256];
        for n in 0..200u32 {
            assert_eq!(find(&table, n % 7, u64::from(n / 7) * 16), None);
            assert_eq!(put(&mut table, n % 7, u64::from(n / 7) * 16, n), Put::Added);
        }
        assert_eq!(put(&mut table, 0, 0, 1000), Put::Changed);
        let mut larger = vec![Entry::default(); 1024];
        copy(&table, &mut larger);
        for table in [&table, &larger] {
            assert_eq!(find(table, 0, 0), Some(1000));
            assert!((1..200).all(|n| find(table, n % 7, u64::from(n / 7) * 16) == Some(n)));
            assert_eq!(find(table, 8, 0), None);
        }
    }

    #[test]
    fn a_full_table_says_so() {
        let mut table = vec![Entry::default(); 4];
        for n in 0..4 {
            assert_eq!(put(&mut table, 1, n, 0), Put::Added);
        }
        assert_eq!(put(&mut table, 1, 4, 0), Put::NoRoom);
        assert_eq!(find(&table, 1, 4), None);
        assert_eq!(find(&[], 1, 4), None);
    }
}
