//! What was seen of a run, as modules of a profile.

use super::exempt::Except;
use super::perf_map::PerfMap;
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::elf::Elf;
use relive_image::identity::Identity;
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_image::program::{Executed, analyze, analyze_executed};
use relive_image::watch::Watch;
use relive_launch::generated::VERSION;
use relive_launch::seen::{ELSEWHERE, File, Origin, Place, Seen};
use relive_probe::describe::build_id;
use relive_probe::generated::{self, Code};
use relive_probe::observed::{Observed, To};
use relive_probe::survey::Survey;
use relive_profile::model::{Foreign, Module};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How code is called that is in no file.
const KERNEL: &str = "[vdso]";
const GENERATED: &str = "[generated]";

/// A file with so many bytes of code is described as far as it was executed: all of it would take longer than most runs of
/// it, a second for 10 MiB.
const LARGE: u64 = 16 << 20;

/// Describes what was seen. What files look like is worked out once, however many profiles they are in.
pub(super) struct Describing {
    /// When the command began.
    since: SystemTime,
    /// Whether there will be several profiles.
    is_for_many: bool,
    /// Whether to describe all code of large files too.
    all_code: bool,
    /// Files that are not what was executed any more.
    changed: HashSet<PathBuf>,
    /// What was not to be measured.
    pub(super) except: Except,
    files: HashMap<PathBuf, Module>,
}

impl Describing {
    /// For a command that began at some time. Some files have changed since.
    pub(super) fn new(
        since: SystemTime,
        is_for_many: bool,
        all_code: bool,
        changed: HashSet<PathBuf>,
        except: Except,
    ) -> Self {
        Self { since, is_for_many, all_code, changed, except, files: HashMap::new() }
    }

    /// A module for all code of each origin that somebody wants to see.
    pub(super) fn modules(&mut self, seen: &Seen, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Module>> {
        let ranges = seen.generated.ranges();
        let is_changed =
            |origin: &Origin| matches!(origin, Origin::File(path) if self.changed.contains(path));
        let known = |file: &File| match is_changed(&file.origin) {
            true => None,
            false => Known::new(&file.origin, seen, &ranges),
        };
        let known: Vec<Option<Known>> = seen.files.iter().map(known).collect();
        let mut modules = Vec::new();
        for (number, file) in seen.files.iter().enumerate() {
            let subject = Subject { file, number, known: &known, seen };
            let has_run = !file.straight.is_empty() || !file.uncounted.is_empty() || file.has_exempt;
            let Some(own) = known[number].as_ref().filter(|own| has_run && wanted(&own.foreign.path)) else {
                continue;
            };
            let mut module = match &file.origin {
                Origin::Generated => {
                    modules.push(subject.of_generated(self.since, &ranges));
                    continue;
                }
                Origin::File(path) => self.of_file(path, &subject)?,
                Origin::Kernel => {
                    let image = Image::parse(&seen.kernel, None).map_err(with_remedy)?;
                    let program = analyze(&image);
                    Survey::new(&image, &program).module(None, &own.foreign.path, &Watch::default())
                }
            };
            self.except.mark(&mut module);
            subject.observed().fill(&mut module);
            modules.push(module);
        }
        Ok(modules)
    }

    /// Describes a file; nothing is counted yet.
    fn of_file(&mut self, path: &Path, subject: &Subject<'_>) -> Result<Module> {
        if let Some(module) = self.files.get(path) {
            return Ok(module.clone());
        }
        let loaded = Loaded::open(path, &Options::default()).map_err(with_remedy)?;
        let image = loaded.image().map_err(with_remedy).with_context(|| path.display().to_string())?;
        let is_large = image.elf.text.iter().map(AddrRange::len).sum::<u64>() > LARGE;
        let watch = Watch::default();
        let program = if is_large && !self.all_code {
            analyze_executed(&image, &subject.executed(&image.elf), &watch)
        } else {
            analyze(&image)
        };
        let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let lines = Lines::new(&loaded);
        let module = Survey::new(&image, &program).module(Some(&lines), &place.to_string_lossy(), &watch);
        // What was executed differs from process to process.
        if self.is_for_many && (!is_large || self.all_code) {
            self.files.insert(path.to_owned(), module.clone());
        }
        Ok(module)
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
        let of = |elf: &Elf<'_>, path: &Path| {
            let build_id = build_id(elf, &Identity::read(elf));
            let foreign = Foreign { build_id, path: path.to_string_lossy().into_owned() };
            let code = elf.segments.iter().filter(|s| s.executable);
            let code = code.map(|s| (s.offset, s.data.len() as u64, s.range.start.0)).collect();
            Self { foreign, code }
        };
        match origin {
            Origin::File(path) => {
                let loaded = Loaded::open(path, &Options { find_debug_file: false, ..Options::default() });
                Some(of(&Elf::parse(&loaded.ok()?.bytes).ok()?, path))
            }
            Origin::Kernel => Some(of(&Elf::parse(&seen.kernel).ok()?, Path::new(KERNEL))),
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
    seen: &'a Seen,
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

    /// What was executed, and where it was entered.
    fn executed(&self, elf: &Elf<'_>) -> Executed {
        let straight = self.file.straight.iter().map(|&(from, to, _)| (from, to));
        let straight = straight.chain(self.file.uncounted.iter().copied());
        let straight = straight.filter_map(|(from, to)| {
            Some(AddrRange::new(LinkAddr(self.link(from)?), LinkAddr(self.end(to)?)))
        });
        let own = |to: &Place| if to.0 == self.number { self.link(to.1).map(LinkAddr) } else { None };
        let mut computed: HashMap<LinkAddr, Vec<LinkAddr>> = HashMap::new();
        for (site, to) in self.file.targets.keys() {
            if let (Some(site), Some(to)) = (self.link(*site), own(to)) {
                computed.entry(LinkAddr(site)).or_default().push(to);
            }
        }
        let others = self.seen.files.iter().zip(0..).filter(|(_, number)| *number != self.number);
        let entered =
            others.flat_map(|(file, _)| file.targets.keys().map(|(_, to)| to).chain(file.ways.values()));
        Executed::new(elf, straight, &computed, entered.filter_map(own))
    }

    fn of_generated(&self, since: SystemTime, ranges: &[(u64, Vec<u8>)]) -> Module {
        let seen = self.seen;
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
