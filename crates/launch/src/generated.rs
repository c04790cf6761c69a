//! Code that is in no file. What lies at an address can differ from time to time, and from process to process: each
//! version has addresses of its own, so that all of it can be told apart.

use std::collections::BTreeMap;

/// Addresses of programs are below this; a version's are so much higher than those of the one before.
pub const VERSION: u64 = 1 << 47;

/// More are not told apart: addresses stay positive.
const MOST_VERSIONS: usize = 1 << 16;

const PAGE: usize = 4096;

/// All of it.
#[derive(Debug, Default)]
pub struct Generated {
    versions: Vec<BTreeMap<u64, Box<Page>>>,
    /// By where code begins: the process that had it first.
    owners: BTreeMap<u64, u32>,
}

#[derive(Debug)]
struct Page {
    bytes: [u8; PAGE],
    is_known: [bool; PAGE],
}

/// How code fits to a version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Something else is there.
    Not,
    /// There is room for it, at least for a part.
    Room,
    /// It is there already.
    Same,
}

impl Generated {
    /// Adds code of a process, given as places and bytes, and says what to add to its addresses; `None` if there are
    /// too many versions.
    pub(crate) fn add(&mut self, code: &[(u64, &[u8])], process: u32) -> Option<u64> {
        let fit = |version: &BTreeMap<u64, Box<Page>>| {
            code.iter().flat_map(|&(at, bytes)| places(at, bytes)).fold(Fit::Same, |fit, (page, i, byte)| {
                fit.min(match version.get(&page) {
                    Some(page) if page.is_known[i] && page.bytes[i] != byte => Fit::Not,
                    Some(page) if page.is_known[i] => Fit::Same,
                    _ => Fit::Room,
                })
            })
        };
        // What was made last is most likely meant, but for code that was there all the time.
        let fits: Vec<Fit> = self.versions.iter().map(fit).collect();
        let found = fits.iter().rposition(|&f| f == Fit::Same);
        let version = match found.or_else(|| fits.iter().rposition(|&f| f == Fit::Room)) {
            Some(version) => version,
            None if fits.len() == MOST_VERSIONS => return None,
            None => {
                self.versions.push(BTreeMap::new());
                fits.len()
            }
        };
        for (page, i, byte) in code.iter().flat_map(|&(at, bytes)| places(at, bytes)) {
            let new = || Box::new(Page { bytes: [0; PAGE], is_known: [false; PAGE] });
            let page = self.versions[version].entry(page).or_insert_with(new);
            page.bytes[i] = byte;
            page.is_known[i] = true;
        }
        let shift = version as u64 * VERSION;
        for (at, _) in code {
            self.owners.entry(at + shift).or_insert(process);
        }
        Some(shift)
    }

    /// The process that made the code at an address.
    #[must_use]
    pub fn owner(&self, at: u64) -> Option<u32> {
        self.owners.range(..=at).next_back().map(|(_, &process)| process)
    }

    /// Whether there is code at an address of a version.
    #[must_use]
    pub fn holds(&self, at: u64) -> bool {
        let page =
            self.versions.get((at / VERSION) as usize).and_then(|v| v.get(&(at % VERSION / PAGE as u64)));
        page.is_some_and(|page| page.is_known[at as usize % PAGE])
    }

    /// Whether an address has had other code too.
    #[must_use]
    pub fn changes(&self, at: u64) -> bool {
        let versions = (0..self.versions.len() as u64).map(|version| at % VERSION + version * VERSION);
        versions.filter(|&at| self.holds(at)).nth(1).is_some()
    }

    /// All code: where it begins, with its version, and its bytes, by address.
    #[must_use]
    pub fn ranges(&self) -> Vec<(u64, Vec<u8>)> {
        let mut ranges: Vec<(u64, Vec<u8>)> = Vec::new();
        for (version, number) in self.versions.iter().zip(0..) {
            for (&page, content) in version {
                for i in (0..PAGE).filter(|&i| content.is_known[i]) {
                    let at = number * VERSION + page * PAGE as u64 + i as u64;
                    match ranges.last_mut() {
                        Some((start, bytes)) if *start + bytes.len() as u64 == at => {
                            bytes.push(content.bytes[i])
                        }
                        _ => ranges.push((at, vec![content.bytes[i]])),
                    }
                }
            }
        }
        ranges
    }
}

fn places(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, usize, u8)> {
    bytes.iter().zip(at..).map(|(&byte, at)| (at / PAGE as u64, at as usize % PAGE, byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_apart() {
        let mut code = Generated::default();
        assert_eq!(code.add(&[(0x1ffe, &[1, 2, 3, 4])], 1), Some(0));
        assert_eq!(code.add(&[(0x2000, &[3, 4, 5])], 1), Some(0), "the same, and more of it");
        assert_eq!(code.add(&[(0x2000, &[3, 9])], 1), Some(VERSION), "something else");
        assert_eq!(code.add(&[(0x3000, &[7])], 1), Some(VERSION), "new: with what was made last");
        assert_eq!(code.add(&[(0x1ffe, &[1, 2])], 1), Some(0), "as before");
        assert_eq!(code.add(&[(0x2001, &[8]), (0x3000, &[7])], 1), Some(2 * VERSION), "one version for all");
        assert!(code.holds(0x2002) && !code.holds(0x2003) && !code.holds(VERSION + 0x2002));
        let expected = [
            (0x1ffe, vec![1, 2, 3, 4, 5]),
            (VERSION + 0x2000, vec![3, 9]),
            (VERSION + 0x3000, vec![7]),
            (2 * VERSION + 0x2001, vec![8]),
            (2 * VERSION + 0x3000, vec![7]),
        ];
        assert_eq!(code.ranges(), expected);
    }
}
