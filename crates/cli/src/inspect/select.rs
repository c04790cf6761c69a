//! Which function the user means.

use super::Subject;
use anyhow::{Result, bail};
use relive_code::addr::LinkAddr;
use relive_image::names::demangle;
use relive_image::program::FunctionId;

/// Finds a function by name or address.
pub(crate) fn function(subject: &Subject<'_, '_>, wanted: &str) -> Result<FunctionId> {
    let file = subject.loaded.path.display();
    if let Some(address) = address(wanted) {
        return match subject.program.function_holding(address) {
            Some(id) => Ok(id),
            None => bail!("{file}: no function covers {address}; `--functions` lists what there is"),
        };
    }
    let matches = |accept: &dyn Fn(&str) -> bool| -> Vec<FunctionId> {
        subject
            .program
            .numbered()
            .filter(|(_, f)| f.names.iter().any(|name| accept(name)) || accept(&f.name()))
            .map(|(id, _)| id)
            .collect()
    };
    // The exact name first, then as the source spells it, with or without parameters.
    let mut found = matches(&|name| name == wanted);
    if found.is_empty() {
        found = matches(&|name| {
            let shown = demangle(name);
            shown == wanted || shown.split('(').next() == Some(wanted)
        });
    }
    match found.as_slice() {
        [only] => Ok(*only),
        [] => bail!("{file}: there is no function {wanted:?}; `--functions` lists what there is"),
        several => {
            let places: Vec<String> = several
                .iter()
                .take(10)
                .map(|&id| {
                    let function = subject.program.function(id);
                    format!("{} at {}", subject.name(function), function.entry)
                })
                .collect();
            bail!(
                "{file}: {} functions are called {wanted:?}; give the address of one: {}",
                several.len(),
                places.join(", ")
            )
        }
    }
}

fn address(text: &str) -> Option<LinkAddr> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok().map(LinkAddr)
}
