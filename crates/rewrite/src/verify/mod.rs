//! Checks a rewritten file against the one it was made from.
//!
//! The new file is read like any other, and every measured function is walked twice in step, in its old code
//! and in its new: from each entry through the detour and the gate, block by block. The new code must be the
//! old plus code of known forms that touches nothing live; it must be unwound alike and throw alike; and
//! every counter must count what the plan says. Nothing here is shared with what emits code, but for the
//! plan itself.

mod counts;
mod file;
mod shapes;
mod tables;
mod walk;

use crate::module::Outline;
use crate::prepared::Linked;
use crate::runtime::{Home, Runtime};
use rayon::prelude::*;
use relive_abi::counters::{key_offset, slot_offset, way_offset};
use relive_abi::parameters::Parameters;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Flow, Insn};
use relive_image::error::ImageError;
use relive_image::image::Image;
use relive_image::program::Program;
use relive_image::program::needs::Needs;
use relive_probe::describe::{Fate, Measured};
use std::collections::HashMap;
use std::fmt;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The function; empty if it concerns the file.
    pub function: String,
    /// Where in the old code.
    pub old: LinkAddr,
    /// Where in the new file.
    pub new: LinkAddr,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.function.is_empty() { "the file" } else { &self.function };
        write!(f, "{name}: old {}, new {}: {}", self.old, self.new, self.what)
    }
}

/// What was checked and found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Functions that were walked.
    pub functions: u64,
    /// Instructions that were compared.
    pub insns: u64,
    /// Increments of counters that were looked at.
    pub probes: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// What everybody who checks needs to know.
struct World<'a, 'd> {
    old: &'a Image<'d>,
    new: &'a Image<'d>,
    program: &'a Program<'d>,
    outline: &'a Outline,
    /// The new code.
    code: AddrRange,
    /// The first thread's area.
    area: AddrRange,
    /// `relive_enter`.
    enter: LinkAddr,
    /// `relive_call`.
    call: LinkAddr,
    /// What the runtime of a prepared binary is told.
    told: Option<AddrRange>,
    /// What functions read and change.
    needs: Needs<'a, 'd>,
    /// Where functions are entered that were entered at that old address.
    entries: HashMap<LinkAddr, LinkAddr>,
    /// Functions of the new code in its symbol table: address, length, name.
    symbols: Vec<(LinkAddr, u64, &'a str)>,
}

/// Checks the file in `bytes` against `image`, from which it was made with `runtime` inside.
///
/// # Errors
/// If the new file cannot be read at all.
pub fn verify<'d>(
    image: &Image<'d>,
    program: &Program<'d>,
    outline: &Outline,
    runtime: &[u8],
    bytes: &'d [u8],
) -> Result<Report, ImageError> {
    let new = Image::parse(bytes, None)?;
    let mut report = Report::default();
    let complaint = |old, what: String| Finding { function: String::new(), old, new: old, what };
    for complained in &new.complaints {
        if !image.complaints.iter().any(|c| c.to_string() == complained.to_string()) {
            report.findings.push(complaint(LinkAddr(0), complained.to_string()));
        }
    }
    let linked = Linked::find(image, runtime).and_then(Result::ok);
    let section = |name: &str| new.elf.section(name).map(|s| s.range);
    let copies = new.elf.sections.iter().filter(|s| s.name.starts_with(".relive.runtime"));
    // It begins at address zero of the runtime's own.
    let copy = copies.map(|s| s.range.start).min();
    let home = linked.as_ref().map(Home::Linked).or(copy.map(Home::Copied));
    let (Some(code), Some(home), Some(area)) = (section(".relive.text"), home, section(".relive.counters"))
    else {
        report.findings.push(complaint(LinkAddr(0), "a section of relive is missing".into()));
        return Ok(report);
    };
    let runtime = Runtime::parse(runtime).ok();
    let routine = |name| {
        let at = runtime.as_ref().and_then(|r| r.symbol(name)).and_then(|at| home.address(at));
        at.unwrap_or_default()
    };
    let mut symbols: Vec<_> = new
        .symbols
        .iter()
        .filter(|s| s.is_function() && code.contains(s.addr))
        .map(|s| (s.addr, s.size, s.name.as_ref()))
        .collect();
    symbols.sort_unstable();
    let mut world = World {
        old: image,
        new: &new,
        program,
        outline,
        code,
        area,
        enter: routine("relive_enter"),
        call: routine("relive_call"),
        told: linked
            .as_ref()
            .map(|_| AddrRange::sized(routine("relive_parameters"), size_of::<Parameters>() as u64)),
        needs: Needs::new(image, program),
        entries: HashMap::new(),
        symbols,
    };
    let measured: Vec<(usize, &Measured)> = outline
        .fates
        .iter()
        .enumerate()
        .filter_map(|(i, fate)| match fate {
            Fate::Measured(measured) => Some((i, &**measured)),
            Fate::Left(_) | Fate::Idle => None,
        })
        .collect();
    let mut entries = HashMap::new();
    for &(i, measured) in &measured {
        let function = &program.functions[i];
        for &entry in &function.cfg.entries {
            let old = function.cfg.block(entry).start;
            match world.enters(old, measured) {
                Ok(new) => {
                    entries.insert(old, new);
                }
                Err((new, what)) => {
                    let function = function.name().into_owned();
                    report.findings.push(Finding { function, old, new, what });
                }
            }
        }
    }
    world.entries = entries;
    let walked: Vec<walk::Walked> =
        measured.par_iter().map(|&(i, measured)| walk::walk(&world, i, measured)).collect();
    for walked in walked {
        report.functions += 1;
        report.insns += walked.insns;
        report.probes += walked.probes;
        report.findings.extend(walked.findings);
    }
    if let Err((at, what)) = tables::check_search_table(&new) {
        report.findings.push(complaint(at, what));
    }
    for (at, what) in file::check(&world, routine("relive_start"), routine("relive_init")) {
        report.findings.push(complaint(at, what));
    }
    Ok(report)
}

/// Where something is wrong in the new file, and what.
type Wrong = (LinkAddr, String);

impl World<'_, '_> {
    /// The new bytes at `at`.
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        self.new.elf.bytes_at(at)
    }

    /// The new instruction at `at`.
    fn insn(&self, at: LinkAddr) -> Result<Insn, Wrong> {
        Insn::decode(self.bytes(at), at).ok_or_else(|| (at, "there is no instruction".into()))
    }

    /// Where the jump that was written over old code at `place` leads.
    fn detour(&self, place: LinkAddr) -> Result<LinkAddr, Wrong> {
        let mut at = place;
        for _ in 0..4 {
            let insn = self.insn(at)?;
            match insn.flow() {
                Flow::Jump(to) if self.code.contains(to) => return Ok(to),
                Flow::Jump(to) => at = to,
                _ if insn.is_landing_mark() && at == place => at = insn.next_addr(),
                _ => break,
            }
        }
        Err((at, "no jump leads from here to the new code".into()))
    }

    /// Where the gate leads that calls of `old` are led to.
    fn enters(&self, old: LinkAddr, measured: &Measured) -> Result<LinkAddr, Wrong> {
        let at = self.detour(old)?;
        let gate = shapes::gate(self.bytes(at), at)
            .ok_or_else(|| (at, "the jump at the old entry does not lead to a gate".to_string()))?;
        if gate.owner != self.area.start {
            return Err((at, format!("the gate looks for the owner at {}", gate.owner)));
        }
        // The runtime enters there.
        if gate.fast != at.offset(relive_abi::gate::LEN) {
            return Err((at, format!("the gate ends at {}", gate.fast)));
        }
        let goes_on = |at: LinkAddr| match self.insn(at)?.flow() {
            Flow::Jump(to) => Ok(to),
            _ => Err((at, "the gate does not go on to the entry".to_string())),
        };
        let mut passed = gate.fast;
        if measured.plan.called {
            let counter = measured.plan.entry(&measured.flow).map(|n| u64::from(measured.first_counter + n));
            let expected = counter.map(|number| self.counters().offset(number * 8));
            match shapes::probe(self.bytes(passed), passed) {
                Some(probe) if Some(probe.counter) == expected && probe.adds.is_none() => {
                    passed = passed.offset(probe.len);
                }
                _ => return Err((passed, "who comes through the gate is not counted".into())),
            }
        }
        // With its slow way before it, it lies right in front of the entry.
        let fast = if gate.slow < at { passed } else { goes_on(passed)? };
        let call = self.insn(gate.slow)?;
        if call.flow() != Flow::Call(self.enter) {
            return Err((gate.slow, "the gate does not call relive_enter".into()));
        }
        let slow = goes_on(call.next_addr())?;
        let expected = if measured.plan.called { gate.fast } else { fast };
        if slow != expected {
            return Err((call.next_addr(), format!("the ways of the gate lead to {expected} and {slow}")));
        }
        Ok(fast)
    }

    /// Whether leading to `new` is as good as leading to `old`.
    fn leads_to(&self, old: LinkAddr, new: LinkAddr) -> bool {
        match self.entries.get(&old) {
            Some(&entry) => new == entry || new == old,
            None => new == old,
        }
    }

    /// The measured function whose old code `at` is inside of, without being an entry.
    fn dead_at(&self, at: LinkAddr) -> Option<String> {
        let id = self.program.function_holding(at)?;
        let moved = matches!(self.outline.fates[id.index()], Fate::Measured(_));
        (moved && !self.entries.contains_key(&at)).then(|| self.program.function(id).name().into_owned())
    }

    /// The address of a counter by its number.
    fn counters(&self) -> LinkAddr {
        let layout = &self.outline.layout;
        self.area.start.offset(slot_offset(layout.sites) + layout.counters_offset())
    }

    /// Where a key of a call site is, its count, and its way.
    fn site(&self, site: u32, place: u32) -> [LinkAddr; 3] {
        let layout = &self.outline.layout;
        let count = slot_offset(layout.sites) + layout.count_offset(site, place);
        [key_offset(site, place), count, way_offset(site, place)].map(|offset| self.area.start.offset(offset))
    }
}
