//! Formats that are read.
//!
//! What other tools saw of a program are ways of control between addresses. Each format is read as `sampled::Sampled`, and put
//! onto the blocks and edges of the program in one place.

mod bolt_fdata;
mod bolt_preaggregated;
mod bolt_yaml;
mod perf_script;
mod sampled;

use crate::bolt::names::Names;
use crate::error::ImportError;
use crate::surroundings::Surroundings;
use relive_profile::model::Module;
use sampled::{Sampled, Seen};

/// A format that profiles can be read from.
pub trait Importer: Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// Who writes it, in a line.
    fn about(&self) -> &'static str;

    /// Whether a file that begins like this is of the format.
    fn recognises(&self, start: &str) -> bool;

    /// Reads what `text` says of `module`, which has counted nothing yet.
    ///
    /// # Errors
    /// If the text is not of the format, or cannot be understood without something that is missing.
    fn read(&self, text: &str, module: &Module, around: &dyn Surroundings) -> Result<Evidence, ImportError>;
}

/// All formats, as `--format` lists them.
pub const FORMATS: &[&dyn Importer] = &[
    &bolt_fdata::BoltFdata,
    &bolt_yaml::BoltYaml,
    &bolt_preaggregated::BoltPreaggregated,
    &perf_script::PerfScript,
];

/// What a file says of a program.
pub struct Evidence {
    sampled: Sampled,
    /// Of what it says of the program, what cannot be understood: each is a sentence without its full stop.
    pub notes: Vec<String>,
}

/// How much of the evidence found its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Functions of which something is known.
    pub functions: u64,
    /// Ways of control, by how often they were seen, that are in the program.
    pub seen: u64,
    /// Those that are not possible in it.
    pub impossible: u64,
}

impl Evidence {
    /// Puts counts on whatever the evidence speaks of. What it leaves open has no count afterwards; of functions that it does not
    /// speak of, nothing is known to have run. Functions of which something is known are listed.
    pub fn put(&self, module: &mut Module) -> (Placed, Vec<usize>) {
        let seen = Seen::of(&self.sampled, module);
        seen.put(module)
    }
}

/// The format of a file by how it begins.
#[must_use]
pub fn guess(text: &str) -> Option<&'static dyn Importer> {
    // Enough for any header, and for lines of branch stacks.
    let end = text.char_indices().map(|(at, _)| at).take_while(|&at| at <= 64 << 10).last().unwrap_or(0);
    FORMATS.iter().copied().find(|format| format.recognises(&text[..end]))
}

/// What BOLT calls the functions of a module.
fn names(module: &Module, around: &dyn Surroundings) -> Result<Names, ImportError> {
    let symbols = around.symbols(module).filter(|symbols| !symbols.is_empty());
    let symbols = symbols.ok_or_else(|| ImportError::Missing {
        module: module.path.clone(),
        needs: "its symbol table: functions are told apart by it".to_string(),
    })?;
    Ok(Names::new(&symbols))
}

/// The evidence, if there is any.
fn not_nothing(sampled: Sampled, notes: Vec<String>, module: &Module) -> Result<Evidence, ImportError> {
    if sampled.is_empty() {
        return Err(ImportError::Nothing { what: format!("it says nothing of {}", module.path) });
    }
    Ok(Evidence { sampled, notes })
}
