//! `relive migrate`: carries profiles over to another build.

use crate::build::{self, Reading, choose};
use crate::matching::{fingerprint, in_common};
use crate::output::{grouped, percent, write_to};
use crate::plan::{Choice, Planning};
use crate::profiles;
use crate::progress::{Phase, Progress};
use anyhow::{Result, bail};
use clap::Args as ClapArgs;
use relive_matching::across::Joined;
use relive_matching::{Matching, match_builds};
use relive_migrate::carry::{Old, carry};
use relive_migrate::reprofile::plan::Plan;
use relive_profile::file;
use relive_profile::model::{Count, Module, Origin, Profile};
use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  relive migrate app-1.0.rprof --to app-1.1 -o app-1.1.rprof
      what version 1.1 would do, by what version 1.0 did; the old binary is not needed
  relive migrate app-1.0.rprof app-1.1.rprof --to app-1.2 -o app-1.2.rprof
      from several old builds: the one that ran last weighs most
  relive migrate app-1.0.rprof --to app-1.1 -o carried.rprof --plan plan.json
      and what of it does not hold any more: `relive instrument app-1.1 -o app.rest --except plan.json` measures only that, and
      `relive merge carried.rprof app.rest.rprof --plan plan.json -o app-1.1.rprof` puts both together (docs/migrating.md)
  relive evaluate app-1.1.rprof fresh.rprof
      how good that is, if 1.1 was measured as well
  relive dump --blocks app-1.1.rprof | awk -F'\\t' '$7 < 80'
      blocks whose count is not sure

Exit status: 0 done, 2 a file cannot be read, or the profile is not of an earlier build of the program.";

/// Arguments of `relive migrate`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Profiles of old builds
    #[arg(required = true)]
    profiles: Vec<PathBuf>,

    /// The new build
    #[arg(long, value_name = "BINARY")]
    to: PathBuf,

    /// Where the carried profile goes
    #[arg(long, short, value_name = "FILE", required_unless_present = "plan")]
    output: Option<PathBuf>,

    /// Say what of the new build is to be measured again, for `instrument --except` and `merge --plan`
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    #[command(flatten)]
    choice: Choice,

    /// Do not look for separate debug files; debug information itself is never used to match
    #[arg(long)]
    no_debug_info: bool,

    /// Carry over even if next to nothing of the new build is in the old one
    #[arg(long)]
    force: bool,
}

const PHASES: &[Phase] = &[("read profiles", 10), ("read binary", 50), ("compare", 20), ("carry", 20)];

/// If less than this of what was counted finds its place, the profile is of another program.
const LEAST: f64 = 0.1;
/// If less than this does, the user should know.
const POOR: f64 = 0.8;

/// Carries over what was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    let progress = Progress::start(PHASES);
    let mut olds = Vec::new();
    for path in &args.profiles {
        let module = choose(profiles::open(path)?.modules, path, &args.to)?;
        if module.functions.iter().flat_map(|f| &f.blocks).all(|b| b.count.is_none_or(|c| c.value() == 0)) {
            bail!("{}: nothing was counted; run the measured program first", path.display());
        }
        olds.push(module);
    }
    if args.plan.is_some() && olds.len() > 1 {
        bail!("--plan takes one old profile; merge those of one build first (`relive merge`)");
    }
    progress.next();
    let mut plan = None;
    let reading = Reading { debug_files: !args.no_debug_info, lines: true };
    let carried = build::from_binary(&args.to, reading, progress.watch(), |new, survey| {
        progress.next();
        let mut matchings = Vec::new();
        let target = fingerprint(&new, &args.to)?;
        for (old, path) in olds.iter().zip(&args.profiles) {
            let matching = match_builds(&fingerprint(old, path)?, &target);
            judge(args, old, path, &matching)?;
            matchings.push(matching);
        }
        drop(target);
        progress.next();
        let both: Vec<Old<'_>> =
            olds.iter().zip(&matchings).map(|(module, matching)| Old { module, matching }).collect();
        let likely = |function| survey.likelihood(function);
        if args.plan.is_none() {
            return Ok(carry(new, &both, &likely));
        }
        let [Old { module: old, matching }] = both[..] else { unreachable!("one old profile") };
        let carried = carry(new.clone(), &both, &likely);
        let to = &args.to;
        let planning = Planning { old, new: &new, matching, carried: &carried, to, likely: &likely };
        plan = Some(planning.plan(&args.choice, Vec::new())?);
        Ok(carried)
    })?;
    drop(progress);
    if let (Some(path), Some(plan)) = (&args.plan, &plan) {
        write_to(Some(path), |out| Ok(out.write_all(plan.write().as_bytes())?))?;
        show_plan(path, plan)?;
    }
    if let Some(output) = &args.output {
        let profile = Profile { modules: vec![carried] };
        write_to(Some(output), |out| Ok(out.write_all(&file::write(&profile))?))?;
        summary(&profile.modules[0], output)?;
    }
    Ok(())
}

/// Says what is to be measured again.
fn show_plan(path: &Path, plan: &Plan) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let all = (plan.exempt.len() + plan.measure.len()) as u64;
    let row = |what: &str, part: u64| {
        format!("  {what:<18} {:>10} of {:>10}  {}", grouped(part), grouped(all), percent(part, all))
    };
    writeln!(out, "{}: {:.2} % of the code changed", path.display(), 100.0 * plan.significance)?;
    writeln!(out, "{}", row("functions that hold", plan.exempt.len() as u64))?;
    writeln!(out, "{}", row("to be measured", plan.measure.len() as u64))?;
    for (why, count) in plan.reasons() {
        writeln!(out, "  {:>29}   {why}", grouped(count as u64))?;
    }
    if !plan.dear.is_empty() {
        let blocks = plan.dear.iter().map(|dear| dear.blocks.len() as u64).sum();
        writeln!(
            out,
            "  too dear to measure {:>9}   blocks (--limit), as they were in the old build",
            grouped(blocks)
        )?;
    }
    Ok(())
}

/// Refuses a profile of another program, and says so if little of it finds its place.
fn judge(args: &Args, old: &Module, path: &Path, matching: &Matching) -> Result<()> {
    let mut found: HashSet<(u32, u32)> =
        matching.procedures.iter().flat_map(|p| p.blocks.iter().map(|b| (p.pair.old, b.old))).collect();
    found.extend(matching.across.iter().flat_map(Joined::moved).map(|moved| moved.old));
    let (mut all, mut placed) = (0u128, 0u128);
    for (function, i) in old.functions.iter().zip(0..) {
        for (block, j) in function.blocks.iter().zip(0..) {
            let count = u128::from(block.count.map_or(0, Count::value));
            all += count;
            placed += if found.contains(&(i, j)) { count } else { 0 };
        }
    }
    let share = placed as f64 / all.max(1) as f64;
    let (known, blocks) = in_common(matching, old, |both| both.pair.old);
    if share < LEAST && (known as f64) < LEAST * blocks as f64 && !args.force {
        bail!(
            "{}: only {:.1} % of what was counted is in {}: is it a build of the same program? \
             (--force carries it over all the same)",
            path.display(),
            share * 100.0,
            args.to.display()
        );
    }
    if share < POOR {
        eprintln!(
            "relive: {}: {:.1} % of what was counted finds no place in {}; what follows from it is guessed",
            path.display(),
            (1.0 - share) * 100.0,
            args.to.display()
        );
    }
    Ok(())
}

/// Says what became of it.
fn summary(module: &Module, output: &Path) -> Result<()> {
    let (mut all, mut matched, mut blocks, mut known) = (0u64, 0u64, 0u64, 0u64);
    for block in module.functions.iter().flat_map(|f| &f.blocks) {
        blocks += 1;
        let Some(count) = block.count else { continue };
        all = all.saturating_add(count.value());
        if matches!(count.origin, Origin::Measured | Origin::Derived | Origin::Matched(_)) {
            matched = matched.saturating_add(count.value());
            known += 1;
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", output.display())?;
    writeln!(
        out,
        "  blocks matched     {:>10} of {:>10}  {}",
        grouped(known),
        grouped(blocks),
        percent(known, blocks)
    )?;
    writeln!(
        out,
        "  counts on matched  {:>35}",
        if all == 0 { "none".to_string() } else { percent(matched, all) }
    )?;
    Ok(())
}
