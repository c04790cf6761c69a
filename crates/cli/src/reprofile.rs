//! `relive reprofile`: a whole round of ProfMig. What of an old profile still holds is taken over, the rest is measured, and
//! both are put together.

use crate::build::choose;
use crate::command::{mentions_file, with_file};
use crate::console::say;
use crate::instrument::{CountMode, Made, NothingToMeasure, Subject, Wanted, ground, write_program};
use crate::matching::fingerprint;
use crate::output::{grouped, percent, write_to};
use crate::plan::{CheckedRun, Choice, Impact, Planning};
use crate::profiles;
use crate::progress::{Phase, Progress};
use crate::remedy::with_remedy;
use crate::scratch::Scratch;
use anyhow::{Context as _, Result, bail};
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_image::program::analyze_watched;
use relive_image::watch::Watch;
use relive_matching::match_builds;
use relive_migrate::carry::{Old, carry};
use relive_migrate::reprofile::unite::unite;
use relive_probe::survey::Survey;
use relive_probe::weights::Weights;
use relive_profile::file;
use relive_profile::model::{Module, Profile};
use relive_rewrite::module::Selection;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const EXAMPLES: &str = "\
EXAMPLES:
  relive reprofile app-1.0.rprof --to app-1.1 -o app-1.1.rprof -- {} input.txt
      what app-1.1 does with input.txt, by what app-1.0 did with it: only functions that changed are measured. {} stands
      for the new build
  relive reprofile app-1.0.rprof --to app-1.1 -o app-1.1.rprof --impact checked \\
      --check-profile small-1.0.rprof --check-command '{} small.txt' -- {} input.txt
      what costs next to nothing is counted; of the rest, a short run first tells what counts something else now

Exit status: 0 done, 2 a file cannot be read, or the command cannot be run or failed.";

/// Arguments of `relive reprofile`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The profile of the old build
    profile: PathBuf,

    /// The new build
    #[arg(long, value_name = "BINARY")]
    to: PathBuf,

    /// Where the profile of the new build goes
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    choice: Choice,

    /// With --impact checked: what the old build did on a short input
    #[arg(long, value_name = "PROFILE", requires = "check_command", help_heading = "What is measured again")]
    check_profile: Option<PathBuf>,

    /// With --impact checked: the command that does the same with the new build, for the shell
    #[arg(long, value_name = "CMD", requires = "check_profile", help_heading = "What is measured again")]
    check_command: Option<String>,

    /// Keep the plan too
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Keep the program that measures the rest too
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Show how long each step took
    #[arg(long)]
    timings: bool,

    /// The command to measure, with {} where the new build goes
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const PHASES: &[Phase] = &[
    ("read", 30),
    ("compare", 20),
    ("carry", 10),
    ("check", 10),
    ("plan", 10),
    ("rewrite", 20),
    ("run", 10),
];

/// Does the whole round.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !mentions_file(&args.command) {
        bail!(
            "the command does not say where the new build goes: put {{}} in its place, as in -- {{}} input.txt"
        );
    }
    let mut timings = Timings::new();
    let progress = Progress::start(PHASES);
    let scratch = Scratch::new()?;
    let old = choose(profiles::open(&args.profile)?.modules, &args.profile, &args.to)?;
    let loaded = Loaded::open(&args.to, &Options::default()).map_err(with_remedy)?;
    let image = loaded.image().map_err(with_remedy).with_context(|| args.to.display().to_string())?;
    let program = analyze_watched(&image, progress.watch());
    let lines = Lines::new(&loaded);
    let survey = Survey::new(&image, &program);
    let place = std::fs::canonicalize(&args.to).unwrap_or_else(|_| args.to.clone());
    let new = survey.module(Some(&lines), &place.to_string_lossy(), progress.watch());
    timings.lap("read");
    progress.next();
    let matching = match_builds(&fingerprint(&old, &args.profile)?, &fingerprint(&new, &args.to)?);
    timings.lap("compare");
    progress.next();
    let likely = |function| survey.likelihood(function);
    let carried = carry(new.clone(), &[Old { module: &old, matching: &matching }], &likely);
    let weights = Weights::new(&carried);
    timings.lap("carry");
    progress.next();
    let choice = &args.choice;
    let ground = ground(&args.to, &image, &program)?;
    let subject = Subject {
        binary: &args.to,
        image: &image,
        program: &program,
        ground: &ground,
        lines: &lines,
        mode: CountMode::Edges.into(),
        calls: choice.behaviours()?.iter().any(|behaviour| behaviour.about.has_calls()),
        trap: false,
        weights: Some(&weights),
        pattern: "./relive.rprof",
    };
    let made = Making { subject: &subject, scratch: &scratch.0, binary: &args.to };
    let to = &args.to;
    let planning =
        Planning { old: &old, new: &new, matching: &matching, carried: &carried, to, likely: &likely };
    let (mut increments, mut checked) = (0, Vec::new());
    if let (Impact::Checked, Some(profile), Some(command)) =
        (choice.impact, &args.check_profile, &args.check_command)
    {
        // Not only after the run.
        let on_short = choose(profiles::open(profile)?.modules, profile, to)?;
        let candidates = planning.candidates(choice)?;
        if !candidates.is_empty()
            && let Some(some) =
                made.program("check", &Wanted::blocks(&program, candidates), progress.watch())?
        {
            let fresh = made.measure(&some, &shell(command), "check")?;
            let fresh = choose(profiles::open(&fresh)?.modules, &fresh, to)?;
            increments += fresh.increments();
            checked.push(CheckedRun { old: on_short, old_path: profile.clone(), fresh });
        }
    }
    timings.lap("check");
    progress.next();
    let plan = planning.plan(choice, checked)?;
    if let Some(path) = &args.plan {
        write_to(Some(path), |out| Ok(out.write_all(plan.write().as_bytes())?))?;
    }
    let exempt: HashSet<u64> = plan.exempt_addresses().into_iter().collect();
    timings.lap("plan");
    progress.next();
    let mut fresh = None;
    // If everything holds, or all that can be measured does, there is nothing to measure.
    let rest = match plan.measure.is_empty() {
        true => None,
        false => made.program("rest", &Wanted::by_plan(&program, &plan), progress.watch())?,
    };
    match &rest {
        Some(rest) => {
            if let Some(kept) = &args.program {
                let bytes = std::fs::read(rest).with_context(|| format!("cannot read {}", rest.display()))?;
                write_program(to, kept, &bytes)?;
            }
            timings.lap("rewrite");
            progress.next();
            let profile = made.measure(rest, &args.command, "fresh")?;
            timings.lap("run");
            fresh = Some(choose(profiles::open(&profile)?.modules, &profile, to)?);
        }
        None => say!("relive: nothing is left that could be measured: the command was not run"),
    }
    let merged = match &fresh {
        Some(fresh) => unite(&carried, fresh, &|address| exempt.contains(&address))?,
        None => carried,
    };
    increments += fresh.as_ref().map_or(0, Module::increments);
    drop(progress);
    let profile = Profile { modules: vec![merged] };
    write_to(Some(&args.output), |out| Ok(out.write_all(&file::write(&profile))?))?;
    timings.lap("merge");
    let all = (plan.exempt.len() + plan.measure.len()) as u64;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", args.output.display())?;
    let held = plan.exempt.len() as u64;
    writeln!(
        out,
        "  functions taken over {:>14}  {}\n  measured again       {:>14}\n  counts               {:>14}",
        grouped(held),
        percent(held, all),
        grouped(if fresh.is_some() { plan.measure.len() as u64 } else { 0 }),
        grouped(increments)
    )?;
    if args.timings {
        timings.print();
    }
    Ok(())
}

fn shell(command: &str) -> Vec<OsString> {
    ["sh", "-c", command].map(OsString::from).to_vec()
}

/// Programs that are made on the way.
struct Making<'a> {
    subject: &'a Subject<'a, 'a>,
    scratch: &'a Path,
    binary: &'a Path,
}

impl Making<'_> {
    /// A program that counts what is `wanted`, if any of that can be counted. It keeps its name, in a folder of its own.
    fn program(&self, folder: &str, wanted: &dyn Selection, watch: &Watch) -> Result<Option<PathBuf>> {
        let Made { rewritten, .. } = match self.subject.make(wanted, watch, &mut |_| ()) {
            Err(why) if why.is::<NothingToMeasure>() => return Ok(None),
            made => made?,
        };
        let folder = self.scratch.join(folder);
        std::fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(self.binary.file_name().unwrap_or_default());
        crate::instrument::beside::link_others(self.binary, &path)?;
        write_program(self.binary, &path, &rewritten.bytes)?;
        Ok(Some(path))
    }

    /// Runs a command and returns the profile it leaves.
    fn measure(&self, program: &Path, command: &[OsString], name: &str) -> Result<PathBuf> {
        let profile = self.scratch.join(name).with_extension("rprof");
        let words: Vec<OsString> = command.iter().map(|word| with_file(word, program.as_os_str())).collect();
        let (first, rest) = words.split_first().context("no command")?;
        let shown = first.to_string_lossy();
        let status = Command::new(first)
            .args(rest)
            .env("RELIVE_PROFILE", &profile)
            .status()
            .with_context(|| format!("cannot run {shown}: check the command behind --"))?;
        if let Some(signal) = status.signal() {
            bail!("{shown} was ended by signal {signal}; nothing was written");
        }
        if !status.success() {
            eprintln!("relive: warning: {shown} ended with {status}; what it did until then counts");
        }
        if !profile.exists() {
            bail!("{shown} left no profile: does the command run the program that {{}} stands for?");
        }
        Ok(profile)
    }
}

/// How long each step took.
struct Timings {
    laps: Vec<(&'static str, f64)>,
    since: Instant,
}

impl Timings {
    fn new() -> Self {
        Self { laps: Vec::new(), since: Instant::now() }
    }

    fn lap(&mut self, name: &'static str) {
        self.laps.push((name, self.since.elapsed().as_secs_f64()));
        self.since = Instant::now();
    }

    fn print(&self) {
        for (name, seconds) in &self.laps {
            eprintln!("{name:<10} {seconds:>8.3} s");
        }
    }
}
