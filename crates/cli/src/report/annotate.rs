//! One function with counts in the margin.

use super::text::shown;
use super::{binary, disassembly, source};
use crate::args::Report;
use crate::output::{grouped, write_to};
use anyhow::{Result, bail};
use relive_image::lines::Lines;
use relive_image::names::demangle;
use relive_profile::flow;
use relive_profile::model::{Count, Function, Module, Profile};
use std::io::Write;

/// Prints the function called `wanted`: source if there is any, else disassembly, else a table of blocks.
pub(crate) fn run(profile: &Profile, wanted: &str, args: &Report) -> Result<()> {
    let (module, function) = select(profile, wanted, args)?;
    let given = args.binary.as_deref();
    let loaded = binary::open(module, given, &args.debug_root)?;
    let program = match &loaded {
        None => {
            eprintln!(
                "{}: not there any more; give the program with --binary for source or disassembly",
                module.path
            );
            None
        }
        Some(loaded) => {
            let found = binary::image(loaded).and_then(|image| {
                binary::check(&image, module, function, &loaded.path)?;
                Ok((image, Lines::new(loaded)))
            });
            match found {
                Ok(found) => Some(found),
                Err(error) if given.is_some() => return Err(error),
                Err(error) => {
                    eprintln!("relive: {error:#}");
                    None
                }
            }
        }
    };
    let listing = match &program {
        Some((image, lines)) if !args.disassembly => source::Listing::new(image, lines, function),
        _ => None,
    };
    write_to(args.output.as_deref(), |out| {
        heading(module, function, args, out)?;
        match (&listing, &program) {
            (Some(listing), _) => listing.print(out),
            (None, Some((image, lines))) => disassembly::print(image, lines, function, args, out),
            (None, None) => disassembly::print_blocks(module, function, out),
        }
    })
}

/// Finds a function by name or address.
fn select<'p>(profile: &'p Profile, wanted: &str, args: &Report) -> Result<(&'p Module, &'p Function)> {
    let file = args.profile.display();
    let all = || profile.modules.iter().flat_map(|m| m.functions.iter().map(move |f| (m, f)));
    let address = wanted.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let found: Vec<_> = if let Some(address) = address {
        let holds = |f: &Function| {
            f.address == address
                || f.pieces
                    .iter()
                    .any(|piece| address.checked_sub(piece.start).is_some_and(|at| at < piece.len))
        };
        all().filter(|(_, function)| holds(function)).collect()
    } else {
        let exact: Vec<_> = all().filter(|(module, function)| module.name(function) == wanted).collect();
        // Else as the source spells it, with or without parameters.
        let is_meant = |name: &str| {
            let shown = demangle(name);
            shown == wanted || shown.split('(').next() == Some(wanted)
        };
        if exact.is_empty() { all().filter(|(m, f)| is_meant(m.name(f))).collect() } else { exact }
    };
    match *found {
        [only] => Ok(only),
        [] => {
            bail!("{file}: there is no function {wanted:?} (`relive dump --functions` lists what there is)")
        }
        _ => {
            let places: Vec<String> = found
                .iter()
                .take(10)
                .map(|(m, f)| format!("{} at {:#x} in {}", shown(m.name(f), args), f.address, m.path))
                .collect();
            let places = places.join(", ");
            bail!(
                "{file}: {} functions are meant by {wanted:?} (give the address of one: {places})",
                found.len()
            )
        }
    }
}

fn heading(module: &Module, function: &Function, args: &Report, out: &mut dyn Write) -> Result<()> {
    let name = shown(module.name(function), args);
    write!(out, "{name} at {:#x}", function.address)?;
    if let Some(entries) = function.entries() {
        write!(out, ", entered {} times", grouped(entries.value()))?;
    }
    writeln!(out)?;
    if let Some(reason) = function.state.reason() {
        let what = if function.state.is_not_measured() { "not measured" } else { "only entries counted" };
        writeln!(out, "{what}: {}", module.text(reason))?;
    }
    if let Some(reason) = function.approximate {
        writeln!(out, "counts may be off: {}", module.text(reason))?;
    }
    if !flow::check(function).is_empty() {
        writeln!(out, "counts do not add up")?;
    }
    Ok(writeln!(out)?)
}

/// A count for the margin, empty if it is not known.
pub(crate) fn margin(count: Option<Count>) -> String {
    count.map_or_else(String::new, |count| grouped(count.value()))
}
