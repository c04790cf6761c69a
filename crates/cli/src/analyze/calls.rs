//! `relive analyze calls`: the sequence of calls of a run, as a file.

use super::Of;
use super::places::{Described, Files, Places};
use crate::console::say;
use crate::exempt::Exempt;
use crate::functions::holding;
use crate::output::{grouped, write_to};
use crate::traced::Traced;
use anyhow::Result;
use relive_analysis::Analysis as _;
use relive_analysis::calls::{Calls, Functions, Where};
use relive_analysis::place::Addresses;
use relive_image::names::cold_parent;
use relive_sequence::{Module, Sequence, file};
use relive_trace::Trace;
use relive_trace::process::Origin;
use relive_trace::units::Unit;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

const EXAMPLES: &str = "\
EXAMPLES:
  relive trace --control-flow-only -- ./app && relive analyze calls app.rtrace
      leaves app.rcalls: all calls of all threads, in order and one in the other
  relive dump app.rcalls --sequence
  relive dump app.rcalls --sequence --flat --under main
      main foo fi fi fi fee fj
  relive analyze calls app.rtrace --except plan.json -o partial.rcalls
      without what functions call of which that is known already

Functions are told by the files that were traced, if they are still the same build.";

/// Arguments of `relive analyze calls`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("output", |output| output
    .help("Where the sequence goes [default: the name of the trace with .rcalls]")))]
pub(crate) struct Args {
    #[command(flatten)]
    of: Of,

    /// Leave out what functions call that a plan exempts
    #[arg(long, value_name = "PLAN", help_heading = "What to write down")]
    except: Option<PathBuf>,
}

impl Args {
    pub(super) fn of(&self) -> &Of {
        &self.of
    }
}

pub(super) fn run(args: &Args, open: impl FnOnce() -> Result<Trace>) -> Result<()> {
    let exempt = args.except.as_deref().map(Exempt::read).transpose()?;
    let trace = &open()?;
    let traced = Traced::of_file(trace);
    let sequence = sequence(args, trace, &traced, exempt.as_ref())?;
    let output = args.of.output.clone().unwrap_or_else(|| {
        let of_trace = args.of.trace.as_ref().map(|trace| trace.with_extension("rcalls"));
        of_trace.unwrap_or_else(|| format!("{}.rcalls", traced.name).into())
    });
    let bytes = file::write(&sequence);
    write_to(Some(&output), |out| Ok(out.write_all(&bytes)?))?;
    say!(
        "relive: {}: {} calls of {} functions, {} bytes",
        output.display(),
        grouped(sequence.len()),
        grouped(sequence.functions.len() as u64),
        grouped(bytes.len() as u64)
    );
    Ok(())
}

fn sequence(args: &Args, trace: &Trace, traced: &Traced<'_>, exempt: Option<&Exempt>) -> Result<Sequence> {
    let files = Files::open(traced, &[]);
    let places = Places::new(traced, &files, true);
    let named = Named::new(traced, &places);
    let mut calls = Calls::new(traced.processes().map(|process| process.number), traced, &named);
    if let Some(exempt) = exempt {
        let (module, _) = exempt.module(traced.modules)?;
        for (address, name) in &exempt.functions {
            calls.exempt(module as u32, *address, Some(name.as_str()).filter(|name| !name.is_empty()));
        }
    }
    args.of.ask(trace, &mut calls)?;
    Ok(calls.finish(traced, &Addresses))
}

/// Where a function begins, and what it is called.
type Beginning = (u64, Arc<str>);

/// Functions by the symbols of files.
pub(super) struct Named<'p, 'f> {
    traced: &'p Traced<'p>,
    places: &'p Places<'f>,
    /// By file and address: the function that a cold part belongs to.
    parents: RefCell<HashMap<(PathBuf, u64), Option<Beginning>>>,
}

impl<'p, 'f> Named<'p, 'f> {
    pub(super) fn new(traced: &'p Traced<'p>, places: &'p Places<'f>) -> Self {
        Self { traced, places, parents: RefCell::default() }
    }
}

impl Functions for Named<'_, '_> {
    fn modules(&self) -> Vec<Module> {
        let module = |module: &relive_trace::Module| Module {
            path: module.path.to_string_lossy().into_owned(),
            build_id: module.build_id.clone(),
        };
        self.traced.modules.iter().map(module).collect()
    }

    fn at(&self, process: u32, unit: &Unit, pc: u64) -> Where {
        let nowhere = Where { address: pc, ..Where::default() };
        let Some(mapping) = self.traced.process(process).and_then(|process| process.mapping(unit, pc)) else {
            return nowhere;
        };
        let Origin::File(path) = &mapping.origin else { return nowhere };
        let module = self.traced.modules.iter().position(|module| *module.path == **path);
        let Some(module) = module.map(|module| module as u32) else { return nowhere };
        let offset = pc.wrapping_add(mapping.offset);
        let file = self.places.described(path);
        let Some((file, address)) = file.and_then(|file| Some((file.clone(), file.link_address(offset)?)))
        else {
            return Where { module: Some(module), address: offset, function: None };
        };
        let function = holding(file.functions(), address).map(|(start, name)| (start, name.clone()));
        let function = function.map(|(start, name)| {
            if cold_parent(&name).is_none() {
                return (start, name);
            }
            let mut parents = self.parents.borrow_mut();
            let parent = parents.entry((path.to_path_buf(), start)).or_insert_with(|| parent(&file, &name));
            parent.clone().unwrap_or((start, name))
        });
        Where { module: Some(module), address, function }
    }
}

/// The function that a cold part was split from.
fn parent(file: &Described<'_>, name: &str) -> Option<Beginning> {
    let parent = cold_parent(name)?;
    let mut functions = file.functions().iter();
    functions.find(|(.., own)| **own == *parent).map(|(start, _, own)| (*start, own.clone()))
}
