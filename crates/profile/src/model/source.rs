//! Where counts were carried over from.

/// A build that was measured, and whose counts were carried over to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// How many builds away it is: one for the build before.
    pub steps: u32,
    /// Its build-id.
    pub build_id: Vec<u8>,
    /// Where it was.
    pub path: String,
    /// How many processes counted.
    pub runs: u64,
}
