//! `relive instrument --keep-name`: a folder in which a program finds its files by its own path.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the rewritten file goes in `folder`, which is made if it is not there.
pub(crate) fn place(binary: &Path, folder: &Path) -> Result<PathBuf> {
    let Some(name) = binary.file_name() else { bail!("{} names no file", binary.display()) };
    if folder.exists() && !folder.is_dir() {
        bail!("--keep-name: {} is a file, but -o must be a folder", folder.display());
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder.join(name))
}

/// Links everything that lies beside `binary` into the folder of `output`, but for what is there already.
pub(crate) fn link_others(binary: &Path, output: &Path) -> Result<()> {
    let cannot = || format!("cannot link what lies beside {}", binary.display());
    // Where the program itself sees that it is.
    let original = std::fs::canonicalize(binary).with_context(cannot)?;
    let folder = output.parent().map(std::fs::canonicalize).transpose().with_context(cannot)?;
    let (Some(from), Some(folder)) = (original.parent(), folder) else { return Ok(()) };
    if from == folder {
        return Ok(());
    }
    let mut names: Vec<OsString> = Vec::new();
    for entry in std::fs::read_dir(from).with_context(cannot)? {
        names.push(entry.with_context(cannot)?.file_name());
    }
    for name in names {
        let (old, link) = (from.join(&name), folder.join(&name));
        // The folder may lie beside the program itself.
        if Some(name.as_os_str()) == output.file_name() || old == folder || link.symlink_metadata().is_ok() {
            continue;
        }
        std::os::unix::fs::symlink(&old, &link)
            .with_context(|| format!("cannot link {} to {}", link.display(), old.display()))?;
    }
    Ok(())
}
