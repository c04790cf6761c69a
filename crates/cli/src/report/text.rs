//! One screen for people.

use super::date::utc;
use super::facts::{Coverage, Facts, FunctionFacts, ModuleFacts, Reasons};
use crate::args::Report;
use crate::output::{field, grouped, percent};
use crate::profiles::hex;
use anyhow::Result;
use relive_image::names::demangle;
use relive_profile::model::{Mode, Module};
use std::borrow::Cow;
use std::io::Write;

/// Prints the report.
pub(crate) fn print(facts: &Facts<'_>, args: &Report, out: &mut dyn Write) -> Result<()> {
    let screen = Screen { facts, args };
    for module in &facts.modules {
        screen.heading(module, out)?;
        screen.coverage(module, out)?;
    }
    screen.functions(out)?;
    screen.loops(out)?;
    screen.calls(out)?;
    for module in &facts.modules {
        reasons("not measured", &module.not_measured, out)?;
        reasons("only entries counted", &module.entry_only, out)?;
        reasons("counts may be off", &module.approximate, out)?;
        screen.doubts(module, out)?;
    }
    Ok(())
}

/// A name as the user wants to see it.
pub(crate) fn shown<'n>(name: &'n str, args: &Report) -> Cow<'n, str> {
    if args.mangled { field(name) } else { field(&demangle(name)).into_owned().into() }
}

struct Screen<'s, 'p> {
    facts: &'s Facts<'p>,
    args: &'s Report,
}

impl Screen<'_, '_> {
    /// A name, with the file it is in if there are several.
    fn name(&self, module: &Module, name: &str) -> String {
        let name = shown(name, self.args);
        if self.facts.modules.len() < 2 {
            return name.into_owned();
        }
        let file = module.path.rsplit('/').next().unwrap_or_default();
        format!("{name} [{}]", field(file))
    }

    fn heading(&self, facts: &ModuleFacts<'_>, out: &mut dyn Write) -> Result<()> {
        let module = facts.module;
        let runs =
            if module.runs == 1 { "1 run".to_string() } else { format!("{} runs", grouped(module.runs)) };
        writeln!(out, "{}: {runs}, {} counted", field(&module.path), module.mode.name())?;
        writeln!(out, "build-id {}", hex(&module.build_id))?;
        match (module.first_run, module.last_run) {
            (0, _) => {}
            (first, last) if first == last => writeln!(out, "measured {}", utc(first))?,
            (first, last) => writeln!(out, "measured {} to {}", utc(first), utc(last))?,
        }
        Ok(writeln!(out)?)
    }

    fn coverage(&self, facts: &ModuleFacts<'_>, out: &mut dyn Write) -> Result<()> {
        let row = |out: &mut dyn Write, label: &str, number: u64, rest: String| {
            writeln!(out, "{label:<13}{:>19}   {rest}", grouped(number))
        };
        if facts.module.mode != Mode::Functions {
            let times = format!("executed, in {} block executions", grouped(facts.block_executions));
            row(out, "instructions", facts.instructions, times)?;
        }
        let share = |coverage: Coverage| {
            format!(
                "executed, {} of {} measured",
                percent(coverage.executed, coverage.measured),
                grouped(coverage.measured)
            )
        };
        let mut functions = share(facts.functions);
        for (reasons, what) in [(&facts.entry_only, "only entries"), (&facts.not_measured, "not measured")] {
            let count: u64 = reasons.iter().map(|(_, amount)| amount.functions).sum();
            if count > 0 {
                functions.push_str(&format!(", {} {what}", grouped(count)));
            }
        }
        row(out, "functions", facts.functions.executed, functions)?;
        if facts.module.mode != Mode::Functions {
            row(out, "blocks", facts.blocks.executed, share(facts.blocks))?;
        }
        Ok(writeln!(out)?)
    }

    fn functions(&self, out: &mut dyn Write) -> Result<()> {
        let executed: Vec<&FunctionFacts<'_>> =
            self.facts.functions.iter().filter(|f| f.is_executed()).take(self.args.top).collect();
        if executed.is_empty() {
            return Ok(writeln!(out, "nothing was executed")?);
        }
        writeln!(out, "{:>8} {:>19} {:>19}   hottest functions", "share", "instructions", "entries")?;
        for row in executed {
            let share = row.instructions.map(|count| percent(count, self.facts.instructions));
            writeln!(
                out,
                "{:>8} {:>19} {:>19}   {}",
                share.as_deref().unwrap_or("-"),
                number(row.instructions),
                number(row.entries),
                self.name(row.module, row.module.name(row.function))
            )?;
        }
        Ok(())
    }

    fn loops(&self, out: &mut dyn Write) -> Result<()> {
        let mut loops = self
            .facts
            .loops
            .iter()
            .filter(|l| l.counts.iterations.value() > 0)
            .take(self.args.top)
            .peekable();
        if loops.peek().is_none() {
            return Ok(());
        }
        writeln!(out, "\n{:>12} {:>15} {:>19}   hottest loops", "trips", "entries", "iterations")?;
        for row in loops {
            let name = self.name(row.module, row.module.name(row.function));
            let place = match row.looped.line {
                Some(line) => format!("{}:{}", field(row.module.file(line)), line.line),
                None => format!("{:#x}", row.address()),
            };
            writeln!(
                out,
                "{:>12} {:>15} {:>19}   {name} at {place}",
                row.trips().map_or_else(|| "-".to_string(), |trips| format!("{trips:.1}")),
                grouped(row.counts.entries.value()),
                grouped(row.counts.iterations.value()),
            )?;
        }
        Ok(())
    }

    fn calls(&self, out: &mut dyn Write) -> Result<()> {
        if self.facts.calls.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{:>19}   most frequent calls", "count")?;
        for row in self.facts.calls.iter().take(self.args.top) {
            let caller = self.name(row.module, row.module.name(row.caller));
            let callee = if row.callee == "?" { "unknown".into() } else { shown(&row.callee, self.args) };
            writeln!(out, "{:>19}   {caller} -> {callee}", grouped(row.count))?;
        }
        Ok(())
    }

    fn doubts(&self, facts: &ModuleFacts<'_>, out: &mut dyn Write) -> Result<()> {
        let lost = facts.module.lost;
        if lost.shared() {
            writeln!(out, "\nthreads had to share counters: counts may be too low")?;
        }
        if lost.targets() {
            writeln!(out, "\nsome targets of indirect calls were not recorded")?;
        }
        if let Some(first) = facts.inconsistent.first() {
            writeln!(
                out,
                "\ncounts do not add up in {} functions, such as {}",
                grouped(facts.inconsistent.len() as u64),
                self.name(facts.module, facts.module.name(first))
            )?;
        }
        Ok(())
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_string(), grouped)
}

fn reasons(what: &str, reasons: &Reasons<'_>, out: &mut dyn Write) -> Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{what}, because")?;
    for (reason, amount) in reasons {
        let (functions, bytes) = (grouped(amount.functions), grouped(amount.bytes));
        writeln!(out, "{functions:>8} functions {bytes:>12} bytes   {}", field(reason))?;
    }
    Ok(())
}
