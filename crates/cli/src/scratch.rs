//! A folder for files that nobody needs afterwards.

use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// A temporary folder that goes when this value goes.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        for number in 0..1000u32 {
            let path = base.join(format!("relive.{}.{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).context(cannot(&base)),
            }
        }
        bail!(cannot(&base))
    }
}

fn cannot(base: &Path) -> String {
    format!("cannot make a temporary folder in {}: set TMPDIR to another place", base.display())
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it being gone.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
