//! Sequences of calls, `.rcalls`: `relive dump --sequence`, and what plans need to know of them.

use crate::output::field;
use anyhow::{Context as _, Result, bail};
use relive_impact::calls::Calls;
use relive_migrate::reprofile::plan::Plan;
use relive_profile::model::{Callee, Module};
use relive_sequence::model::{Call, NONE, Step};
use relive_sequence::{CallMap, Sequence, file, require};
use std::collections::BTreeSet;
use std::io::{Read as _, Write};
use std::path::Path;

/// Whether a file says that it is a sequence.
pub(crate) fn is_one(path: &Path) -> bool {
    let mut magic = [0; file::MAGIC.len()];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == file::MAGIC
}

/// Reads a sequence.
pub(crate) fn open(path: &Path) -> Result<Sequence> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    file::read(&bytes).with_context(|| {
        format!("{}: not calls that can be read (`relive analyze calls` writes them)", path.display())
    })
}

/// What of the old build is what of the new one, if a plan says so.
pub(crate) fn call_map(plan: &Plan) -> Option<CallMap> {
    let map = plan.map.as_ref()?;
    Some(CallMap {
        old: plan.old.build_id.clone(),
        new: plan.new.build_id.clone(),
        functions: map.functions.iter().copied().collect(),
        sites: map.sites.iter().copied().collect(),
        code: map.code.iter().map(|&(old, len, new)| (old, (len, new))).collect(),
    })
}

/// Functions that a plan exempts, by address, although the old sequence may not tell what they call in the new build, which is
/// `carried` with the counts and the targets of calls that are expected of it.
pub(crate) fn required(old: &Path, plan: &Plan, carried: &Module) -> Result<BTreeSet<u64>> {
    let sequence = open(old)?;
    let Some(map) = call_map(plan) else { return Ok(BTreeSet::new()) };
    if !sequence.modules.iter().any(|module| map.is_old(Some(module))) {
        bail!(
            "{}: not calls of build {}, which the profile is of; trace that build (`relive trace`, `relive analyze calls`)",
            old.display(),
            map.old
        );
    }
    let address = |function: u32| carried.functions[function as usize].address;
    let known = Calls::of(carried);
    let mut calls: Vec<(u64, u64)> = (0..carried.functions.len() as u32)
        .flat_map(|caller| {
            known.callees(caller).iter().map(move |&callee| (address(caller), address(callee)))
        })
        .collect();
    // What is called by a pointer may be whatever data points to.
    let entries: BTreeSet<u64> = carried.functions.iter().map(|function| function.address).collect();
    let pointed: BTreeSet<u64> =
        carried.pointers.iter().map(|pointer| pointer.to).filter(|to| entries.contains(to)).collect();
    let by_pointer = carried
        .functions
        .iter()
        .filter(|function| function.calls.iter().any(|call| matches!(call.callee, Callee::Indirect { .. })));
    calls.extend(by_pointer.flat_map(|caller| pointed.iter().map(|&callee| (caller.address, callee))));
    let exempt: BTreeSet<u64> = plan.exempt_addresses().into_iter().collect();
    Ok(require(&sequence, &map, &exempt, &calls))
}

/// Which calls are printed, and how.
pub(crate) struct Manner<'a> {
    /// Only names, one thread in a line.
    pub(crate) flat: bool,
    /// Only within executions of that function.
    pub(crate) under: Option<&'a str>,
}

/// Prints all calls, those of handlers of signals last.
pub(crate) fn print(sequence: &Sequence, manner: &Manner<'_>, out: &mut dyn Write) -> Result<()> {
    if !manner.flat {
        writeln!(out, "thread\tdepth\tkind\torigin\tsite\tfunction")?;
    }
    for thread in &sequence.threads {
        for (is_handler, list) in [(false, thread.calls), (true, thread.handlers)] {
            let mut printing = Printing { sequence, manner, depth: 0, shown: None, is_first: true };
            for step in sequence.steps(list) {
                match step {
                    Step::Enter(call) => printing.enter(thread.thread, is_handler, call, out)?,
                    Step::Leave => printing.leave(),
                }
            }
            if manner.flat && !printing.is_first {
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

struct Printing<'s> {
    sequence: &'s Sequence,
    manner: &'s Manner<'s>,
    depth: u64,
    /// From which depth on calls are printed.
    shown: Option<u64>,
    is_first: bool,
}

impl Printing<'_> {
    fn enter(&mut self, thread: u32, is_handler: bool, call: Call, out: &mut dyn Write) -> Result<()> {
        let sequence = self.sequence;
        let body = &sequence.bodies[call.body as usize];
        let name = sequence.name(body.function).to_string();
        if self.shown.is_none() && self.manner.under.is_none_or(|under| under == name) {
            self.shown = Some(self.depth);
        }
        let depth = self.depth;
        self.depth += 1;
        let Some(shown) = self.shown else { return Ok(()) };
        if self.manner.flat {
            let between = if self.is_first { "" } else { " " };
            self.is_first = false;
            return Ok(write!(out, "{between}{}", field(&name))?);
        }
        let site = sequence.sites[call.site as usize];
        let kind = if is_handler && depth == 0 { "handler" } else { site.kind.name() };
        let at = match site.module {
            NONE => "-".to_string(),
            module => {
                let path = &sequence.modules[module as usize].path;
                format!("{}:{:#x}", path.rsplit('/').next().unwrap_or_default(), site.address)
            }
        };
        let indent = "  ".repeat((depth - shown).min(100) as usize);
        let origin = body.origin.name();
        Ok(writeln!(out, "{thread}\t{depth}\t{kind}\t{origin}\t{}\t{indent}{}", field(&at), field(&name))?)
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.shown = self.shown.filter(|&shown| shown < self.depth);
    }
}
