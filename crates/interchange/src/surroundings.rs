//! What a format may ask beside the profile: what only the measured file or its sources know.

use relive_profile::model::Module;

/// Answers what is asked of a measured file. Whoever has files answers; the defaults are those of someone who has none.
pub trait Surroundings {
    /// All symbols of the full symbol table of the file, in its order; `None` if there is no such file, or no such table.
    fn symbols(&self, module: &Module) -> Option<Vec<Symbol>> {
        let _ = module;
        None
    }
}

/// Nothing but the profile is there.
pub struct Nothing;

impl Surroundings for Nothing {}

/// A symbol of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, as in the table.
    pub name: String,
    /// Its address, as linked.
    pub address: u64,
    /// Its size; zero if not stated.
    pub size: u64,
    /// Whether it names a function.
    pub is_function: bool,
    /// Whether other files can see it.
    pub is_global: bool,
}
