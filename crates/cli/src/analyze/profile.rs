//! `relive analyze profile`: what a trace tells of how often code was executed, as a profile.

use super::{Of, Once};
use crate::functions::is_as_traced;
use crate::run::exempt::Except;
use crate::run::save::{Describe, save_all};
use crate::traced::Traced;
use anyhow::Result;
use relive_abi::engine::{self as abi, GUESS, INDIRECT_CALL, INDIRECT_JUMP};
use relive_analysis::profile::{Counts, Left, Profile};
use relive_analysis::{Analysis as _, place::Addresses};
use relive_launch::seen::{self, Place, Seen, Stopped};
use relive_trace::process::{Mapping, Origin, Process};
use relive_trace::units::{Exit, Unit};
use std::collections::BTreeMap;

const EXAMPLES: &str = "\
EXAMPLES:
  relive trace --control-flow-only -- ./app && relive analyze profile app.rtrace
      leaves app.rprof: how often every block and edge of the program and its libraries was executed
  relive report app.rprof

Files that have changed since, or are gone, are left out, and a warning says so.";

/// Arguments of `relive analyze profile`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("output", |output| output
    .help("Where the profile goes [default: the name of the trace with .rprof]")))]
pub(crate) struct Args {
    #[command(flatten)]
    of: Of,

    #[command(flatten)]
    describe: Describe,
}

impl Once for Args {
    type Analysis = Profile;

    fn of(&self) -> &Of {
        &self.of
    }

    fn analysis(&self) -> Result<Profile> {
        Ok(Profile::default())
    }

    fn answer(&self, analysis: Profile, traced: &Traced<'_>) -> Result<()> {
        let counts = analysis.finish(traced, &Addresses);
        let mut seen: BTreeMap<u32, Seen> = BTreeMap::new();
        for process in traced.processes() {
            let Some(counts) = counts.get(&process.number) else { continue };
            let number = if self.describe.per_process { process.number + 1 } else { 0 };
            add(seen.entry(number).or_insert_with(Seen::nothing), process, counts);
        }
        let changed = traced.modules.iter().filter(|module| !is_as_traced(module, "it is left out"));
        let changed = changed.map(|module| module.path.clone()).collect();
        let output = self.of.output.clone().unwrap_or_else(|| {
            let trace = self.of.trace.as_deref();
            trace.map_or_else(
                || format!("{}.rprof", traced.name).into(),
                |trace| trace.with_extension("rprof"),
            )
        });
        save_all(&self.describe, &output, &seen, traced.began, changed, Except::default())
    }
}

/// Adds what a process has executed.
fn add(seen: &mut Seen, process: &Process, counts: &Counts) {
    let stopped = stopped(process, counts);
    let mut telling = seen.process(process.pid);
    let mut mappings = process.mappings.iter();
    let mut mapped = 0;
    // Where the pieces of units are.
    let mut places: Vec<Vec<Place>> = Vec::new();
    for unit in process.units.all() {
        while mapped < unit.mappings
            && let Some(Mapping { start, end, offset, origin }) = mappings.next()
        {
            telling.mapping(*start, *end, *offset, self::origin(origin));
            mapped += 1;
        }
        let stopped = stopped.get(&unit.number).cloned().unwrap_or_default();
        places.push(telling.unit(&shape(unit), &count(unit, counts, stopped)).unwrap_or_default());
    }
    for (&(Left { unit, exit }, to), &times) in &counts.computed {
        let Some(unit) = process.units.all().get(unit as usize) else { continue };
        let exit = &unit.exits[exit as usize];
        let piece = usize::from(exit.piece);
        let is_way = matches!(exit.kind.into(), INDIRECT_JUMP | INDIRECT_CALL);
        let site = (exit.steps as usize).checked_sub(1).and_then(|last| unit.steps.get(last));
        let from = places[unit.number as usize].get(piece).zip(unit.pieces.get(piece)).zip(site);
        let to = places.get(to as usize).and_then(|pieces| pieces.first());
        if let Some((((&(file, start), piece), site), &to)) = from.zip(to).filter(|_| is_way) {
            telling.target((file, site.pc.wrapping_sub(piece.0).wrapping_add(start)), to, times);
        }
    }
    telling.finish();
}

fn origin(origin: &Origin) -> seen::Origin {
    match origin {
        Origin::File(path) => seen::Origin::File(path.to_path_buf()),
        Origin::Kernel => seen::Origin::Kernel,
        Origin::Generated => seen::Origin::Generated,
    }
}

/// By unit, where it was left in the middle.
fn stopped(process: &Process, counts: &Counts) -> BTreeMap<u32, Vec<Stopped>> {
    let mut all: BTreeMap<u32, Vec<Stopped>> = BTreeMap::new();
    for (number, steps, times) in counts.executions.stopped().filter(|(.., times)| *times > 0) {
        let Some(unit) = process.units.all().get(number as usize) else { continue };
        let end = || Some((unit.pieces.len() as u32 - 1, unit.pieces.last()?.1));
        let next = unit.steps.get(steps as usize).map(|step| (step.piece.into(), step.pc));
        let Some((piece, pc)) = next.or_else(end) else { continue };
        all.entry(number).or_default().push(Stopped { piece, pc, times, is_counted: true });
    }
    all
}

fn shape(unit: &Unit) -> seen::Unit<'_> {
    let exit = |exit: &Exit| abi::Exit { to: exit.to, number: 0, piece: exit.piece, kind: exit.kind };
    let mut shape = seen::Unit {
        pieces: unit.pieces.iter().map(|&(start, end)| abi::Piece { start, end }).collect(),
        exits: unit.exits.iter().map(exit).collect(),
        code: Vec::new(),
    };
    // Of what lies in files, nobody asks.
    let _ = shape.set_code(&unit.code);
    shape
}

fn count(unit: &Unit, counts: &Counts, stopped: Vec<Stopped>) -> seen::Counts {
    let exit = |number| counts.executions.exit(unit, number);
    let of_piece = |piece| (0..unit.exits.len()).filter(move |&number| unit.exits[number].piece == piece);
    let left = (0..unit.exits.len()).map(|number| match u32::from(unit.exits[number].kind) {
        // Whoever finds a guess wrong leaves by another exit.
        GUESS => of_piece(unit.exits[number].piece).map(exit).sum(),
        _ => exit(number),
    });
    let (left, in_the_middle) = (left.collect(), stopped.iter().map(|stopped| stopped.times).sum::<u64>());
    let entered = (0..unit.exits.len()).map(exit).sum::<u64>() + in_the_middle;
    seen::Counts { entered: Some(entered), stopped, left }
}
