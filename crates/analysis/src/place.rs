//! Where in the program something happened.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An instruction of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// Which process, in the trace.
    pub process: u32,
    /// The address of the instruction in that process.
    pub pc: u64,
}

/// The same in words, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Location {
    /// The file that the code is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<Arc<str>>,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<Arc<str>>,
    /// Where that begins in the module, as linked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    /// The file of source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Where it is in the module, as linked; without a module, in the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<u64>,
}

/// Who can say in words where something happened.
pub trait Locate {
    /// An instruction, as precisely as it can be said.
    fn locate(&self, place: Place) -> Location;

    /// What data is called that is at an address of a process.
    fn variable(&self, _process: u32, _address: u64) -> Option<Arc<str>> {
        None
    }
}

/// Knows addresses alone.
pub struct Addresses;

impl Locate for Addresses {
    fn locate(&self, place: Place) -> Location {
        Location { address: Some(place.pc), ..Location::default() }
    }
}

/// How much of the program is taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A file of code.
    Module,
    /// A function.
    Function,
    /// A line of source; where there is none, a function.
    Line,
    /// A single instruction.
    Instruction,
}

impl Location {
    /// What is the same for all places that are taken together.
    #[must_use]
    pub fn at(mut self, level: Level) -> Self {
        if level < Level::Instruction {
            self.address = None;
        }
        if level < Level::Line {
            (self.file, self.line) = (None, None);
        }
        if level < Level::Function {
            (self.function, self.entry) = (None, None);
        }
        self
    }
}

/// Takes together what happened at places of the same module, function or line.
pub(crate) fn group<T: Default>(
    all: impl IntoIterator<Item = (Place, T)>,
    locate: &dyn Locate,
    level: Level,
    mut add: impl FnMut(&mut T, T),
) -> Vec<(Location, T)> {
    let mut groups: BTreeMap<Location, T> = BTreeMap::new();
    for (place, value) in all {
        add(groups.entry(locate.locate(place).at(level)).or_default(), value);
    }
    groups.into_iter().collect()
}
