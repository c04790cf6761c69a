//! One screen for people.

use super::Subject;
use crate::output::{field, grouped, percent};
use anyhow::Result;
use relive_code::cfg::EdgeKind;
use relive_image::program::Statistics;
use relive_image::sources;
use relive_rewrite::prepared::Linked;
use std::fmt::Display;
use std::io::Write;

/// Prints the summary.
pub(crate) fn print(subject: &Subject<'_, '_>, statistics: &Statistics, out: &mut dyn Write) -> Result<()> {
    heading(subject, out)?;
    counts(statistics, out)?;
    not_understood(subject, statistics, out)?;
    doubts(subject, out)
}

fn row(out: &mut dyn Write, label: &str, number: impl Display, rest: impl Display) -> Result<()> {
    Ok(writeln!(out, "{label:<12}{number:>12}   {rest}")?)
}

fn heading(subject: &Subject<'_, '_>, out: &mut dyn Write) -> Result<()> {
    let image = subject.image;
    let linking =
        if image.elf.interpreter.is_some() || !image.elf.dynamic.is_empty() { "dynamic" } else { "static" };
    let symbols = if image.has_debug_file {
        "symbols in a separate debug file"
    } else if image.symbols.is_empty() {
        "stripped"
    } else {
        "with symbols"
    };
    writeln!(
        out,
        "{}: {}, x86-64, {linking}, {}, {symbols}",
        subject.loaded.path.display(),
        image.elf.kind.name(),
        image.language().name()
    )?;
    if let Some(id) = &image.identity.build_id {
        write!(out, "build-id ")?;
        for byte in id {
            write!(out, "{byte:02x}")?;
        }
        writeln!(out)?;
    }
    for producer in image.identity.producers.iter().take(3) {
        writeln!(out, "made by {}", field(producer))?;
    }
    match Linked::find(image, relive_runtime::IMAGE) {
        None => {}
        Some(Ok(_)) => writeln!(out, "prepared: relive's runtime is linked in")?,
        Some(Err(why)) => writeln!(out, "prepared: relive's runtime is linked in; {why}")?,
    }
    let present: Vec<String> = sources::present(image, &subject.lines)
        .iter()
        .map(|s| format!("{} {}", s.name, grouped(s.count as u64)))
        .collect();
    writeln!(out, "sources: {}\n", if present.is_empty() { "none".to_string() } else { present.join(", ") })?;
    Ok(())
}

fn counts(s: &Statistics, out: &mut dyn Write) -> Result<()> {
    let mut notes = vec![format!("{} understood", percent(s.understood.count, s.functions.count))];
    for (count, what) in [
        (s.hidden, "in no table"),
        (s.several_pieces, "in several pieces"),
        (s.several_entries, "with several entries"),
        (s.never_return, "never return"),
    ] {
        if count > 0 {
            notes.push(format!("{} {what}", grouped(count)));
        }
    }
    row(out, "functions", grouped(s.functions.count), notes.join(", "))?;
    row(
        out,
        "blocks",
        grouped(s.blocks),
        format!("{} instructions, {} unreached blocks", grouped(s.instructions), grouped(s.unreached_blocks)),
    )?;
    let kinds: Vec<String> =
        [EdgeKind::Taken, EdgeKind::Case, EdgeKind::TailCall, EdgeKind::LandingPad, EdgeKind::Unknown]
            .iter()
            .filter_map(|kind| s.edges.get(kind).map(|count| format!("{} {kind}", grouped(*count))))
            .collect();
    row(out, "edges", grouped(s.edges.values().sum()), kinds.join(", "))?;
    row(
        out,
        "calls",
        grouped(s.direct_calls + s.indirect_calls),
        format!("{} indirect", grouped(s.indirect_calls)),
    )?;
    row(
        out,
        "loops",
        grouped(s.loops),
        format!(
            "nested up to {} deep, {} functions with irreducible ones",
            s.deepest_loop,
            grouped(s.irreducible)
        ),
    )?;
    let bounds: Vec<String> =
        s.tables.iter().map(|(bound, count)| format!("{} {}", grouped(*count), bound.name())).collect();
    let bounds =
        if bounds.is_empty() { String::new() } else { format!("; size known from: {}", bounds.join(", ")) };
    row(
        out,
        "jump tables",
        grouped(s.tables.values().sum()),
        format!("{} entries{bounds}", grouped(s.table_entries)),
    )?;
    row(
        out,
        "liveness",
        percent(s.flags_free, s.blocks),
        format!(
            "of blocks start with dead flags, {} with a dead register",
            percent(s.register_free, s.blocks)
        ),
    )?;
    let (total, understood) = s.text;
    let outside: Vec<String> =
        s.outside.iter().map(|(kind, bytes)| format!("{} {kind}", grouped(*bytes))).collect();
    row(
        out,
        "text bytes",
        grouped(total),
        format!("{} understood; outside functions: {}", percent(understood, total), outside.join(", ")),
    )?;
    Ok(())
}

fn not_understood(subject: &Subject<'_, '_>, s: &Statistics, out: &mut dyn Write) -> Result<()> {
    if s.reasons.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nnot understood, because")?;
    let mut reasons: Vec<_> = s.reasons.iter().collect();
    reasons.sort_by_key(|(_, amount)| std::cmp::Reverse(amount.count));
    for (reason, amount) in reasons {
        writeln!(
            out,
            "{:>8} functions {:>12} bytes   {} ({reason})",
            grouped(amount.count),
            grouped(amount.bytes),
            reason.explanation()
        )?;
    }
    let mut largest: Vec<_> = subject.program.functions.iter().filter(|f| !f.cfg.is_understood()).collect();
    largest.sort_by_key(|f| (std::cmp::Reverse(f.size()), f.entry));
    writeln!(out, "the largest of them")?;
    for function in largest.into_iter().take(8) {
        let first = function.cfg.problems[0];
        writeln!(
            out,
            "{:>12} bytes   {} at {}: {} at {}",
            grouped(function.size()),
            field(&subject.name(function)),
            function.entry,
            first.reason,
            first.at
        )?;
    }
    Ok(())
}

/// Shown before the rest is only counted.
const SHOWN: usize = 5;

fn doubts(subject: &Subject<'_, '_>, out: &mut dyn Write) -> Result<()> {
    let contradictions = &subject.program.contradictions;
    if !contradictions.is_empty() {
        writeln!(out, "\ncontradictions between sources: {}", grouped(contradictions.len() as u64))?;
        for c in contradictions.iter().take(SHOWN) {
            writeln!(out, "    {}: {} says {}, {} says {}", c.at, c.one.0, c.one.1, c.other.0, c.other.1)?;
        }
        if contradictions.len() > SHOWN {
            writeln!(out, "    … (all of them: --json)")?;
        }
    }
    let complaints: Vec<String> = subject
        .image
        .complaints
        .iter()
        .chain(&subject.program.complaints)
        .chain(&subject.lines.complaints())
        .map(ToString::to_string)
        .chain(subject.loaded.notes.iter().cloned())
        .collect();
    if !complaints.is_empty() {
        writeln!(out, "\nwhat could not be read or found: {}", grouped(complaints.len() as u64))?;
        for complaint in complaints.iter().take(SHOWN) {
            writeln!(out, "    {}", field(complaint))?;
        }
        if complaints.len() > SHOWN {
            writeln!(out, "    … (all of them: --json)")?;
        }
    }
    Ok(())
}
