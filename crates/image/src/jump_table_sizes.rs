//! `.llvm_jump_table_sizes`: where each jump table lies and how many entries it has, in the
//! compiler's own words.
//!
//! LLVM 20 and later write it with `-emit-jump-table-sizes-section`: pairs of two 64-bit words, one
//! pair a table, with neither header nor version. The entries' width is not said; it follows from
//! the instruction that reads the table. The section is not loaded, so the linker has resolved its
//! addresses even in a position-independent file and the section has no link address of its own; in
//! an object file the relocations must be applied first.

use relive_code::addr::LinkAddr;

use crate::cursor::{Cursor, FieldError};

/// The section's type, `SHT_LLVM_JT_SIZES`.
pub const SECTION_TYPE: u32 = 0x6fff_4c0d;

/// One jump table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpTable {
    /// Its first entry.
    pub start: LinkAddr,
    /// How many entries it has. Unchecked: the section knows nothing of where the table ends.
    pub entries: u64,
}

/// Why a section could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(".llvm_jump_table_sizes: {0}")]
pub struct Error(#[from] pub FieldError);

/// Reads a whole section.
pub fn parse(section: &[u8]) -> Result<Vec<JumpTable>, Error> {
    let mut cursor = Cursor::new(section);
    let mut tables = Vec::new();
    while !cursor.is_empty() {
        let start = LinkAddr(cursor.u64("jump table address")?);
        let entries = cursor.u64("jump table entry count")?;
        tables.push(JumpTable { start, entries });
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_follow_each_other() {
        let words = [0x7910u64, 7, 0x7a00, 130];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected = [
            JumpTable { start: LinkAddr(0x7910), entries: 7 },
            JumpTable { start: LinkAddr(0x7a00), entries: 130 },
        ];
        assert_eq!(parse(&bytes), Ok(expected.to_vec()));
        assert_eq!(parse(&[]), Ok(vec![]));
    }

    #[test]
    fn half_a_pair_is_an_error_with_its_place() {
        let error = parse(&[0; 23]).unwrap_err();
        assert_eq!(
            error.to_string(),
            ".llvm_jump_table_sizes: at byte 0x10: jump table address runs past the end of the section"
        );
    }
}
