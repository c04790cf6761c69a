//! Where results go: standard output, or a file that appears only once it is complete.

use anyhow::{Result, bail};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Runs `print` on standard output, or on `file`.
pub(crate) fn write_to(file: Option<&Path>, print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let Some(file) = file else {
        let mut out = BufWriter::new(io::stdout().lock());
        let written = print(&mut out).and_then(|()| Ok(out.flush()?));
        return written.map_err(|error| blame(error, None));
    };
    if file.is_dir() {
        bail!("cannot write {}: it is a folder; name a file in it", file.display());
    }
    if is_open_ended(file) {
        return write_into(file, print).map_err(|error| blame(error, Some(file)));
    }
    let place = behind_links(file);
    let beside = beside(&place);
    let written = write_new(&beside, print)
        .and_then(|()| std::fs::rename(&beside, &place).map_err(Into::into))
        .map_err(|error| blame(error, Some(file)));
    if written.is_err() {
        // Nothing half-written stays behind; that it cannot be removed either is no news.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Whether a file is there that takes what is written to it and must not be replaced: a device, a pipe.
fn is_open_ended(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// The file that a link leads to: the link stays.
fn behind_links(file: &Path) -> PathBuf {
    let is_link = std::fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink());
    is_link.then(|| file.canonicalize().ok()).flatten().unwrap_or_else(|| file.to_path_buf())
}

fn write_into(file: &Path, print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut out = BufWriter::new(File::options().write(true).open(file)?);
    print(&mut out)?;
    Ok(out.flush()?)
}

/// What the system says without naming a file is about the one that is written, or standard output. Everything else that goes wrong
/// meanwhile has a reason of its own.
fn blame(error: anyhow::Error, file: Option<&Path>) -> anyhow::Error {
    let first = error.chain().next().and_then(|first| first.downcast_ref::<io::Error>());
    let Some(system) = first else { return error };
    let advice = match system.kind() {
        io::ErrorKind::NotFound => "is the folder there?",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "may you write there?",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room, or name another place",
        _ => "is the folder there, and writable?",
    };
    let what = file.map_or("cannot write to standard output".to_string(), |file| {
        format!("cannot write {}: {advice}", file.display())
    });
    error.context(what)
}

fn write_new(path: &Path, print: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    print(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok(())
}

/// A name in the same folder, so that renaming cannot cross file systems.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    file.with_file_name(name)
}

/// A file that is written bit by bit, and stands under its name as soon as something is sure to come of it. What was there stays until then.
pub(crate) struct Begun {
    place: PathBuf,
    /// Where it is so far.
    beside: Option<PathBuf>,
}

impl Begun {
    /// Begins a file.
    pub(crate) fn create(file: &Path) -> io::Result<(File, Self)> {
        if is_open_ended(file) {
            let place = file.to_path_buf();
            return Ok((File::options().write(true).open(file)?, Self { place, beside: None }));
        }
        if file.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let place = behind_links(file);
        let beside = beside(&place);
        Ok((File::create(&beside)?, Self { place, beside: Some(beside) }))
    }

    /// Something will come of it.
    pub(crate) fn appear(&mut self) -> io::Result<()> {
        self.beside.take().map_or(Ok(()), |beside| std::fs::rename(beside, &self.place))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // Nothing half-written stays behind; that it cannot be removed either is no news.
            let _ = std::fs::remove_file(beside);
        }
    }
}

/// The command did its work and found something wrong: exit status 1, not 2.
#[derive(Debug)]
pub(crate) struct Finding(pub(crate) String);

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Finding {}

/// Whether the reader of our output went away: not our business.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}

/// A number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// That many of them.
pub(crate) fn several(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{} {what}s", grouped(number)) }
}

/// A share in per cent: never rounded up to 100 unless it is all.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 || part == whole {
        return "100 %".to_string();
    }
    let hundredths = part as u128 * 10_000 / u128::from(whole);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// The same for a share that was worked out already; `-` if it is not known.
pub(crate) fn percent_of(share: Option<f64>) -> String {
    match share {
        None => "-".to_string(),
        Some(share) if share >= 1.0 => "100 %".to_string(),
        // What is a whole number of hundredths may be a trifle below.
        Some(share) => format!("{:.2} %", ((share * 10_000.0 + 1e-6).floor() / 100.0).min(99.99)),
    }
}

/// Text that cannot break a table, whatever a symbol is called.
pub(crate) fn field(text: &str) -> Cow<'_, str> {
    if text.contains(|c: char| c.is_control()) {
        text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>().into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn nearly_all_is_not_all() {
        assert_eq!(percent(99_999_999, 100_000_000), "99.99 %");
        assert_eq!(percent(5, 5), "100 %");
        assert_eq!(percent(0, 5), "0.00 %");
        assert_eq!(percent(0, 0), "100 %");
        let shares = [0.0, 0.5, 0.9987, 0.123_456, 1.0 - 1e-9, 1.0].map(Some).map(percent_of);
        assert_eq!(shares, ["0.00 %", "50.00 %", "99.87 %", "12.34 %", "99.99 %", "100 %"]);
        assert_eq!(percent_of(None), "-");
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let file = folder.path().join("out");
        assert!(write_to(Some(&file), |_| anyhow::bail!("no")).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
        write_to(Some(&file), |out| Ok(out.write_all(b"yes")?)).expect("written");
        assert_eq!(std::fs::read(&file).expect("there"), b"yes");
    }

    /// Whoever is root would replace `/dev/null` for everyone.
    #[test]
    fn devices_are_written_to_and_links_stay() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let null = folder.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).expect("linked");
        write_to(Some(&null), |out| Ok(out.write_all(b"gone")?)).expect("written");
        let found = std::fs::metadata(&null).expect("there");
        assert!(!found.is_file());

        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, b"old").expect("written");
        std::os::unix::fs::symlink("file", &link).expect("linked");
        write_to(Some(&link), |out| Ok(out.write_all(b"new")?)).expect("written");
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(std::fs::read(&file).expect("there"), b"new");

        // A device that takes nothing.
        let full = write_to(Some(Path::new("/dev/full")), |out| Ok(out.write_all(b"x")?));
        assert!(full.is_err_and(
            |error| error.to_string() == "cannot write /dev/full: make room, or name another place"
        ));

        let inside = write_to(Some(folder.path()), |out| Ok(out.write_all(b"x")?));
        assert!(inside.is_err_and(|error| error.to_string().ends_with("it is a folder; name a file in it")));
        let nowhere = write_to(Some(&folder.path().join("no/file")), |_| Ok(()));
        assert!(nowhere.is_err_and(|error| error.to_string().ends_with("is the folder there?")));
    }
}
