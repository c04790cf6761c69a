//! What `perf script` prints of samples with branch stacks (`perf record -b`, `-j any,u`).
//!
//! `perf script -F pid,ip,brstack --show-mmap-events --show-task-events` is best; other fields before the branches do no harm. A stack
//! has the latest branch first, each as `0xFROM/0xTO/` and flags. Between two of them everything ran without a branch, from where
//! the earlier one led to where the later one began: that is a stretch. The oldest branch of a stack is left out, for how
//! control came to it is not known: so each stretch is counted with the branch that ended it.
//!
//! Where programs were in memory is told by their mappings (`PERF_RECORD_MMAP2`). Without any the addresses are taken for those
//! of the binary, as they are for programs that are linked for a fixed place.

use super::sampled::Sampled;
use super::{Evidence, Importer};
use crate::error::ImportError;
use crate::surroundings::Surroundings;
use relive_profile::model::Module;
use std::collections::HashMap;
use std::path::Path;

/// The format.
pub(super) struct PerfScript;

impl Importer for PerfScript {
    fn name(&self) -> &'static str {
        "perf-script"
    }

    fn about(&self) -> &'static str {
        "`perf script -F pid,ip,brstack --show-mmap-events --show-task-events` of `perf record -b`"
    }

    fn recognises(&self, start: &str) -> bool {
        start.lines().any(|line| line.contains("PERF_RECORD_MMAP") || stack(line).next().is_some())
    }

    fn read(&self, text: &str, module: &Module, around: &dyn Surroundings) -> Result<Evidence, ImportError> {
        let maps = Maps::read(text, module, around)?;
        let (mut sampled, mut stacks) = (Sampled::default(), 0u64);
        for (line, number) in text.lines().zip(1..) {
            if line.contains("PERF_RECORD_") {
                continue;
            }
            let branches: Vec<Branch> = stack(line).collect::<Result<_, _>>().map_err(|field| {
                ImportError::line(
                    number,
                    format!("{field:?} is no branch: 0xFROM/0xTO/ and flags are expected"),
                )
            })?;
            if branches.is_empty() {
                continue;
            }
            stacks += 1;
            let place = |address| maps.linked(pid(line), address);
            for pair in branches.windows(2) {
                let [later, earlier] = pair else { continue };
                let (from, to) = (place(later.from), place(later.to));
                if let (Some(first), Some(last)) = (place(earlier.to), from)
                    && first <= last
                {
                    sampled.stretch(first, last, 1);
                }
                if let Some(to) = to {
                    sampled.branch(from, to, 1);
                }
            }
        }
        if stacks == 0 {
            let what = "no branch stacks: record with `perf record -b` (or `-j any,u`), on a processor that has them, and \
                        print with `perf script -F pid,ip,brstack`";
            return Err(ImportError::Nothing { what: what.to_string() });
        }
        super::not_nothing(sampled, Vec::new(), module)
    }
}

struct Branch {
    from: u64,
    to: u64,
}

/// The branches of a line, the latest first; a field that looks like one and is none as an error.
fn stack(line: &str) -> impl Iterator<Item = Result<Branch, &str>> {
    line.split_ascii_whitespace().filter(|field| field.starts_with("0x") && field.contains("/0x")).map(
        |field| {
            // A name of the file may follow an address in parentheses.
            let hex = |text: &str| {
                let digits = text.split('(').next().unwrap_or_default().strip_prefix("0x")?;
                u64::from_str_radix(digits, 16).ok()
            };
            let (from, rest) = field.split_once("/0x").ok_or(field)?;
            let to = rest.split(['/', '(']).next().and_then(|digits| u64::from_str_radix(digits, 16).ok());
            Ok(Branch { from: hex(from).ok_or(field)?, to: to.ok_or(field)? })
        },
    )
}

/// The process of a line: the first number in it, or what stands before a slash.
fn pid(line: &str) -> Option<u32> {
    line.split_ascii_whitespace().find_map(|field| field.split('/').next()?.parse().ok())
}

/// Where the program was in the memory of each process.
#[derive(Default)]
struct Maps {
    by_process: HashMap<u32, Vec<Mapping>>,
    /// Whether there are any mappings at all, of whatever file.
    are_told: bool,
}

#[derive(Clone, Copy)]
struct Mapping {
    start: u64,
    end: u64,
    /// What to add to an address in memory to get the one as linked.
    shift: u64,
}

impl Maps {
    fn read(text: &str, module: &Module, around: &dyn Surroundings) -> Result<Self, ImportError> {
        let mut maps = Self::default();
        let name = Path::new(&module.path).file_name();
        for (line, number) in text.lines().zip(1..) {
            if let Some((_, event)) = line.split_once("PERF_RECORD_MMAP") {
                maps.are_told = true;
                let wrong = || ImportError::line(number, "not a mapping as perf prints it");
                let (process, start, len, offset, path) = mapping(event).ok_or_else(wrong)?;
                if Path::new(path).file_name() != name {
                    continue;
                }
                let Some(linked) = around.linked_at(module, offset) else { continue };
                let Some(end) = start.checked_add(len) else { return Err(wrong()) };
                let shift = linked.wrapping_sub(start);
                maps.by_process.entry(process).or_default().push(Mapping { start, end, shift });
            } else if let Some((_, event)) = line.split_once("PERF_RECORD_FORK(") {
                maps.forked(event);
            }
        }
        if maps.are_told && maps.by_process.is_empty() {
            let name = name.unwrap_or_default().to_string_lossy();
            let what =
                format!("no process had {name} in memory; give the binary that ran, under the name it had");
            return Err(ImportError::Nothing { what });
        }
        Ok(maps)
    }

    /// `12:12):(11:11)`: the child has what its parent has.
    fn forked(&mut self, event: &str) {
        let mut numbers = event.split([':', '(', ')']).filter_map(|field| field.parse::<u32>().ok());
        let (Some(child), Some(_), Some(parent)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return;
        };
        if let Some(maps) = self.by_process.get(&parent).cloned() {
            self.by_process.entry(child).or_insert(maps);
        }
    }

    fn linked(&self, process: Option<u32>, address: u64) -> Option<u64> {
        if !self.are_told {
            return Some(address);
        }
        let maps = match process {
            Some(process) => self.by_process.get(&process)?,
            None => self.by_process.values().next()?,
        };
        let map = maps.iter().rev().find(|map| (map.start..map.end).contains(&address))?;
        Some(address.wrapping_add(map.shift))
    }
}

/// `2 12/12: [0x55d0c0de1000(0x2000) @ 0x1000 fd:01 42 0]: r-xp /usr/bin/app`
fn mapping(event: &str) -> Option<(u32, u64, u64, u64, &str)> {
    let event = event.strip_prefix('2').unwrap_or(event).trim_start();
    let (process, rest) = event.split_once('/')?;
    let (_, rest) = rest.split_once('[')?;
    let (range, rest) = rest.split_once(" @ ")?;
    let (start, len) = range.split_once('(')?;
    let (place, rest) = rest.split_once("]: ")?;
    let (_, path) = rest.split_once(' ')?;
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let offset = number(place.split(' ').next()?)?;
    Some((process.parse().ok()?, number(start)?, number(len.trim_end_matches(')'))?, offset, path.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings() {
        let event = "2 812/812: [0x55d0c0de1000(0x2000) @ 0x1000 fd:01 42 0]: r-xp /usr/bin/my app";
        assert_eq!(mapping(event), Some((812, 0x55d0_c0de_1000, 0x2000, 0x1000, "/usr/bin/my app")));
        let event = " 812/813: [0x400000(0x1000) @ 0]: x /bin/x";
        assert_eq!(mapping(event), Some((812, 0x40_0000, 0x1000, 0, "/bin/x")));
        assert_eq!(mapping("2 812/812: nothing"), None);
    }

    #[test]
    fn stacks() {
        let line =
            " 812  401010  0x401010/0x401020/P/-/-/3/COND/- 0x40100f(/bin/x)/0x401000(/bin/x)/M/-/-/1 ";
        let found: Vec<_> = stack(line).map(|b| b.map(|b| (b.from, b.to)).unwrap()).collect();
        assert_eq!(found, [(0x40_1010, 0x40_1020), (0x40_100f, 0x40_1000)]);
        assert_eq!(pid(line), Some(812));
        assert!(stack("0xzz/0x12/P/-/-/0").next().unwrap().is_err());
        assert!(stack("app 12 1.5: cycles: 401000 main+0x0 (/bin/x)").next().is_none());
    }
}
