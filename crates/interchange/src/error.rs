//! What can go wrong.

use std::io;

/// Why a profile cannot be written in a format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The format describes one program or library.
    #[error("{format} is about one program or library, and the profile has {}", listed(.modules))]
    OneModule {
        /// Which format.
        format: &'static str,
        /// Paths of the modules the profile has.
        modules: Vec<String>,
    },
    /// The profile lacks something that the format cannot do without.
    #[error("{module}: {format} needs {needs}")]
    Missing {
        /// Which format.
        format: &'static str,
        /// Path of the module.
        module: String,
        /// What it needs.
        needs: String,
    },
    /// The format describes one profile.
    #[error("{format} is about one profile, not {profiles}")]
    OneProfile {
        /// Which format.
        format: &'static str,
        /// How many were given.
        profiles: usize,
    },
    /// The format has no place for calls in their order.
    #[error("{format} is about counts, and this is a sequence of calls")]
    NoCalls {
        /// Which format.
        format: &'static str,
    },
    /// The format is not for those who take everything for hot that ran at all.
    #[error("{format} tells how often everything ran: what is rare is left out for BOLT alone")]
    NothingTooRare {
        /// Which format.
        format: &'static str,
    },
    /// It cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why a file cannot be read as a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A line that is not of the format.
    #[error("line {line}: {what}")]
    Malformed {
        /// Which line, counted from one.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The file says nothing of this program.
    #[error("{what}")]
    Nothing {
        /// What was looked for and not found.
        what: String,
    },
    /// The measured file lacks something that the format cannot do without.
    #[error("{module}: the format needs {needs}")]
    Missing {
        /// Path of the module.
        module: String,
        /// What it needs.
        needs: String,
    },
}

impl ImportError {
    /// Something is wrong with a line.
    pub(crate) fn line(line: usize, what: impl Into<String>) -> Self {
        Self::Malformed { line, what: what.into() }
    }
}

fn listed(modules: &[String]) -> String {
    if modules.is_empty() { "none".to_string() } else { modules.join(", ") }
}
