//! The variants of a program: as built by each compiler, rewritten, and with the counters of peers.

use super::subjects::Subject;
use crate::process::output_of;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Native,
    Edges,
    /// Without the targets of indirect calls.
    NoCalls,
    Blocks,
    Coverage,
    ProfileGenerate,
    ClangNative,
    ClangInstr,
    RelocsNative,
    Bolt,
}

impl Column {
    pub(crate) const ALL: [Self; 10] = [
        Self::Native,
        Self::Edges,
        Self::NoCalls,
        Self::Blocks,
        Self::Coverage,
        Self::ProfileGenerate,
        Self::ClangNative,
        Self::ClangInstr,
        Self::RelocsNative,
        Self::Bolt,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Edges => "relive edges",
            Self::NoCalls => "edges, --calls off",
            Self::Blocks => "relive blocks",
            Self::Coverage => "gcc --coverage",
            Self::ProfileGenerate => "gcc -fprofile-generate",
            Self::ClangNative => "clang",
            Self::ClangInstr => "clang -fprofile-instr-generate",
            Self::RelocsNative => "gcc --emit-relocs",
            Self::Bolt => "BOLT -instrument",
        }
    }

    /// What it is compared to.
    pub(crate) fn base(self) -> Self {
        match self {
            Self::ClangNative | Self::ClangInstr => Self::ClangNative,
            Self::RelocsNative | Self::Bolt => Self::RelocsNative,
            _ => Self::Native,
        }
    }

    /// The configuration whose build it is, or is made from. `native` is that of the subject.
    pub(crate) fn configuration(self, native: &str) -> &str {
        match self {
            Self::Native | Self::Edges | Self::NoCalls | Self::Blocks => native,
            Self::Coverage => "gcc-O2-coverage",
            Self::ProfileGenerate => "gcc-O2-pgo",
            Self::ClangNative => "clang-O2",
            Self::ClangInstr => "clang-O2-instr",
            Self::RelocsNative | Self::Bolt => "gcc-O2-relocs",
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Edges | Self::NoCalls | Self::Blocks)
    }
}

pub(crate) struct Tools {
    pub(crate) relive: PathBuf,
    pub(crate) bolt: PathBuf,
}

/// A variant that can be run, or why not.
pub(crate) enum Ready {
    Binary(PathBuf),
    Failed(String),
}

/// Every variant whose build exists. All files have the name of the program.
pub(crate) fn prepare(subject: &Subject, tools: &Tools, folder: &Path) -> Result<Vec<(Column, Ready)>> {
    let mut ready = Vec::new();
    for (index, column) in Column::ALL.into_iter().enumerate() {
        let Some(built) = subject.binary(column.configuration(&subject.configuration)) else { continue };
        let place = folder.join(format!("variant{index}"));
        std::fs::create_dir(&place)?;
        let out = place.join(&subject.file_name);
        let made = match column {
            Column::Edges | Column::NoCalls | Column::Blocks => {
                let mode = if column == Column::Blocks { "blocks" } else { "edges" };
                let calls = if column == Column::NoCalls { "off" } else { "on" };
                output_of(
                    Command::new(&tools.relive)
                        .args(["instrument", "--mode", mode, "--calls", calls])
                        .arg(&built)
                        .arg("-o")
                        .arg(&out),
                )
            }
            Column::Bolt if !tools.bolt.exists() => continue,
            Column::Bolt => output_of(
                Command::new(&tools.bolt)
                    .arg(&built)
                    .arg("-instrument")
                    .arg(format!("-instrumentation-file={}", place.join("bolt.fdata").display()))
                    .arg("-o")
                    .arg(&out),
            ),
            _ => std::fs::copy(&built, &out).map(|_| String::new()).map_err(anyhow::Error::from),
        };
        ready.push((column, made.map_or_else(|e| Ready::Failed(format!("{e:#}")), |_| Ready::Binary(out))));
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_its_own_base() {
        for column in Column::ALL {
            assert_eq!(column.base().base(), column.base());
        }
    }
}
