//! Profiles in the formats of other tools, and theirs as profiles.
//!
//! One file per format: `export/F.rs` writes it and has one line in [`export::FORMATS`], `import/F.rs` reads it and has one line
//! in [`import::FORMATS`]. Nothing here opens files; what a format needs beside the profile it asks for through
//! [`surroundings::Surroundings`]. The formats, and what is lost in each, are described in `docs/exchange.md`.
//!
//! | module | does |
//! |---|---|
//! | [`export`] | formats that are written |
//! | [`import`] | formats that are read |
//! | [`surroundings`] | what a format may ask of the measured file |

mod bolt;
pub mod error;
pub mod export;
mod flow;
pub mod import;
mod json;
mod places;
mod shares;
mod stacks;
pub mod surroundings;
mod xml;

pub use error::{ExportError, ImportError};
