//! A traced process: its code, and where that came from.

use crate::units::{Kind, Unit, Units, Words};
use relive_abi::engine::{self as abi, CODE, MAPPING, TRACED};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A process that was traced. One that executes another program counts as another one from there on.
pub struct Process {
    /// Its number, in the order in which they began.
    pub number: u32,
    /// As the kernel numbered it.
    pub pid: u32,
    /// The process it was forked off, if that was traced too.
    pub parent: Option<u32>,
    /// All code that was executed in it.
    pub units: Units,
    /// What was mapped into it, in the order in which code in there was first executed.
    pub mappings: Vec<Mapping>,
}

/// Code in the address space of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// What to add to an address for a place in the file.
    pub offset: u64,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where code comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A file.
    File(Arc<Path>),
    /// The kernel.
    Kernel,
    /// The program has made it.
    Generated,
}

impl Process {
    pub(crate) fn new(number: u32, pid: u32, kind: Kind) -> Self {
        Self { number, pid, parent: None, units: Units::new(kind), mappings: Vec::new() }
    }

    /// All that a process has that another was forked off: so many of its units and mappings.
    pub(crate) fn inherit(&mut self, parent: &Self, units: usize, mappings: usize) {
        self.parent = Some(parent.number);
        self.units = parent.units.first(units);
        self.mappings = parent.mappings[..mappings.min(parent.mappings.len())].to_vec();
        self.units.mappings = self.mappings.len() as u32;
    }

    /// Takes in a record of its log. Whether it is one that belongs to a trace.
    pub(crate) fn add(&mut self, kind: u32, body: &[u8]) -> bool {
        match kind {
            TRACED | CODE => self.units.add(kind, body),
            MAPPING => {
                self.mappings.extend(mapping(body));
                self.units.mappings = self.mappings.len() as u32;
            }
            _ => return false,
        }
        true
    }

    /// Where code at an address came from when a unit was made.
    #[must_use]
    pub fn mapping(&self, unit: &Unit, pc: u64) -> Option<&Mapping> {
        let then = &self.mappings[..(unit.mappings as usize).min(self.mappings.len())];
        then.iter().rev().find(|mapping| mapping.start <= pc && pc < mapping.end)
    }
}

fn mapping(body: &[u8]) -> Option<Mapping> {
    let mut words = Words(body);
    let (_number, len) = (words.u32()?, words.u32()? as usize);
    let (start, end, offset, inode) = (words.u64()?, words.u64()?, words.u64()?, words.u64()?);
    let path = words.0.get(..len)?;
    let origin = match path {
        b"[vdso]" => Origin::Kernel,
        path if abi::is_file(path, inode) => Origin::File(PathBuf::from(OsStr::from_bytes(path)).into()),
        _ => Origin::Generated,
    };
    Some(Mapping { start, end, offset, origin })
}
