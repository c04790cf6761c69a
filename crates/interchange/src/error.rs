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
    /// It cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn listed(modules: &[String]) -> String {
    if modules.is_empty() { "none".to_string() } else { modules.join(", ") }
}
