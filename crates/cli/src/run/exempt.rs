//! `relive run --except`: functions that need not be measured, as plans tell, and where their code is in files.

use crate::plan;
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, bail};
use relive_abi::engine::{Exempt, MOST_EXEMPT, file_mark};
use relive_image::elf::Elf;
use relive_image::image::Image;
use relive_image::loader::{Loaded, Options};
use relive_image::program::analyze;
use relive_migrate::reprofile::plan::Plan;
use relive_probe::describe::build_id;
use relive_profile::model::{Module, State};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What need not be measured.
#[derive(Default)]
pub(crate) struct Except {
    /// Stretches of files.
    pub(crate) code: Vec<Exempt>,
    /// By build, addresses of functions.
    builds: HashMap<Vec<u8>, HashSet<u64>>,
    /// Builds that were executed.
    executed: HashSet<Vec<u8>>,
}

impl Except {
    /// Reads plans. The build that one is for is where the plan says, or it is what is executed.
    pub(super) fn read(plans: &[PathBuf], command: &[OsString]) -> Result<Self> {
        let mut except = Self::default();
        for path in plans {
            let plan = plan::open(path)?;
            except.add(&plan, command).with_context(|| path.display().to_string())?;
        }
        except.code.sort_unstable();
        if except.code.len() > MOST_EXEMPT {
            bail!(
                "--except: {} stretches of code, more than the {MOST_EXEMPT} that can be left out; use `relive instrument --except`",
                except.code.len()
            );
        }
        Ok(except)
    }

    fn add(&mut self, plan: &Plan, command: &[OsString]) -> Result<()> {
        let places = [Some(PathBuf::from(&plan.new.path)), command.first().and_then(|first| program(first))];
        let mut found: Vec<PathBuf> = Vec::new();
        for place in places.into_iter().flatten() {
            let Ok(place) = std::fs::canonicalize(place) else { continue };
            if found.contains(&place) {
                continue;
            }
            let options = Options { find_debug_file: false, ..Options::default() };
            let Ok(loaded) = Loaded::open(&place, &options) else { continue };
            let image = loaded.image().map_err(with_remedy).with_context(|| place.display().to_string())?;
            let id = build_id(&image.elf, &image.identity);
            if plan.check(&id).is_err() {
                continue;
            }
            self.add_file(&place, &image, plan)?;
            self.builds.entry(id).or_default().extend(plan.exempt_addresses());
            found.push(place);
        }
        if found.is_empty() {
            bail!(
                "it is for build {}, which is neither {} nor the program of the command; make a plan for what is to be run \
                 (`relive migrate --to … --plan …`)",
                plan.new.build_id,
                plan.new.path
            );
        }
        Ok(())
    }

    /// The code of exempt functions of a file.
    fn add_file(&mut self, path: &Path, image: &Image<'_>, plan: &Plan) -> Result<()> {
        let inode = std::fs::metadata(path).with_context(|| path.display().to_string())?.ino();
        let file = file_mark(path.as_os_str().as_bytes(), inode.to_string().as_bytes());
        let exempt: HashSet<u64> = plan.exempt_addresses().into_iter().collect();
        let program = analyze(image);
        let mut pieces: Vec<(u64, u64, bool)> = Vec::new();
        for function in &program.functions {
            let is_exempt = exempt.contains(&function.entry.0);
            pieces.extend(function.cfg.pieces.iter().map(|p| (p.start.0, p.end.0, is_exempt)));
        }
        for (start, end) in stretches(pieces) {
            self.code.extend(offsets(&image.elf, start, end).map(|(start, end)| Exempt { file, start, end }));
        }
        Ok(())
    }

    /// Takes exempt functions of a module out of what was measured.
    pub(super) fn mark(&mut self, module: &mut Module) {
        let Some(exempt) = self.builds.get(&module.build_id) else { return };
        self.executed.insert(module.build_id.clone());
        let reason = module.texts.intern(REASON);
        for function in module.functions.iter_mut().filter(|f| exempt.contains(&f.address)) {
            function.state = State::NotMeasured { reason };
        }
    }

    /// Says so if something that a plan is for was not executed.
    pub(super) fn warn(&self) {
        for id in self.builds.keys().filter(|id| !self.executed.contains(*id)) {
            let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!(
                "relive: warning: --except: build {id} was not executed, so nothing of it is in the profile"
            );
        }
    }
}

/// As profiles have it.
const REASON: &str = "exempted by a plan";

/// Stretches of code of which all is exempt: pieces that follow each other are one, with what fills the gap between them. Code that
/// belongs to another function as well is not in any.
fn stretches(mut pieces: Vec<(u64, u64, bool)>) -> Vec<(u64, u64)> {
    pieces.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    // Up to where code is wanted.
    let (mut wanted, mut joins) = (0, false);
    for (start, end, is_exempt) in pieces {
        if !is_exempt {
            wanted = wanted.max(end);
            if let Some(last) = out.last_mut().filter(|last| last.1 > start) {
                last.1 = start.max(last.0);
            }
            joins = false;
        } else if end > wanted {
            match out.last_mut().filter(|_| joins) {
                Some(last) => last.1 = last.1.max(end),
                None => out.push((start.max(wanted), end)),
            }
            joins = true;
        }
    }
    out.retain(|(start, end)| start < end);
    out
}

/// Where linked code is in the file.
fn offsets<'e>(elf: &'e Elf<'_>, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + 'e {
    elf.segments.iter().filter(|segment| segment.executable).filter_map(move |segment| {
        let from = start.max(segment.range.start.0);
        let to = end.min(segment.range.end.0);
        let at = |address: u64| address - segment.range.start.0 + segment.offset;
        (from < to).then(|| (at(from), at(to)))
    })
}

/// The file that is executed as a command of that name.
fn program(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::stretches;

    #[test]
    fn neighbours_are_one_stretch() {
        let all = vec![(0x30, 0x40, true), (0x10, 0x1c, true), (0x20, 0x2c, true), (0x50, 0x60, false)];
        assert_eq!(stretches(all), [(0x10, 0x40)]);
        assert_eq!(
            stretches(vec![(0x10, 0x20, true), (0x20, 0x30, false), (0x30, 0x40, true)]),
            [(0x10, 0x20), (0x30, 0x40)]
        );
    }

    #[test]
    fn what_is_shared_is_wanted() {
        assert_eq!(stretches(vec![(0x10, 0x30, true), (0x20, 0x40, false)]), [(0x10, 0x20)]);
        assert_eq!(stretches(vec![(0x10, 0x30, false), (0x20, 0x40, true)]), [(0x30, 0x40)]);
        assert_eq!(stretches(vec![(0x10, 0x40, false), (0x20, 0x30, true)]), []);
    }
}
