//! Folded stacks: a line is a stack, functions from the outermost to the innermost with `;` between them, a space, and what it
//! costs. Read by FlameGraph's `flamegraph.pl`, inferno, speedscope and others.
//!
//! Specification: the head of `flamegraph.pl` (brendangregg/FlameGraph).

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::stacks::Stacks;
use crate::surroundings::Surroundings;
use relive_profile::model::Profile;
use relive_sequence::Sequence;
use std::io::Write;

/// The format.
pub(super) struct Folded;

impl Exporter for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn about(&self) -> &'static str {
        "stacks, one a line, for flame graphs; estimated for a profile, exact for calls (.rcalls)"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        write(&Stacks::estimated(profile, around), out)
    }

    fn write_calls(&self, calls: &Sequence, out: &mut dyn Write) -> Result<Summary, ExportError> {
        write(&Stacks::exact(calls), out)
    }
}

fn write(stacks: &Stacks, out: &mut dyn Write) -> Result<Summary, ExportError> {
    let names: Vec<String> = stacks.frames.iter().map(|frame| frame.name.replace(';', ":")).collect();
    let mut lines = 0;
    for stack in stacks.stacks.iter().filter(|stack| stack.own > 0) {
        let mut way = vec![&*names[stack.frame]];
        let mut above = stack.parent;
        while let Some(parent) = above.map(|parent| &stacks.stacks[parent]) {
            way.push(&names[parent.frame]);
            above = parent.parent;
        }
        way.reverse();
        writeln!(out, "{} {}", way.join(";"), stack.own)?;
        lines += 1;
    }
    Ok(stacks.summary(lines))
}
