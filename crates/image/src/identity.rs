//! Which build this is, and who made it.

use crate::elf::{Elf, Header, LE};
use object::elf as raw;
use object::read::elf::NoteIterator;
use std::fmt::Write as _;

/// The languages relive can tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// C, or something that looks like it.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Nothing in the file tells.
    Unknown,
}

impl Language {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cpp => "C++",
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::Unknown => "unknown",
        }
    }
}

/// What the notes and comments say.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The linker's hash of the build.
    pub build_id: Option<Vec<u8>>,
    /// Compilers, as they sign in `.comment`.
    pub producers: Vec<String>,
    /// What the processor must support or the code promises (`.note.gnu.property`).
    pub properties: Vec<String>,
    /// The name and checksum of the separate debug file.
    pub debug_link: Option<(String, u32)>,
}

impl Identity {
    /// Reads them.
    #[must_use]
    pub fn read(elf: &Elf<'_>) -> Self {
        let mut identity = Self::default();
        let sections = elf.sections.iter().filter(|s| s.kind == raw::SHT_NOTE.0).map(|s| (s.data, 4));
        for (bytes, align) in elf.notes.iter().copied().chain(sections) {
            identity.read_notes(bytes, align);
        }
        if let Some(comment) = elf.section(".comment") {
            identity.producers = comment
                .data
                .split(|&b| b == 0)
                .filter(|text| !text.is_empty())
                .map(|text| String::from_utf8_lossy(text).into_owned())
                .collect();
            identity.producers.sort();
            identity.producers.dedup();
        }
        identity.debug_link = elf.section(".gnu_debuglink").and_then(|section| {
            let end = section.data.iter().position(|&b| b == 0)?;
            let name = String::from_utf8_lossy(&section.data[..end]).into_owned();
            let checksum = section.data.get((end + 4) & !3..)?.first_chunk()?;
            Some((name, u32::from_le_bytes(*checksum)))
        });
        identity
    }

    fn read_notes(&mut self, bytes: &[u8], align: u64) {
        let Ok(mut notes) = NoteIterator::<Header>::new(LE, align, bytes) else { return };
        while let Ok(Some(note)) = notes.next() {
            if note.name() != b"GNU" {
                continue;
            }
            match note.n_type(LE) {
                raw::NT_GNU_BUILD_ID => self.build_id = Some(note.desc().to_vec()),
                raw::NT_GNU_PROPERTY_TYPE_0 => {
                    let Some(mut properties) = note.gnu_properties(LE) else { continue };
                    while let Ok(Some(property)) = properties.next() {
                        let Ok(bits) = property.data_u32(LE) else { continue };
                        self.read_property(property.pr_type().0, bits);
                    }
                }
                _ => {}
            }
        }
        self.properties.sort();
        self.properties.dedup();
    }

    fn read_property(&mut self, kind: u32, bits: u32) {
        // GNU_PROPERTY_X86_FEATURE_1_AND and GNU_PROPERTY_X86_ISA_1_NEEDED of the x86-64 psABI.
        let names: &[(u32, &str)] = match kind {
            0xc000_0002 => &[(1, "IBT"), (2, "SHSTK"), (4, "LAM_U48"), (8, "LAM_U57")],
            0xc000_8002 => &[(1, "x86-64-baseline"), (2, "x86-64-v2"), (4, "x86-64-v3"), (8, "x86-64-v4")],
            _ => return,
        };
        self.properties
            .extend(names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| (*name).to_string()));
    }
}

/// A build-id as people write it.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
