//! LLVM's sample profile, as text: what `clang -fprofile-sample-use` and `llvm-profdata merge --sample` read.
//!
//! For each function, how often each line of it ran, counted from the line of its declaration; what was inlined has lines of
//! its own below the line of the call. `name:total:entries`, then ` offset.discriminator: count callee:count`. See
//! `llvm/include/llvm/ProfileData/SampleProfReader.h` in LLVM's sources.
//!
//! A line counts as often as that of its blocks that ran most often: it is one statement, in several pieces. Copies that the compiler
//! made of a loop's body say how many there are (the duplication factor in the discriminator), and count that many times. Copies of
//! a whole function add up.

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::surroundings::{Level, Surroundings};
use relive_code::addr::LinkAddr;
use relive_code::isa::Decode;
use relive_profile::model::{Callee, Count, Function, Module, Profile, State, Target};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// The format.
pub(super) struct LlvmSample;

impl Exporter for LlvmSample {
    fn name(&self) -> &'static str {
        "llvm-sample"
    }

    fn about(&self) -> &'static str {
        "counts of source lines for `clang -fprofile-sample-use=FILE`; needs debug information"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let mut all: BTreeMap<String, Samples> = BTreeMap::new();
        let (mut told, mut without_lines) = (0u64, 0u64);
        for module in &profile.modules {
            for function in module.functions.iter().filter(|f| f.state == State::Measured) {
                if function.executed_insns() == 0 {
                    let name = without_suffix(module.name(function));
                    if is_name(name) {
                        all.entry(name.to_string()).or_default();
                    }
                    continue;
                }
                match Samples::of(profile, module, function, around) {
                    Some((name, samples)) if is_name(&name) => {
                        told += 1;
                        all.entry(name).or_default().add(samples);
                    }
                    _ => without_lines += 1,
                }
            }
        }
        if told == 0 {
            return Err(ExportError::Missing {
                format: self.name(),
                module: profile.modules.first().map(|module| module.path.clone()).unwrap_or_default(),
                needs: "debug information (clang -gline-tables-only -fdebug-info-for-profiling) of functions that ran"
                    .to_string(),
            });
        }
        for (name, samples) in &all {
            writeln!(out, "{name}:{}:{}", samples.total(), samples.entries)?;
            samples.write(1, out)?;
        }
        let mut notes = Vec::new();
        if without_lines > 0 {
            notes.push(format!(
                "{without_lines} functions that ran have no debug information, and are left out"
            ));
        }
        let never = all.values().filter(|samples| samples.lines.is_empty() && samples.inlined.is_empty());
        Ok(Summary { written: vec![("functions", told), ("that never ran", never.count() as u64)], notes })
    }
}

/// Names with other characters would break the text.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "?" && !name.contains(|c: char| c == ':' || c.is_whitespace())
}

/// Parts and clones of a function are that function: its source is the same.
fn without_suffix(name: &str) -> &str {
    const SUFFIXES: [&str; 5] = [".cold", ".part.", ".llvm.", ".constprop.", ".isra."];
    // `printf@plt`, `memcpy@GLIBC_2.14`
    let name = name.split('@').next().unwrap_or_default();
    let end = SUFFIXES.iter().filter_map(|suffix| name.find(suffix)).min();
    &name[..end.unwrap_or(name.len())]
}

/// A place in a function: lines from its declaration, and what tells code of that line apart.
type Offset = (u32, u32);

/// What is known of a function, or of one that was inlined.
#[derive(Default)]
struct Samples {
    entries: u64,
    lines: BTreeMap<Offset, Line>,
    inlined: BTreeMap<Offset, BTreeMap<String, Samples>>,
}

#[derive(Default)]
struct Line {
    count: u64,
    callees: BTreeMap<String, u64>,
}

impl Samples {
    /// Of a function that ran: its name, and what its lines did. Nothing if there is no debug information.
    fn of(
        profile: &Profile,
        module: &Module,
        function: &Function,
        around: &dyn Surroundings,
    ) -> Option<(String, Self)> {
        let mut name = None;
        let mut samples = Self { entries: function.entries().map_or(0, Count::value), ..Self::default() };
        let calls: HashMap<u64, _> = function.calls.iter().map(|call| (call.address, call)).collect();
        for block in &function.blocks {
            let Some(count) = block.count.map(Count::value) else { continue };
            let Some(code) = function.bytes_at(block.address, block.size.into()) else { continue };
            for insn in Decode::new(code, LinkAddr(block.address)) {
                let at = insn.addr().0;
                let levels = around.levels(module, at);
                let Some(outermost) = levels.last() else { continue };
                name.get_or_insert_with(|| outermost.function.to_string());
                let Some((line, copies)) = samples.line(&levels) else { continue };
                line.count = line.count.max(count.saturating_mul(copies));
                if let Some(call) = calls.get(&at) {
                    let made = module.call_count(function, call).map_or(0, Count::value);
                    callees(profile, module, call.callee, made, &mut line.callees);
                }
            }
        }
        Some((name?, samples))
    }

    /// The line of an instruction, in what was inlined if it is of that; and how many copies of it there are.
    fn line(&mut self, levels: &[Level<'_>]) -> Option<(&mut Line, u64)> {
        let (innermost, around) = levels.split_first()?;
        let mut samples = self;
        let mut callees = levels.iter().rev().skip(1);
        for level in around.iter().rev() {
            let callee = callees.next()?.function;
            if !is_name(callee) {
                return None;
            }
            samples =
                samples.inlined.entry(offset(level)?).or_default().entry(callee.to_string()).or_default();
        }
        let copies = u64::from(copies(innermost.discriminator));
        Some((samples.lines.entry(offset(innermost)?).or_default(), copies))
    }

    fn add(&mut self, other: Self) {
        self.entries = self.entries.saturating_add(other.entries);
        for (offset, line) in other.lines {
            let own = self.lines.entry(offset).or_default();
            own.count = own.count.saturating_add(line.count);
            for (name, count) in line.callees {
                let sum = own.callees.entry(name).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        for (offset, callees) in other.inlined {
            for (name, samples) in callees {
                self.inlined.entry(offset).or_default().entry(name).or_default().add(samples);
            }
        }
    }

    fn total(&self) -> u64 {
        let lines = self.lines.values().map(|line| line.count);
        let inlined = self.inlined.values().flat_map(|callees| callees.values().map(Self::total));
        lines.chain(inlined).fold(0, u64::saturating_add)
    }

    /// Lines are indented by a space for each level.
    fn write(&self, depth: usize, out: &mut dyn Write) -> io::Result<()> {
        for (&offset, line) in &self.lines {
            write!(out, "{:depth$}{}: {}", "", written(offset), line.count)?;
            for (name, count) in line.callees.iter().filter(|&(_, &count)| count > 0) {
                write!(out, " {name}:{count}")?;
            }
            writeln!(out)?;
        }
        for (&offset, callees) in &self.inlined {
            for (name, samples) in callees {
                writeln!(out, "{:depth$}{}: {name}:{}", "", written(offset), samples.total())?;
                samples.write(depth + 1, out)?;
            }
        }
        Ok(())
    }
}

/// What a call led to, by name, and how often.
fn callees(profile: &Profile, module: &Module, callee: Callee, made: u64, found: &mut BTreeMap<String, u64>) {
    let mut add = |name: &str, count: u64| {
        let name = without_suffix(name);
        if is_name(name) {
            let sum = found.entry(name.to_string()).or_default();
            *sum = sum.saturating_add(count);
        }
    };
    match callee {
        Callee::Direct { .. } | Callee::Import { .. } => add(module.callee_name(callee).unwrap_or("?"), made),
        Callee::Indirect { .. } => {
            for target in module.targets(callee).iter().filter(|target| target.target != Target::Generated) {
                add(profile.target_name(module, target.target).unwrap_or("?"), target.count);
            }
        }
    }
}

/// Nothing if the line is not known, or not where the function is declared.
fn offset(level: &Level<'_>) -> Option<Offset> {
    (level.line > 0 && level.declared > 0)
        .then(|| (level.line.wrapping_sub(level.declared) & 0xffff, base(level.discriminator)))
}

fn written((line, discriminator): Offset) -> String {
    if discriminator == 0 { line.to_string() } else { format!("{line}.{discriminator}") }
}

/// LLVM packs three numbers into a discriminator, each in 1, 7 or 14 bits: what tells code apart that the source has once, how many
/// copies were made of it, and which of them it is (`DILocation::decodeDiscriminator`).
fn base(discriminator: u32) -> u32 {
    unpacked(discriminator)
}

fn copies(discriminator: u32) -> u32 {
    let next = match discriminator {
        d if d & 1 != 0 => d >> 1,
        d if d & 0x40 != 0 => d >> 14,
        d => d >> 7,
    };
    unpacked(next).max(1)
}

fn unpacked(number: u32) -> u32 {
    if number & 1 != 0 {
        return 0;
    }
    let number = number >> 1;
    if number & 0x20 != 0 { (number >> 1 & 0xfe0) | (number & 0x1f) } else { number & 0x1f }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discriminators_as_llvm_packs_them() {
        // Base 2 alone; base 3 with four copies; no base, two copies (DebugInfoMetadata's own encoding).
        assert_eq!((base(4), copies(4)), (2, 1));
        assert_eq!((base(6 | 8 << 7), copies(6 | 8 << 7)), (3, 4));
        assert_eq!((base(1 | 4 << 1), copies(1 | 4 << 1)), (0, 2));
        assert_eq!((base(0), copies(0)), (0, 1));
        // 40 takes 14 bits: the lower five, a mark, then the rest.
        assert_eq!(base((8 | 0x20 | 1 << 6) << 1), 40);
    }

    #[test]
    fn what_was_inlined_is_below_the_call() {
        let level = |function, declared, line| Level { function, declared, line, discriminator: 0 };
        let mut samples = Samples { entries: 7, ..Samples::default() };
        let mut count = |levels: &[Level<'_>], count| samples.line(levels).expect("known").0.count = count;
        count(&[level("main", 10, 12)], 100);
        count(&[level("inner", 3, 4), level("middle", 6, 7), level("main", 10, 15)], 40);
        let mut out = Vec::new();
        samples.write(1, &mut out).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, " 2: 100\n 5: middle:40\n  1: inner:40\n   1: 40\n");
        assert_eq!(samples.total(), 140);
    }
}
