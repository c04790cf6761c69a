//! `relive dump`: tables for scripts.

use crate::args::Dump;
use crate::output::{field, write_to};
use crate::profiles::{self, count};
use crate::sequence;
use anyhow::Result;
use relive_profile::callees::Callees;
use relive_profile::model::{Count, Function, Module, Node, Profile, State};
use std::io::Write;

/// Prints the table that was asked for.
pub(crate) fn run(args: &Dump) -> Result<()> {
    if args.sequence {
        let calls = sequence::open(&args.profile)?;
        let manner = sequence::Manner { flat: args.flat, under: args.under.as_deref() };
        return write_to(args.output.as_deref(), |out| sequence::print(&calls, &manner, out));
    }
    let profile = profiles::open(&args.profile)?;
    write_to(args.output.as_deref(), |out| match args {
        Dump { functions: true, .. } => functions(&profile, out),
        Dump { blocks: true, .. } => blocks(&profile, out),
        Dump { edges: true, .. } => edges(&profile, out),
        Dump { calls: true, .. } => calls(&profile, out),
        _ => loops(&profile, out),
    })
}

/// Each function of each module, with both names.
fn each(profile: &Profile) -> impl Iterator<Item = (&Module, &Function, String)> {
    profile.modules.iter().flat_map(|module| {
        module.functions.iter().map(move |function| {
            (module, function, format!("{}\t{}", field(&module.path), field(module.name(function))))
        })
    })
}

fn functions(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "module\tfunction\taddress\tsize\tstate\tentries\tinstructions\treason")?;
    for (module, function, names) in each(profile) {
        let state = function.state.name();
        let instructions = match function.state {
            State::Measured => function.executed_insns().to_string(),
            State::EntryOnly { .. } | State::NotMeasured { .. } => "-".to_string(),
        };
        let reason = function.state.reason().or(function.approximate).map_or("", |id| module.text(id));
        writeln!(
            out,
            "{names}\t{:#x}\t{}\t{state}\t{}\t{instructions}\t{}",
            function.address,
            function.size,
            count(function.entries()),
            field(reason)
        )?;
    }
    Ok(())
}

fn blocks(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "module\tfunction\taddress\tsize\tcount\torigin\tconfidence")?;
    for (_, function, names) in each(profile) {
        for block in &function.blocks {
            writeln!(out, "{names}\t{:#x}\t{}\t{}", block.address, block.size, evidence(block.count))?;
        }
    }
    Ok(())
}

fn edges(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "module\tfunction\tfrom\tto\tcount\torigin\tconfidence")?;
    for (_, function, names) in each(profile) {
        let place = |node: Node| match node.as_block().and_then(|block| function.blocks.get(block as usize)) {
            Some(block) => format!("{:#x}", block.address),
            None => format!("{node:?}"),
        };
        for edge in &function.edges {
            writeln!(out, "{names}\t{}\t{}\t{}", place(edge.from), place(edge.to), evidence(edge.count))?;
        }
    }
    Ok(())
}

/// A count, where it comes from, and how likely it is right in per cent.
fn evidence(count: Option<Count>) -> String {
    match count {
        Some(count) => format!("{}\t{}\t{}", count.value(), count.origin, count.confidence.percent()),
        None => "-\t-\t-".to_string(),
    }
}

fn calls(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "module\tcaller\tsite\tcallee\tcount")?;
    let callees = Callees::new(profile);
    for (module, function, names) in each(profile) {
        for call in &function.calls {
            for called in callees.of(module, function, call) {
                let count = called.count.map_or_else(|| "-".to_string(), |count| count.to_string());
                writeln!(out, "{names}\t{:#x}\t{}\t{count}", call.address, field(&called.name))?;
            }
        }
    }
    Ok(())
}

fn loops(profile: &Profile, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "module\tfunction\theader\tfile\tline\tentries\titerations")?;
    for (module, function, names) in each(profile) {
        for (looped, counts) in function.loops.iter().zip(function.loop_counts()) {
            let (file, line) = match looped.line {
                Some(line) => (field(module.file(line)).into_owned(), line.line.to_string()),
                None => ("-".to_string(), "-".to_string()),
            };
            writeln!(
                out,
                "{names}\t{:#x}\t{file}\t{line}\t{}\t{}",
                function.blocks.get(looped.header as usize).map_or(0, |block| block.address),
                count(counts.map(|counts| counts.entries)),
                count(counts.map(|counts| counts.iterations)),
            )?;
        }
    }
    Ok(())
}
