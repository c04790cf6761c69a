//! `relive report`: what a profile tells people.

mod annotate;
mod binary;
mod date;
mod disassembly;
mod facts;
mod html;
mod json;
mod source;
mod text;

use crate::args::Report;
use crate::output::write_to;
use crate::profiles;
use anyhow::Result;
use facts::Facts;

/// Reads the profile and prints the view that was asked for.
pub(crate) fn run(args: &Report) -> Result<()> {
    let profile = profiles::open(&args.profile)?;
    if let Some(wanted) = &args.annotate {
        return annotate::run(&profile, wanted, args);
    }
    let facts = Facts::new(&profile);
    if let Some(page) = &args.html {
        return html::run(&profile, &facts, page, args);
    }
    write_to(args.output.as_deref(), |out| {
        if args.json { json::print(&facts, out) } else { text::print(&facts, args, out) }
    })
}
