//! Annotations in a file of their own, for programs that go without: `docs/annotate-file.md` has the format.

use crate::cursor::{Cursor, FieldError};
use crate::identity::hex;
use thiserror::Error;

/// What the file begins with.
pub const MAGIC: [u8; 8] = *b"ANNOTATE";

/// The version that is written.
pub const VERSION: u32 = 1;

/// Bytes of the checksum at the end.
const CHECKSUM: usize = 4;

/// What is in such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SideFile<'a> {
    /// Of which build it is.
    pub build_id: &'a [u8],
    /// What was section `.annotate` of it.
    pub section: &'a [u8],
}

/// Why a file is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SideFileError {
    /// Something else.
    #[error("not a file of annotations")]
    NotOne,
    /// Made by another version of the tool.
    #[error("annotations of version {0}, only {VERSION} is supported")]
    Version(u32),
    /// Cut short, or with sizes that cannot be.
    #[error("damaged: {0}")]
    Damaged(FieldError),
    /// Bytes behind what should be all of it.
    #[error("damaged: something follows at byte {0:#x}, where it should end")]
    Longer(usize),
    /// Changed.
    #[error("damaged: its checksum is {found:#010x}, not {said:#010x}")]
    Checksum {
        /// What is said.
        said: u32,
        /// What is so.
        found: u32,
    },
    /// Of another build.
    #[error("belongs to build {theirs}, not {ours}")]
    OtherBuild {
        /// The build that it is of.
        theirs: String,
        /// The one that is wanted.
        ours: String,
    },
    /// It cannot be told whether it is of this build.
    #[error("belongs to build {theirs}, and the program has no build-id")]
    NoBuildId {
        /// The build that it is of.
        theirs: String,
    },
}

impl<'a> SideFile<'a> {
    /// The bytes of the file.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.build_id.len() as u32).to_le_bytes());
        bytes.extend(self.build_id);
        bytes.extend((self.section.len() as u64).to_le_bytes());
        bytes.extend(self.section);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is something else, or damaged.
    pub fn read(bytes: &'a [u8]) -> Result<Self, SideFileError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(SideFileError::NotOne);
        }
        let field = SideFileError::Damaged;
        let mut cursor = Cursor::at(bytes, MAGIC.len(), "version").map_err(field)?;
        let version = cursor.u32("version").map_err(field)?;
        if version != VERSION {
            return Err(SideFileError::Version(version));
        }
        let len = cursor.u32("length of the build-id").map_err(field)?;
        let build_id = cursor.bytes(len.into(), "build-id").map_err(field)?;
        let len = cursor.u64("length of the section").map_err(field)?;
        let section = cursor.bytes(len, "section").map_err(field)?;
        let said = cursor.u32("checksum").map_err(field)?;
        if !cursor.is_empty() {
            return Err(SideFileError::Longer(cursor.position()));
        }
        let found = crc32fast::hash(&bytes[..bytes.len() - CHECKSUM]);
        if said != found {
            return Err(SideFileError::Checksum { said, found });
        }
        Ok(Self { build_id, section })
    }

    /// Reads the file of this very build.
    ///
    /// # Errors
    /// If it is of another build, or something else, or damaged.
    pub fn read_of(bytes: &'a [u8], build_id: Option<&[u8]>) -> Result<Self, SideFileError> {
        let file = Self::read(bytes)?;
        match build_id {
            Some(ours) if ours == file.build_id => Ok(file),
            Some(ours) => Err(SideFileError::OtherBuild { theirs: hex(file.build_id), ours: hex(ours) }),
            None => Err(SideFileError::NoBuildId { theirs: hex(file.build_id) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: SideFile<'_> = SideFile { build_id: &[0xab, 1, 2], section: b"what is said" };

    #[test]
    fn what_is_written_is_read() {
        let bytes = FILE.write();
        assert_eq!(SideFile::read(&bytes), Ok(FILE));
        assert_eq!(SideFile::read_of(&bytes, Some(FILE.build_id)), Ok(FILE));
        let error = |build_id| SideFile::read_of(&bytes, build_id).expect_err("another build").to_string();
        assert_eq!(error(Some(&[7, 8])), "belongs to build ab0102, not 0708");
        assert_eq!(error(None), "belongs to build ab0102, and the program has no build-id");
    }

    #[test]
    fn damage_is_found_wherever_it_is() {
        let bytes = FILE.write();
        for len in 0..bytes.len() {
            assert!(SideFile::read(&bytes[..len]).is_err(), "{len} bytes");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(SideFile::read(&changed).is_err(), "byte {at}");
        }
        assert_eq!(SideFile::read(b"#!/bin/sh"), Err(SideFileError::NotOne));
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(SideFile::read(&longer), Err(SideFileError::Longer(bytes.len())));
    }
}
