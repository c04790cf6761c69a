//! `relive inspect`: the phases, and which view is printed.

mod annotations;
mod callgraph;
mod drawing;
mod json;
mod listing;
mod select;
mod summary;
mod tables;
mod verify;

use crate::args::Inspect;
use crate::output::write_to;
use crate::progress::{Phase, Progress};
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result};
use relive_image::annotations::gains::Gains;
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_image::names::demangle;
use relive_image::program::{Function, Program, Statistics, analyze_watched};
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// What it does, and how long that takes in comparison: as for gcc's `cc1`.
const PHASES: &[Phase] =
    &[("read file", 1), ("read facts", 1), ("analyse", 75), ("loops and liveness", 23), COMPARE];

/// The same with `--verify`.
const VERIFIED: &[Phase] = &[
    ("read file", 1),
    ("read facts", 1),
    ("analyse", 75),
    ("verify", 150),
    ("loops and liveness", 23),
    COMPARE,
];

/// Only with `--annotations`, and then the last.
const COMPARE: Phase = ("analyse without annotations", 75);

/// Everything the views print from.
pub(crate) struct Subject<'a, 'd> {
    /// The file.
    pub(crate) loaded: &'d Loaded,
    /// What it says.
    pub(crate) image: &'a Image<'d>,
    /// What follows.
    pub(crate) program: Program<'d>,
    /// Source lines.
    pub(crate) lines: Lines<'d>,
    /// Show names as in the symbol table.
    pub(crate) mangled: bool,
    /// What annotations gave, if that is wanted.
    gains: Option<Gains>,
    timings: Vec<(&'static str, Duration)>,
}

impl Subject<'_, '_> {
    /// The name of a function as the user wants to see it.
    pub(crate) fn name<'f>(&self, function: &'f Function<'_>) -> Cow<'f, str> {
        match (self.mangled, function.name()) {
            (false, Cow::Borrowed(name)) => demangle(name),
            (_, name) => name,
        }
    }
}

/// Looks at the file and prints the view that was asked for.
pub(crate) fn run(args: &Inspect) -> Result<()> {
    let mut timings = Vec::new();
    let mut timed = Instant::now();
    let compares = compares(args);
    let phases = if args.verify { VERIFIED } else { PHASES };
    let progress = Progress::start(&phases[..phases.len() - usize::from(!compares)]);
    let mut lap = |name| {
        timings.push((name, timed.elapsed()));
        timed = Instant::now();
        progress.next();
    };
    let options = Options {
        find_debug_file: !args.no_debug_file,
        debug_roots: args.debug_root.clone(),
        annotations: args.annotations.clone().flatten(),
    };
    let loaded = Loaded::open(&args.binary, &options).map_err(anyhow::Error::from).map_err(with_remedy)?;
    lap("read file");
    let image = loaded
        .image()
        .map_err(anyhow::Error::from)
        .map_err(with_remedy)
        .with_context(|| args.binary.display().to_string())?;
    lap("read facts");
    let program = analyze_watched(&image, progress.watch());
    lap("analyse");
    let lines = Lines::new(&loaded);
    let mut subject = Subject {
        loaded: &loaded,
        image: &image,
        program,
        lines,
        mangled: args.mangled,
        gains: None,
        timings: Vec::new(),
    };
    if args.verify {
        verify::run(&subject, &progress)?;
        lap("verify");
    }
    let statistics = needs_statistics(args).then(|| Statistics::new(subject.image, &subject.program));
    lap("loops and liveness");
    if compares {
        let image = loaded.image_without_annotations().map_err(with_remedy)?;
        let without = analyze_watched(&image, progress.watch());
        subject.gains = Some(Gains::new(&subject.program, &without));
        lap(COMPARE.0);
    }
    drop(progress);
    subject.timings = timings;
    write_to(args.output.as_deref(), |out| match (&args.function, statistics) {
        (Some(wanted), _) => {
            let function = select::function(&subject, wanted)?;
            match (args.callgraph, args.dot, args.svg) {
                (true, ..) => callgraph::print(&subject, Some(function), args, out),
                (false, false, false) => listing::print(&subject, function, args, out),
                _ => drawing::print(&subject, function, args, out),
            }
        }
        (None, _) if args.callgraph => callgraph::print(&subject, None, args, out),
        (None, _) if args.functions => tables::functions(&subject, out),
        (None, _) if args.blocks => tables::blocks(&subject, out),
        (None, Some(statistics)) if args.json => json::print(&subject, &statistics, out),
        (None, Some(_)) if let Some(gains) = &subject.gains => {
            annotations::print(&subject, gains, args.all, out)
        }
        (None, Some(statistics)) => summary::print(&subject, &statistics, out),
        (None, None) => {
            anyhow::bail!("--dot and --svg draw one function: add --function NAME, or --callgraph")
        }
    })?;
    if args.timings {
        print_timings(&subject);
    }
    Ok(())
}

/// Whether it is asked for what annotations give.
fn compares(args: &Inspect) -> bool {
    args.annotations.is_some() && needs_statistics(args)
}

fn needs_statistics(args: &Inspect) -> bool {
    args.function.is_none() && !(args.functions || args.blocks || args.callgraph || args.dot || args.svg)
}

fn print_timings(subject: &Subject<'_, '_>) {
    for (name, duration) in &subject.timings {
        eprintln!("{:>9.1} ms  {name}", duration.as_secs_f64() * 1e3);
        if *name == "analyse" {
            for (phase, duration) in &subject.program.timings {
                eprintln!("{:>9.1} ms    {phase}", duration.as_secs_f64() * 1e3);
            }
        }
    }
}
