//! The report as a page.
//!
//! What everything needs, tables and numbers, is read by the page at once; what belongs to one function (blocks,
//! disassembly, a drawing of its graph, source) lies in packs that are opened when somebody looks at it. Graphs of all functions that
//! ran are laid out here, not in the page: one layout, and the page stays small.

mod function;
mod graph;
mod programs;
mod sources;

use super::facts::{Facts, FunctionFacts};
use super::json;
use super::text::shown;
use crate::args::Report;
use crate::output::{field, write_to};
use crate::picture::METRICS;
use crate::progress::{Phase, Progress};
use anyhow::Result;
use function::Detail;
use programs::Programs;
use rayon::prelude::*;
use relive_html::packs::Place;
use relive_html::{Kind, Packs, Page};
use relive_profile::callees::Callees;
use relive_profile::model::{Function, Module, Profile};
use serde_json::{Value, json};
use sources::Sources;
use std::collections::HashMap;
use std::path::Path;

const PHASES: &[Phase] = &[("read programs", 10), ("draw", 80), ("read source", 10)];

/// So many functions are drawn before the next ones: all at once would be held in memory.
const AT_ONCE: usize = 512;

/// What details are made of.
struct Context<'c> {
    args: &'c Report,
    profile: &'c Profile,
    programs: Programs<'c>,
    callees: Callees<'c>,
    /// The rows of functions, by where they are in memory: each is there once.
    rows: HashMap<usize, usize>,
}

impl Context<'_> {
    /// The row of a function.
    fn row(&self, function: &Function) -> Option<usize> {
        self.rows.get(&std::ptr::from_ref(function).addr()).copied()
    }

    /// A name as the user wants to see it.
    fn shown(&self, name: &str) -> String {
        shown(name, self.args).into_owned()
    }
}

/// Writes the page to `file`.
pub(super) fn run(profile: &Profile, facts: &Facts<'_>, file: &Path, args: &Report) -> Result<()> {
    let progress = Progress::start(PHASES);
    let opened = programs::open(profile, args)?;
    let rows = facts.functions.iter().enumerate();
    let rows = rows.map(|(row, facts)| (std::ptr::from_ref(facts.function).addr(), row)).collect();
    let context =
        Context { args, profile, programs: Programs::new(&opened), callees: Callees::new(profile), rows };
    progress.next();
    let mut packs = Packs::default();
    let mut sources = Sources::default();
    let places = pack(&context, facts, &mut packs, &mut sources, &progress)?;
    progress.next();
    let files = sources.pack(&mut packs)?;
    let data = data(&context, facts, &places, files);
    let title = format!("{} – relive", args.profile.file_name().unwrap_or_default().to_string_lossy());
    let packs = packs.finish()?;
    let page = Page { title: &title, kind: Kind::Report, data: &data, packs: &packs };
    let written = write_to(Some(file), |out| Ok(page.write(out)?));
    progress.clear();
    written
}

/// Puts what belongs to one function into packs, the hottest first, until the page is large enough.
fn pack(
    context: &Context<'_>,
    facts: &Facts<'_>,
    packs: &mut Packs,
    sources: &mut Sources,
    progress: &Progress,
) -> Result<Vec<Option<Place>>> {
    let most = u64::from(context.args.html_size) << 20;
    let mut places = vec![None; facts.functions.len()];
    let ran: Vec<usize> = (0..places.len()).filter(|&row| facts.functions[row].is_executed()).collect();
    progress.watch().begin(ran.len());
    for some in ran.chunks(AT_ONCE) {
        let details: Vec<Detail<'_>> =
            some.par_iter().map(|&row| Detail::new(context, &facts.functions[row])).collect();
        for (&row, mut detail) in some.iter().zip(details) {
            if packs.len() < most {
                sources.number(&mut detail);
                places[row] = Some(packs.add(&detail)?);
            }
            progress.watch().step();
        }
    }
    Ok(places)
}

/// What the page needs at once. Functions, loops and calls are columns: their names are written once.
fn data(context: &Context<'_>, facts: &Facts<'_>, places: &[Option<Place>], files: Value) -> Value {
    let number = |module: &Module| facts.number(module);
    let column =
        |cell: &dyn Fn(&FunctionFacts<'_>) -> Value| facts.functions.iter().map(cell).collect::<Value>();
    let modules = facts.modules.iter().enumerate().map(|(i, each)| {
        let mut module = json::module(each);
        module["label"] = facts.label(each.module).map_or_else(|| name_of(each.module), Value::from);
        module["program"] = context.programs.state(i).into();
        module
    });
    let is_carried = facts.modules.iter().any(|module| !module.module.carried.is_empty());
    let mut functions = json!({
        "name": column(&|row| context.shown(row.module.name(row.function)).into()),
        "module": column(&|row| number(row.module).into()),
        "address": column(&|row| row.function.address.into()),
        "size": column(&|row| row.function.size.into()),
        "entries": column(&|row| row.entries.into()),
        "instructions": column(&|row| row.instructions.into()),
        "blocks": column(&|row| row.blocks.total.into()),
        "executed": column(&|row| row.blocks.executed.into()),
        "place": places.iter().map(|place| json!(place)).collect::<Value>(),
    });
    // What few functions have is told by their rows.
    let notes = facts.functions.iter().enumerate().filter_map(|(i, row)| {
        let text = |id| row.module.text(id);
        let reason = row.function.state.reason().map(text);
        let state = if row.function.state.is_not_measured() { "not-measured" } else { "entry-only" };
        let approximate = row.function.approximate.map(text);
        (reason.is_some() || approximate.is_some())
            .then(|| json!({ "row": i, "state": reason.map(|_| state), "reason": reason, "approximate": approximate }))
    });
    functions["notes"] = notes.collect();
    if is_carried {
        functions["confidence"] = column(&|row| row.confidence.into());
        functions["origins"] = column(&|row| {
            row.origins.iter().map(|(origin, executions)| json!([origin.to_string(), executions])).collect()
        });
    }
    let row = |function: &Function| context.row(function);
    json!({
        "profile": context.args.profile.to_string_lossy(),
        "version": env!("CARGO_PKG_VERSION"),
        "instructions": facts.instructions,
        "metrics": METRICS,
        "limits": { "lines": function::LINES, "size": context.args.html_size },
        "carried": is_carried,
        "modules": modules.collect::<Value>(),
        "functions": functions,
        "loops": facts.loops.iter().filter(|l| l.counts.iterations.value() > 0).map(|l| json!([
            row(l.function),
            l.looped.header,
            l.address(),
            l.looped.line.map(|line| format!("{}:{}", l.module.file(line), line.line)),
            l.looped.depth,
            l.counts.entries.value(),
            l.counts.iterations.value(),
            l.trips(),
            l.instructions,
        ])).collect::<Value>(),
        "calls": facts.calls.iter().map(|call| json!([
            row(call.caller),
            call.function.and_then(row),
            // A name is only needed where there is no row that has it.
            call.function.is_none().then(|| if call.callee == "?" { "unknown".to_string() } else { context.shown(&call.callee) }),
            call.count,
        ])).collect::<Value>(),
        "files": files,
        "hot": graph::hot_calls(context, facts),
    })
}

/// The last part of the path of a module.
fn name_of(module: &Module) -> Value {
    field(module.path.rsplit('/').next().unwrap_or_default()).into()
}
