//! One screen for people.

use super::date::utc;
use super::facts::{Coverage, Facts, FunctionFacts, ModuleFacts, Reasons};
use crate::args::Report;
use crate::output::{field, grouped, percent, several};
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
        let place = facts.label(module.module).map_or_else(String::new, |label| format!(" in {label}"));
        reasons(&format!("not measured{place}"), &module.not_measured, out)?;
        reasons(&format!("only entries counted{place}"), &module.entry_only, out)?;
        reasons(&format!("counts may be off{place}"), &module.approximate, out)?;
        screen.doubts(module, &place, out)?;
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
        match self.facts.label(module) {
            Some(label) => format!("{name} [{}]", label.trim_matches(['[', ']'])),
            None => name.into_owned(),
        }
    }

    fn heading(&self, facts: &ModuleFacts<'_>, out: &mut dyn Write) -> Result<()> {
        let module = facts.module;
        writeln!(
            out,
            "{}: {}, {} counted",
            field(&module.path),
            several(module.runs, "run"),
            module.mode.name()
        )?;
        writeln!(out, "build-id {}", hex(&module.build_id))?;
        match (module.first_run, module.last_run) {
            (0, _) => {}
            (first, last) if first == last => writeln!(out, "measured {}", utc(first))?,
            (first, last) => writeln!(out, "measured {} to {}", utc(first), utc(last))?,
        }
        self.origin(facts, out)?;
        Ok(writeln!(out)?)
    }

    /// Of counts that were carried over: from where, and how they were.
    fn origin(&self, facts: &ModuleFacts<'_>, out: &mut dyn Write) -> Result<()> {
        for source in &facts.module.carried {
            writeln!(
                out,
                "carried over from {}, {} away: {}, build-id {}",
                field(&source.path),
                several(source.steps.into(), "build"),
                several(source.runs, "run"),
                hex(&source.build_id),
            )?;
        }
        if !facts.module.carried.is_empty() && facts.block_executions > 0 {
            let shares: Vec<String> = facts
                .origins
                .iter()
                .filter(|&(_, &executions)| executions > 0)
                .map(|(origin, &executions)| {
                    format!("{} {origin}", percent(executions, facts.block_executions))
                })
                .collect();
            writeln!(out, "block executions: {}", shares.join(", "))?;
        }
        Ok(())
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
        let count = |reasons: &Reasons<'_>| reasons.iter().map(|(_, amount)| amount.functions).sum::<u64>();
        let (entry_only, not_measured) = (count(&facts.entry_only), count(&facts.not_measured));
        if entry_only > 0 {
            functions.push_str(&format!(" ({} only at their entry)", grouped(entry_only)));
        }
        if not_measured > 0 {
            functions.push_str(&format!("; {} not measured", grouped(not_measured)));
        }
        row(out, "functions", facts.functions.executed, functions)?;
        if facts.module.mode != Mode::Functions {
            let mut blocks = share(facts.blocks);
            if facts.module.only_executed {
                blocks.push_str(" in functions that ran");
            }
            row(out, "blocks", facts.blocks.executed, blocks)?;
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

    fn doubts(&self, facts: &ModuleFacts<'_>, place: &str, out: &mut dyn Write) -> Result<()> {
        let lost = facts.module.lost;
        if lost.shared() {
            writeln!(out, "\nthreads had to share counters{place}: counts may be too low")?;
        }
        if lost.targets() {
            writeln!(out, "\nsome targets of indirect calls were not recorded{place}")?;
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
