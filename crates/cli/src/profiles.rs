//! What the commands that read profiles share.

use crate::remedy::with_remedy;
use anyhow::{Context as _, Result};
use relive_image::loader::{LoadError, open_file};
use relive_profile::file;
use relive_profile::model::{Count, Profile};
use std::io::BufReader;
use std::path::Path;

/// Reads the profile at `path`.
pub(crate) fn open(path: &Path) -> Result<Profile> {
    let file = open_file(path).map_err(with_remedy)?;
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        return Err(with_remedy(LoadError::Empty { path: path.to_owned() }));
    }
    file::read_from(&mut BufReader::new(file))
        .map_err(with_remedy)
        .with_context(|| path.display().to_string())
}

/// A count for tables: `-` if it is not known.
pub(crate) fn count(count: Option<Count>) -> String {
    count.map_or_else(|| "-".to_string(), |count| count.value().to_string())
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
