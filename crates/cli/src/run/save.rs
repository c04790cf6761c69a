//! Writes down what was seen of a run: one profile, or one for each process.

use super::exempt::Except;
use super::modules::Describing;
use crate::output::{grouped, write_to};
use anyhow::Result;
use clap::Args as ClapArgs;
use relive_launch::seen::Seen;
use relive_profile::file;
use relive_profile::model::Profile;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What goes into profiles.
#[derive(ClapArgs)]
pub(crate) struct Describe {
    /// Only files whose path matches: * is anything, ? one character; can be given several times
    #[arg(long, value_name = "GLOB")]
    pub(crate) modules: Vec<String>,

    /// A profile for each process: NAME.rprof becomes NAME.1.rprof, NAME.2.rprof and so on, in the order in which they
    /// began. A process that executes another program counts as a new one
    #[arg(long)]
    pub(crate) per_process: bool,

    /// Describe all code of large files too, also functions that never ran: takes a second for 10 MiB of code. Otherwise
    /// files with more than 16 MiB of code are described as far as they were executed
    #[arg(long)]
    pub(crate) all_code: bool,
}

/// Writes one profile, or one for each process.
///
/// The command began at some time; files that were executed and are something else now are left out, and so are functions that were not
/// to be measured.
pub(crate) fn save_all(
    describe: &Describe,
    output: &Path,
    seen: &BTreeMap<u32, Seen>,
    since: SystemTime,
    changed: HashSet<PathBuf>,
    except: Except,
) -> Result<()> {
    let mut describing = Describing::new(since, describe.per_process, describe.all_code, changed, except);
    for (&number, seen) in seen {
        let output = if number == 0 { output.to_owned() } else { numbered(output, number) };
        save(describe, &output, seen, &mut describing)?;
    }
    describing.except.warn();
    Ok(())
}

/// A name with a number before its ending.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

fn save(describe: &Describe, output: &Path, seen: &Seen, describing: &mut Describing) -> Result<()> {
    let globs = &describe.modules;
    let wanted = |path: &str| globs.is_empty() || globs.iter().any(|glob| matches(glob, path));
    let profile = Profile { modules: describing.modules(seen, &wanted)? };
    if seen.lost > 0 {
        eprintln!(
            "relive: warning: {} pieces of code ran without being counted, as there were no counters left; \
             functions concerned are marked in the profile",
            grouped(seen.lost)
        );
    }
    write_to(Some(output), |out| Ok(out.write_all(&file::write(&profile))?))
}

/// Whether a path looks like that.
fn matches(glob: &str, path: &str) -> bool {
    let mut rest = glob.chars();
    match rest.next() {
        None => path.is_empty(),
        Some('*') => {
            let ends = path.char_indices().map(|(at, _)| at).chain([path.len()]);
            ends.into_iter().any(|at| matches(rest.as_str(), &path[at..]))
        }
        Some(wanted) => {
            let mut path = path.chars();
            path.next().is_some_and(|c| wanted == '?' || c == wanted) && matches(rest.as_str(), path.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, numbered};
    use std::path::Path;

    #[test]
    fn numbers_in_names() {
        assert_eq!(numbered(Path::new("a/b.rprof"), 2), Path::new("a/b.2.rprof"));
        assert_eq!(numbered(Path::new("b"), 10), Path::new("b.10"));
    }

    #[test]
    fn globs() {
        assert!(matches("*/libc.so*", "/usr/lib/libc.so.6"));
        assert!(matches("*", ""));
        assert!(matches("/bin/?s", "/bin/ls"));
        assert!(!matches("/bin/?s", "/bin/cat"));
        assert!(!matches("libc.so", "/usr/lib/libc.so.6"));
    }
}
