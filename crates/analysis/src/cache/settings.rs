//! Which caches there are, how large, and who shares them.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A cache: `32K,8,64` is one of 32 KiB with 8 lines of 64 bytes in each set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Bytes.
    pub size: u64,
    /// Lines in a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line: u64,
}

/// Why something is no cache.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// Not three numbers.
    #[error("`{0}` is not SIZE,WAYS,LINE as in 32K,8,64")]
    Form(String),
    /// The line.
    #[error("a line of {0} bytes: it must be a power of two from 16 to 4096")]
    Line(u64),
    /// The number of sets.
    #[error(
        "{size} bytes in sets of {ways} lines of {line} bytes: the number of sets must be a power of two"
    )]
    Sets {
        /// Bytes.
        size: u64,
        /// Lines in a set.
        ways: u32,
        /// Bytes of a line.
        line: u64,
    },
    /// There is no such machine.
    #[error("no caches are known for `{0}`; known are {names}", names = NAMES.join(", "))]
    Machine(String),
}

impl Geometry {
    /// A cache of that size.
    ///
    /// # Errors
    ///
    /// If the line or the number of sets is not a power of two, or the line is very short or long.
    pub fn new(size: u64, ways: u32, line: u64) -> Result<Self, GeometryError> {
        if !line.is_power_of_two() || !(16..=4096).contains(&line) {
            return Err(GeometryError::Line(line));
        }
        let set = u64::from(ways) * line;
        if ways == 0 || !size.is_multiple_of(set) || !(size / set).is_power_of_two() {
            return Err(GeometryError::Sets { size, ways, line });
        }
        Ok(Self { size, ways, line })
    }

    /// How many sets it has.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.size / (u64::from(self.ways) * self.line)
    }
}

impl FromStr for Geometry {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || GeometryError::Form(text.to_owned());
        let mut parts = text.split(',');
        let mut next = || parts.next().map(str::trim).ok_or_else(wrong);
        let size = bytes(next()?).ok_or_else(wrong)?;
        let ways = next()?.parse().map_err(|_| wrong())?;
        let line = next()?.parse().map_err(|_| wrong())?;
        if parts.next().is_some() {
            return Err(wrong());
        }
        Self::new(size, ways, line)
    }
}

/// A number of bytes, as in `32K`, `8M` or `512`.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 1 << 10),
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (size, unit) = match self.size {
            size if size % (1 << 20) == 0 => (size >> 20, "M"),
            size if size % (1 << 10) == 0 => (size >> 10, "K"),
            size => (size, ""),
        };
        write!(f, "{size}{unit},{},{}", self.ways, self.line)
    }
}

/// Who shares the caches of the first levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Each thread has its own; only the last level is shared by the process.
    #[default]
    Thread,
    /// All threads of the process share all caches, as in cachegrind.
    Process,
}

/// All caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hierarchy {
    /// The first level, for code.
    pub l1i: Geometry,
    /// The first level, for data.
    pub l1d: Geometry,
    /// The second level, if there is one besides the last.
    pub l2: Option<Geometry>,
    /// The last level.
    pub ll: Geometry,
    /// Who shares them.
    pub sharing: Sharing,
}

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const NAMES: [&str; 5] = ["plain", "skylake", "icelake-server", "zen2", "zen4"];

const fn geometry(size: u64, ways: u32) -> Geometry {
    Geometry { size, ways, line: 64 }
}

impl Default for Hierarchy {
    fn default() -> Self {
        let l1 = geometry(32 * K, 8);
        Self { l1i: l1, l1d: l1, l2: None, ll: geometry(8 * M, 16), sharing: Sharing::default() }
    }
}

impl FromStr for Hierarchy {
    type Err = GeometryError;

    /// The caches that one core of a known processor sees.
    fn from_str(name: &str) -> Result<Self, GeometryError> {
        let (l1i, l1d, l2, ll) = match name {
            "plain" => return Ok(Self::default()),
            "skylake" => {
                (geometry(32 * K, 8), geometry(32 * K, 8), geometry(256 * K, 4), geometry(8 * M, 16))
            }
            "icelake-server" => {
                (geometry(32 * K, 8), geometry(48 * K, 12), geometry(1280 * K, 20), geometry(48 * M, 12))
            }
            "zen2" => (geometry(32 * K, 8), geometry(32 * K, 8), geometry(512 * K, 8), geometry(16 * M, 16)),
            "zen4" => (geometry(32 * K, 8), geometry(32 * K, 8), geometry(M, 8), geometry(32 * M, 16)),
            _ => return Err(GeometryError::Machine(name.to_owned())),
        };
        Ok(Self { l1i, l1d, l2: Some(l2), ll, sharing: Sharing::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_in_words() {
        for text in ["32K,8,64", "8M,16,64", "512,1,32"] {
            assert_eq!(text.parse::<Geometry>().expect("a cache").to_string(), text);
        }
        let wrong = |text: &str| text.parse::<Geometry>().expect_err("no cache").to_string();
        assert_eq!(wrong("32K,8"), "`32K,8` is not SIZE,WAYS,LINE as in 32K,8,64");
        assert_eq!(wrong("32K,8,64,1"), "`32K,8,64,1` is not SIZE,WAYS,LINE as in 32K,8,64");
        assert!(wrong("99999999999G,8,64").contains("SIZE"));
        assert!(wrong("32K,8,48").contains("power of two"));
        assert!(wrong("32K,7,64").contains("number of sets"));
        assert!(wrong("0,1,64").contains("number of sets"));
        assert!(wrong("32K,0,64").contains("number of sets"));
    }

    #[test]
    fn machines_are_possible() {
        for name in NAMES {
            let Hierarchy { l1i, l1d, l2, ll, .. } = name.parse().expect("known");
            for Geometry { size, ways, line } in [l1i, l1d, ll].into_iter().chain(l2) {
                assert!(Geometry::new(size, ways, line).is_ok(), "{name}");
            }
        }
        assert!("pentium".parse::<Hierarchy>().is_err());
    }
}
