//! Whose code something is: the program's, the C library's, the loader's. Told by the names of files and of the functions that they offer.

use super::by_line;
use super::places::{Described, Places};
use crate::traced::Traced;
use relive_analysis::races::{Function, Kind, Runtime};
use relive_trace::process::Origin;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The code of all processes of a trace that is not the program's.
#[derive(Default)]
pub(super) struct Whose {
    processes: HashMap<u32, Code>,
}

#[derive(Default)]
struct Code {
    /// From where to where, and whether it is the loader.
    ranges: Vec<(u64, u64, bool)>,
    entries: HashMap<u64, Function>,
    pauses: HashSet<u64>,
    /// Code that is the program's: from where on, and its bytes.
    program: Vec<(u64, Arc<[u8]>)>,
    /// Its stubs: from where to where.
    stubs: Vec<(u64, u64)>,
    /// What the source says is atomic: from where on, and how much.
    atomics: Vec<(u64, u32)>,
    /// Code of libraries that make variables atomic: from where to where, in order.
    atomic_code: Vec<(u64, u64)>,
}

/// Functions that let time pass.
const PAUSES: [&str; 9] = [
    "usleep",
    "sleep",
    "nanosleep",
    "clock_nanosleep",
    "sched_yield",
    "pthread_yield",
    "thrd_yield",
    "thrd_sleep",
    "poll",
];

impl Whose {
    pub(super) fn new(traced: &Traced<'_>, places: &Places<'_>) -> Self {
        let mut whose = Self::default();
        for process in traced.processes() {
            let code = whose.processes.entry(process.number).or_default();
            for mapping in &process.mappings {
                let Origin::File(path) = &mapping.origin else { continue };
                let owner = owner(path);
                if let Some(is_loader) = owner {
                    code.ranges.push((mapping.start, mapping.end, is_loader));
                }
                let Some((file, bias)) = places.loaded(path, mapping) else { continue };
                let own_runtime = by_line::without_lines(&file, bias);
                let is_runtime = |pc| owner.is_some() || holds(&own_runtime, pc);
                code.add(&file, bias, &is_runtime);
                code.ranges.extend(own_runtime.iter().map(|&(start, end)| (start, end, false)));
                if owner.is_none() {
                    code.atomic_code.extend(by_line::atomic(&file, bias, process, mapping));
                    let pieces = file.code().map(|(start, bytes)| (start.wrapping_add(bias), bytes.into()));
                    code.program.extend(pieces);
                    let stubs = file.stubs().iter();
                    code.stubs
                        .extend(stubs.map(|r| (r.start.0.wrapping_add(bias), r.end.0.wrapping_add(bias))));
                    let atomics = file.lines().atomics();
                    code.atomics
                        .extend(atomics.iter().map(|r| (r.start.0.wrapping_add(bias), r.len() as u32)));
                }
            }
            merge(&mut code.atomic_code);
        }
        whose
    }

    /// What the source says is atomic: in which process, from where on, how much.
    pub(super) fn atomics(&self) -> impl Iterator<Item = (u32, u64, u32)> {
        self.processes
            .iter()
            .flat_map(|(&process, code)| code.atomics.iter().map(move |&(start, len)| (process, start, len)))
    }
}

impl Code {
    fn add(&mut self, file: &Described<'_>, bias: u64, is_runtime: &dyn Fn(u64) -> bool) {
        for (start, _, name) in file.functions() {
            let pc = start.wrapping_add(bias);
            let base = name.split('@').next().unwrap_or(name);
            if PAUSES.contains(&base.trim_start_matches('_')) {
                self.pauses.insert(pc);
            }
            if is_runtime(pc) {
                self.entries.insert(pc, Function::named(base));
            }
        }
    }
}

/// Puts ranges in order, and those together that overlap.
fn merge(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let overlap = next.0 <= last.1;
        if overlap {
            last.1 = last.1.max(next.1);
        }
        overlap
    });
}

/// Whether a place is in one of several ranges, which are in order and do not overlap.
fn holds(ranges: &[(u64, u64)], pc: u64) -> bool {
    let before = ranges.partition_point(|&(start, _)| start <= pc);
    ranges[..before].last().is_some_and(|&(_, end)| pc < end)
}

/// Whether a file is the loader (true) or the C library (false).
fn owner(path: &Path) -> Option<bool> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with("ld-linux") || name.starts_with("ld-2.") {
        return Some(true);
    }
    // The one of musl is both.
    ["libc.so", "libc-2.", "libpthread", "ld-musl"]
        .iter()
        .any(|start| name.starts_with(start))
        .then_some(false)
}

impl Runtime for Whose {
    fn kind(&self, process: u32, pc: u64) -> Kind {
        let Some(code) = self.processes.get(&process) else { return Kind::Program };
        match code.ranges.iter().find(|(start, end, _)| (*start..*end).contains(&pc)) {
            None if code.stubs.iter().any(|(start, end)| (*start..*end).contains(&pc)) => Kind::Stub,
            None => Kind::Program,
            Some((.., true)) => Kind::Loader,
            Some(_) => code.entries.get(&pc).map_or(Kind::Runtime, |&function| Kind::Entry(function)),
        }
    }

    fn is_atomic(&self, process: u32, pc: u64) -> bool {
        self.processes.get(&process).is_some_and(|code| holds(&code.atomic_code, pc))
    }

    fn is_pause(&self, process: u32, target: u64) -> bool {
        self.processes.get(&process).is_some_and(|code| code.pauses.contains(&target))
    }

    fn code(&self, process: u32, pc: u64) -> Option<&[u8]> {
        let pieces = &self.processes.get(&process)?.program;
        pieces.iter().find_map(|(start, bytes)| bytes.get(usize::try_from(pc.checked_sub(*start)?).ok()?..))
    }
}

#[cfg(test)]
mod tests {
    use super::{holds, merge};

    #[test]
    fn ranges() {
        let mut all = vec![(30, 40), (10, 20), (12, 14), (18, 25)];
        merge(&mut all);
        assert_eq!(all, [(10, 25), (30, 40)]);
        assert_eq!(
            [9, 10, 24, 25, 30, 40].map(|pc| holds(&all, pc)),
            [false, true, true, false, true, false]
        );
    }
}
