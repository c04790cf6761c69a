//! `relive bisect`: which function behaves differently once it is rewritten.

mod args;
mod run;
mod search;

pub(crate) use args::Args;

use crate::command::mentions_file;
use crate::console::say;
use crate::instrument::{Made, Subject, Wanted, beside, ground, write_program};
use crate::output::{Finding, grouped};
use crate::progress::{Phase, Progress};
use crate::remedy::with_remedy;
use crate::scratch::Scratch;
use anyhow::{Context as _, Result, anyhow, bail};
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options as LoadOptions};
use relive_image::program::{FunctionId, Program, analyze_watched};
use relive_probe::describe::Fate;
use run::Outcome;
use std::collections::HashSet;
use std::time::Duration;

/// Searches.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !mentions_file(&args.command) {
        bail!("the command does not say where the program goes: write {{}} in its place");
    }
    let loaded = Loaded::open(&args.binary, &LoadOptions::default()).map_err(with_remedy)?;
    let named = || args.binary.display().to_string();
    let image = loaded.image().map_err(with_remedy).with_context(named)?;
    let progress = Progress::start(&[("analyse", 1)]);
    let program = analyze_watched(&image, progress.watch());
    drop(progress);
    let wanted = Wanted::new(&image, &program, &args.only, &args.except)?;
    let lines = Lines::new(&loaded);
    let ground = ground(&args.binary, &image, &program)?;
    let subject = Subject {
        binary: &args.binary,
        image: &image,
        program: &program,
        ground: &ground,
        lines: &lines,
        mode: args.mode.into(),
        calls: args.calls.into(),
        trap: args.trap,
        weights: None,
        pattern: "./bisect.rprof",
    };
    let scratch = Scratch::new()?;
    let folder = scratch.0.join("bin");
    let file = beside::place(&args.binary, &folder)?;
    beside::link_others(&args.binary, &file)?;
    let timeout = Duration::try_from_secs_f64(args.timeout)
        .ok()
        .filter(|timeout| !timeout.is_zero())
        .context("--timeout needs a number of seconds above zero")?;
    let trial = Trial {
        args,
        subject: &subject,
        command: run::Subject {
            command: &args.command,
            file,
            scratch: &scratch.0,
            stderr: args.stderr,
            timeout,
        },
    };
    let native = trial.native()?;
    say!("native: {}", native.ending());
    let made = trial.make(&|id| wanted.has(id))?;
    let measured: Vec<FunctionId> = (0..)
        .map(FunctionId)
        .zip(&made.outline.fates)
        .filter(|(_, fate)| matches!(fate, Fate::Measured(_)))
        .map(|(id, _)| id)
        .collect();
    trial.put(&made.rewritten.bytes)?;
    drop(made);
    let Some(difference) = trial.difference(&native)? else {
        println!(
            "no difference: all {} functions rewritten, {} as without",
            grouped(measured.len() as u64),
            if args.repeat > 1 {
                format!("{} runs did the same", args.repeat)
            } else {
                "it did the same".into()
            }
        );
        return Ok(());
    };
    say!("rewritten, {} functions: {difference}", grouped(measured.len() as u64));
    trial.still(&native)?;
    let culprits = search::minimal(&measured, &mut |part| {
        let fails = trial.fails(part, &native)?;
        let said = fails.as_deref().unwrap_or("no difference");
        say!("{:>10} functions: {said}", grouped(part.len() as u64));
        Ok(fails.is_some())
    })?;
    let again = trial.fails(&culprits, &native)?;
    trial.still(&native)?;
    if again.is_none() {
        eprintln!("it does not show every time: with --repeat above {} the result is surer", args.repeat);
    }
    let difference = again.unwrap_or(difference);
    print(args, &program, &culprits, &difference);
    Err(Finding(format!("{}: rewriting changes what it does: {difference}", args.binary.display())).into())
}

fn unsteady(difference: &str) -> anyhow::Error {
    anyhow!(
        "the command does not do the same twice, even with the program as it is ({difference}): nothing can be \
         compared. Take times, addresses and random numbers out of what it prints"
    )
}

struct Trial<'a, 'd> {
    args: &'a Args,
    subject: &'a Subject<'a, 'd>,
    command: run::Subject<'a>,
}

/// What rewriting consists of, and how long that takes in comparison.
const REWRITING: &[Phase] = &[("plan", 15), ("describe", 13), ("rewrite", 32)];

impl Trial<'_, '_> {
    /// Rewrites the functions that are wanted.
    fn make(&self, wanted: &(dyn Fn(FunctionId) -> bool + Sync)) -> Result<Made> {
        let progress = Progress::start(REWRITING);
        self.subject.make(&|id| wanted(id), progress.watch(), &mut |_| progress.next())
    }

    /// Makes sure that the program as it is still does what it did: otherwise the difference is none of
    /// ours.
    fn still(&self, native: &Outcome) -> Result<()> {
        match self.native()?.difference(native) {
            None => Ok(()),
            Some(difference) => Err(unsteady(&difference)),
        }
    }

    /// What the command does with the program as it is, which must be the same each time.
    fn native(&self) -> Result<Outcome> {
        let bytes = std::fs::read(&self.args.binary)
            .with_context(|| format!("cannot read {}", self.args.binary.display()))?;
        // At the same path as the rewritten one: programs print it, and look around it.
        self.put(&bytes)?;
        let first = self.command.run()?;
        for _ in 0..self.args.repeat.max(2) - 1 {
            if let Some(difference) = self.command.run()?.difference(&first) {
                return Err(unsteady(&difference));
            }
        }
        if !first.ended() {
            bail!("the program as it is takes longer than --timeout {}: give it more", self.args.timeout);
        }
        Ok(first)
    }

    fn put(&self, bytes: &[u8]) -> Result<()> {
        write_program(&self.args.binary, &self.command.file, bytes)
    }

    /// Runs what was put there; what differs from the native run in any of the repetitions.
    fn difference(&self, native: &Outcome) -> Result<Option<String>> {
        for _ in 0..self.args.repeat.max(1) {
            if let Some(difference) = self.command.run()?.difference(native) {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// What differs if only `part` is rewritten.
    fn fails(&self, part: &[FunctionId], native: &Outcome) -> Result<Option<String>> {
        let wanted: HashSet<FunctionId> = part.iter().copied().collect();
        let made = self.make(&|id| wanted.contains(&id))?;
        self.put(&made.rewritten.bytes)?;
        self.difference(native)
    }
}

fn print(args: &Args, program: &Program<'_>, culprits: &[FunctionId], difference: &str) {
    let binary = args.binary.display();
    match culprits {
        [_] => println!("one function is enough: {difference}"),
        all => println!("these {} functions together: {difference}", all.len()),
    }
    let mut names = Vec::new();
    for &id in culprits {
        let function = program.function(id);
        println!("  {}  {} ({} bytes)", function.entry, function.name(), function.size());
        println!("      relive inspect {binary} --function {:#x}", function.entry.0);
        names.push(format!("{:#x}", function.entry.0));
    }
    println!("without: relive instrument {binary} -o OUT --except {}", names.join(","));
    println!("to check the rewriting itself: relive instrument {binary} -o OUT --verify");
}
