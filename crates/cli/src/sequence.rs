//! `relive dump --sequence`: the calls of a `.rcalls`, one in the other.

use crate::output::field;
use anyhow::{Context as _, Result};
use relive_sequence::model::{Call, NONE, Step};
use relive_sequence::{Sequence, file};
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
