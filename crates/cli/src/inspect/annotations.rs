//! What the annotations of a file tell, and what of that analysis does not find out by itself.

use super::Subject;
use crate::output::{field, grouped, several};
use anyhow::Result;
use relive_code::addr::LinkAddr;
use relive_image::annotations::Unit;
use relive_image::annotations::format::SECTION;
use relive_image::annotations::gains::{Call, Gains, Table};
use relive_image::program::FunctionId;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::Write;

/// Shown of each kind unless all are wanted.
const SHOWN: usize = 5;

/// Prints it for people.
pub(crate) fn print(subject: &Subject<'_, '_>, gains: &Gains, all: bool, out: &mut dyn Write) -> Result<()> {
    let said = &subject.image.annotations;
    let refused: Vec<String> = refused(subject).collect();
    let path = subject.loaded.path.display();
    if said.pieces.is_empty() && refused.is_empty() {
        writeln!(out, "{path}: no annotations (`relive cc` makes them, `relive annotate add` derives them)")?;
        return Ok(());
    }
    let place =
        subject.loaded.annotations.as_ref().map_or(SECTION.into(), |(path, _)| path.to_string_lossy());
    writeln!(out, "{path}: annotated, in {place}")?;
    writeln!(
        out,
        "{}, {}, {}",
        several(said.pieces.len() as u64, "piece"),
        several(said.block_count() as u64, "block"),
        several(said.table_count() as u64, "jump table")
    )?;
    let mut lists = Lists { out, shown: if all { usize::MAX } else { SHOWN } };
    writeln!(lists.out, "\nmade by")?;
    lists.list(said.units.iter().map(maker))?;
    if !refused.is_empty() {
        writeln!(lists.out, "\nnot believed, and left to analysis: {}", grouped(refused.len() as u64))?;
        lists.list(refused)?;
    }
    if gains.is_empty() {
        writeln!(lists.out, "\nanalysis finds out all of this by itself")?;
        return Ok(());
    }
    writeln!(lists.out, "\nwithout them")?;
    lists.gains(subject, gains)
}

struct Lists<'o> {
    out: &'o mut dyn Write,
    shown: usize,
}

impl Lists<'_> {
    fn gains(&mut self, subject: &Subject<'_, '_>, gains: &Gains) -> Result<()> {
        let in_function = |id: FunctionId| {
            let function = subject.program.function(id);
            format!("{} at {}", subject.name(function), function.entry)
        };
        let understood = gains.understood.iter().map(|gain| {
            let problem = gain.problem;
            format!("{}: {} at {}", in_function(gain.function), problem.reason, problem.at)
        });
        self.counted("function", "would not be understood", understood)?;
        let found = gains.found.iter().map(|gain| match gain.part_of {
            Some(whole) => format!("{}: taken for a part of that at {whole}", in_function(gain.function)),
            None => in_function(gain.function),
        });
        self.counted("function", "would not be found", found)?;
        let denied = gains.denied.iter().map(LinkAddr::to_string);
        self.counted("function", "would be found where none begins", denied)?;
        let tables =
            gains.tables.iter().map(|gain| format!("{}: {}", in_function(gain.function), table(gain)));
        self.counted("jump table", "would be of unknown or wrong size", tables)?;
        let calls = |returns: bool| {
            let calls = gains.calls.iter().filter(move |call| call.returns == returns);
            calls.map(|call: &Call| format!("{} in {}", call.site, in_function(call.function)))
        };
        self.counted("call", "would be taken to return", calls(false))?;
        self.counted("call", "would be taken not to return", calls(true))?;
        let blocks = gains.blocks.iter().map(|gain| {
            let other = grouped(gain.wrong as u64);
            format!(
                "{}: {}, taken for {other}",
                in_function(gain.function),
                several(gain.missed as u64, "block")
            )
        });
        self.counted("function", "would have other blocks", blocks)
    }

    /// How many there are, and the first of them; nothing if there is none.
    fn counted(&mut self, what: &str, gain: &str, rows: impl Iterator<Item = String>) -> Result<()> {
        let rows: Vec<String> = rows.collect();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "{} {gain}", several(rows.len() as u64, what))?;
        self.list(rows)
    }

    fn list(&mut self, rows: impl IntoIterator<Item = impl Display>) -> Result<()> {
        let mut rows = rows.into_iter();
        for row in rows.by_ref().take(self.shown) {
            writeln!(self.out, "    {}", field(&row.to_string()))?;
        }
        match rows.count() {
            0 => {}
            more => writeln!(self.out, "    … {} more (--all)", grouped(more as u64))?,
        }
        Ok(())
    }
}

fn table(gain: &Table) -> String {
    let entries = several(gain.entries as u64, "entry").replace("entrys", "entries");
    let otherwise = match gain.without {
        None => "not found".to_string(),
        Some((found, bound)) if found == gain.entries => format!("as many by guess ({})", bound.name()),
        Some((found, bound)) => format!("{} ({})", grouped(found as u64), bound.name()),
    };
    format!("{entries} for the jump at {}, otherwise {otherwise}", gain.site)
}

fn maker(unit: &Unit) -> String {
    let known = [&unit.producer, &unit.language, &unit.optimisation];
    let known: Vec<&str> = known.into_iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let known = if known.is_empty() { "somebody unknown".to_string() } else { known.join(", ") };
    if unit.is_derived { format!("{known}; derived from the code") } else { known }
}

/// What was not believed, and why.
fn refused(subject: &Subject<'_, '_>) -> impl Iterator<Item = String> {
    subject.image.complaints.iter().filter(|c| c.part == SECTION).map(|c| c.why.clone())
}

/// The same for scripts; null if there are none. What analysis does not find out is there if it was asked for.
pub(crate) fn json(subject: &Subject<'_, '_>) -> Value {
    let said = &subject.image.annotations;
    let refused: Vec<String> = refused(subject).collect();
    if said.pieces.is_empty() && refused.is_empty() {
        return Value::Null;
    }
    json!({
        "file": subject.loaded.annotations.as_ref().map(|(path, _)| path.display().to_string()),
        "pieces": said.pieces.len(),
        "blocks": said.block_count(),
        "jump_tables": said.table_count(),
        "free": said.pieces.iter().flat_map(|piece| &piece.free).map(|free| json!({
            "behind": free.behind.to_string(),
            "registers": free.registers.to_string(),
        })).collect::<Vec<_>>(),
        "units": said.units.iter().map(|unit| json!({
            "producer": unit.producer,
            "language": unit.language,
            "optimisation": unit.optimisation,
            "derived": unit.is_derived,
        })).collect::<Vec<_>>(),
        "refused": refused,
        "gains": subject.gains.as_ref().map(|gains| gains_json(subject, gains)),
    })
}

fn gains_json(subject: &Subject<'_, '_>, gains: &Gains) -> Value {
    let place = |id: FunctionId| subject.program.function(id).entry.to_string();
    json!({
        "understood": gains.understood.iter().map(|gain| json!({
            "function": place(gain.function),
            "reason": gain.problem.reason.name(),
            "at": gain.problem.at.to_string(),
        })).collect::<Vec<_>>(),
        "found": gains.found.iter().map(|gain| json!({
            "function": place(gain.function),
            "part_of": gain.part_of.map(|at| at.to_string()),
        })).collect::<Vec<_>>(),
        "denied": gains.denied.iter().map(LinkAddr::to_string).collect::<Vec<_>>(),
        "jump_tables": gains.tables.iter().map(|gain| json!({
            "function": place(gain.function),
            "jump": gain.site.to_string(),
            "entries": gain.entries,
            "entries_without": gain.without.map(|(entries, _)| entries),
            "bound_without": gain.without.map(|(_, bound)| bound.name()),
        })).collect::<Vec<_>>(),
        "calls": gains.calls.iter().map(|gain| json!({
            "function": place(gain.function),
            "call": gain.site.to_string(),
            "returns": gain.returns,
        })).collect::<Vec<_>>(),
        "blocks": gains.blocks.iter().map(|gain| json!({
            "function": place(gain.function),
            "missed": gain.missed,
            "wrong": gain.wrong,
        })).collect::<Vec<_>>(),
    })
}
