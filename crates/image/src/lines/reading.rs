//! What every reader of debug information needs.

use super::complaints::Complaints;
use super::extent::Text;
use super::sections::Sections;
use gimli::{DebugInfoOffset, EndianSlice, LittleEndian};

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
pub(super) type DwarfUnit<'a> = gimli::Unit<Slice<'a>>;

/// The sections, what to check them against, and where to complain. Cheap to make: it is made
/// anew for each unit that is read, so that what is kept of a unit need not refer to it.
pub(super) struct Reading<'a> {
    pub(super) dwarf: Dwarf<'a>,
    pub(super) text: &'a Text,
    pub(super) complaints: &'a Complaints,
    /// Bytes of all sections together: more things than that cannot be told apart in them.
    pub(super) size: usize,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        sections: &'a Sections<'_>,
        supplement: Option<&'a Sections<'_>>,
        text: &'a Text,
        complaints: &'a Complaints,
    ) -> Self {
        let mut dwarf = sections.dwarf();
        let mut size = sections.size;
        if let Some(supplement) = supplement {
            dwarf.set_sup(supplement.dwarf());
            size += supplement.size;
        }
        Self { dwarf, text, complaints, size }
    }

    /// The unit whose header is at `at`.
    pub(super) fn unit(&self, at: DebugInfoOffset) -> gimli::Result<DwarfUnit<'a>> {
        self.dwarf.unit(self.dwarf.unit_header(at)?)
    }
}
