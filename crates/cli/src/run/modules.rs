//! What was seen of a run, as modules of a profile.

use super::perf_map::PerfMap;
use crate::build::{self, Reading};
use crate::remedy::with_remedy;
use anyhow::Result;
use relive_image::image::Image;
use relive_image::loader::{Loaded, Options};
use relive_image::watch::Watch;
use relive_launch::generated::VERSION;
use relive_launch::seen::{ELSEWHERE, File, Origin, Seen};
use relive_probe::describe::build_id;
use relive_probe::generated::{self, Code};
use relive_probe::observed::{Observed, To};
use relive_profile::model::{Foreign, Module};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How code is called that is in no file.
const KERNEL: &str = "[vdso]";
const GENERATED: &str = "[generated]";

/// Describes what was seen. What files look like is worked out once, however many profiles they are in.
pub(super) struct Describing {
    /// When the command began.
    since: SystemTime,
    /// Whether there will be several profiles.
    is_for_many: bool,
    files: HashMap<PathBuf, Module>,
}

impl Describing {
    /// For a command that began at some time.
    pub(super) fn new(since: SystemTime, is_for_many: bool) -> Self {
        Self { since, is_for_many, files: HashMap::new() }
    }

    /// A module for all code of each origin that somebody wants to see.
    pub(super) fn modules(&mut self, seen: &Seen, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Module>> {
        let ranges = seen.generated.ranges();
        let known: Vec<Option<Known>> =
            seen.files.iter().map(|file| Known::new(&file.origin, seen, &ranges)).collect();
        let mut modules = Vec::new();
        for (number, file) in seen.files.iter().enumerate() {
            let subject = Subject { file, number, known: &known };
            let has_run = !file.straight.is_empty() || !file.uncounted.is_empty();
            let Some(own) = known[number].as_ref().filter(|own| has_run && wanted(&own.foreign.path)) else {
                continue;
            };
            let path = match &file.origin {
                Origin::Generated => {
                    modules.push(subject.of_generated(seen, self.since, &ranges));
                    continue;
                }
                Origin::File(path) => path.as_path(),
                Origin::Kernel => Path::new(KERNEL),
            };
            let mut module = match (self.files.get(path), &file.origin) {
                (Some(module), _) => module.clone(),
                (None, Origin::Kernel) => {
                    let image = Image::parse(&seen.kernel, None).map_err(with_remedy)?;
                    build::from_image(&image, None, &own.foreign.path, &Watch::default(), |m, _| Ok(m))?
                }
                (None, _) => {
                    let reading = Reading { debug_files: true, lines: true };
                    build::from_binary(path, reading, &Watch::default(), |m, _| Ok(m))?
                }
            };
            if self.is_for_many && !self.files.contains_key(path) {
                self.files.insert(path.to_owned(), module.clone());
            }
            subject.observed().fill(&mut module);
            modules.push(module);
        }
        Ok(modules)
    }
}

/// What other modules need to know of a file.
struct Known {
    foreign: Foreign,
    /// Its code: where it is in the file, its length, and where it is linked.
    code: Vec<(u64, u64, u64)>,
}

impl Known {
    /// `None` if it is a file that cannot be read.
    fn new(origin: &Origin, seen: &Seen, ranges: &[(u64, Vec<u8>)]) -> Option<Self> {
        let of = |image: &Image<'_>, path: &Path| {
            let foreign = Foreign { build_id: build_id(image), path: path.to_string_lossy().into_owned() };
            let code = image.elf.segments.iter().filter(|s| s.executable);
            let code = code.map(|s| (s.offset, s.data.len() as u64, s.range.start.0)).collect();
            Self { foreign, code }
        };
        match origin {
            Origin::File(path) => {
                let loaded = Loaded::open(path, &Options { find_debug_file: false, ..Options::default() });
                Some(of(&loaded.ok()?.image().ok()?, path))
            }
            Origin::Kernel => Some(of(&Image::parse(&seen.kernel, None).ok()?, Path::new(KERNEL))),
            Origin::Generated => {
                let foreign = Foreign { build_id: generated::build_id(ranges), path: GENERATED.into() };
                Some(Self { foreign, code: vec![(0, u64::MAX, 0)] })
            }
        }
    }

    fn link_address(&self, offset: u64) -> Option<u64> {
        let holds = |&&(at, len, _): &&(u64, u64, u64)| offset.wrapping_sub(at) < len;
        self.code.iter().find(holds).map(|&(at, _, link)| link + (offset - at))
    }
}

/// A file, and all others.
struct Subject<'a> {
    file: &'a File,
    number: usize,
    known: &'a [Option<Known>],
}

impl Subject<'_> {
    fn link(&self, offset: u64) -> Option<u64> {
        self.known[self.number].as_ref()?.link_address(offset)
    }

    /// The end of code lies behind the last byte of it.
    fn end(&self, offset: u64) -> Option<u64> {
        self.link(offset.checked_sub(1)?).map(|at| at + 1)
    }

    /// A place in any file, as seen from this one.
    fn to(&self, (file, at): (usize, u64)) -> To {
        let to = match &self.known[file] {
            _ if file == self.number => self.link(at).map(To::Own),
            Some(known) => known.link_address(at).map(|at| To::Foreign(known.foreign.clone(), at)),
            None => None,
        };
        to.unwrap_or(To::Generated)
    }

    /// What was seen, by link addresses.
    fn observed(&self) -> Observed {
        let mut observed = Observed::default();
        observed.processes = self.file.processes.len() as u64;
        let straight = self.file.straight.iter();
        let straight = straight.filter_map(|&(from, to, n)| Some((self.link(from)?, self.end(to)?, n)));
        observed.set_straight(straight);
        for (&(from, to), &count) in &self.file.taken {
            if let Some(from) = self.end(from) {
                observed.add_taken(from, self.link(to).unwrap_or(ELSEWHERE), count);
            }
        }
        for (&(site, to), &count) in &self.file.targets {
            if let Some(site) = self.link(site) {
                observed.add_target(site, self.to(to), count);
            }
        }
        let uncounted = self.file.uncounted.iter();
        observed.uncounted =
            uncounted.filter_map(|&(from, to)| Some((self.link(from)?, self.end(to)?))).collect();
        observed
    }

    fn of_generated(&self, seen: &Seen, since: SystemTime, ranges: &[(u64, Vec<u8>)]) -> Module {
        let processes = self.file.processes.iter();
        let names: HashMap<u32, PerfMap> = processes.map(|&p| (p, PerfMap::of(p, since))).collect();
        let name = |at: u64| {
            let (start, name) = names.get(&seen.generated.owner(at)?)?.name(at % VERSION)?;
            let name = match at / VERSION {
                0 => name.to_string(),
                version => format!("{name}#{}", version + 1),
            };
            Some((at - at % VERSION + start, name))
        };
        let others = seen.files.iter().filter(|file| file.origin != Origin::Generated);
        let targets = others.flat_map(|file| file.targets.keys().map(|(_, to)| to));
        let entries: BTreeSet<u64> = targets.filter(|to| to.0 == self.number).map(|to| to.1).collect();
        let straight: Vec<_> = self.file.straight.iter().map(|&(from, to, _)| (from, to)).collect();
        let ways = self.file.ways.iter().map(|(&way, &to)| (way, self.to(to))).collect();
        let code = Code {
            ranges,
            straight: &straight,
            ways,
            entries,
            name: &name,
            changes: &|at| seen.generated.changes(at),
        };
        generated::module(GENERATED, &code, self.observed())
    }
}
