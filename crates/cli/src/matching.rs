//! `relive match`: what of one build is in another.

mod html;

use crate::build::{self, Reading};
use crate::output::{field, grouped, percent, write_to};
use crate::progress::{Phase, Progress};
use anyhow::{Result, anyhow};
use clap::Args as ClapArgs;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Syntax};
use relive_image::names::demangle;
use relive_image::watch::Watch;
use relive_matching::across::{Joined, Kind};
use relive_matching::matching::Procedures;
use relive_matching::{Fingerprint, Matching, match_builds};
use relive_profile::model::{Block, Function, Module};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
EXAMPLES:
  relive match app-1.0 app-1.1
      how many procedures, data and basic blocks of the new build are known from the old one
  relive match app-1.0.rprof app-1.1
      the same when the old binary is gone: a profile holds what is needed of it
  relive match app-1.0 app-1.1 --function parse
      the blocks of one function side by side
  relive match app-1.0 app-1.1 --html match.html
      both builds side by side, to look at in a browser
  relive match app-1.0 app-1.1 --tsv | awk -F'\\t' '$1 == \"block\" && $4 == \"s\"'
      blocks that were found by similarity
  relive match app-1.0 app-1.1 --tsv | awk -F'\\t' '$1 == \"inlined\"'
      blocks of functions that were called and are now where the calls were

Exit status: 0 done, 2 a file cannot be read or is neither a binary nor a profile.";

/// Arguments of `relive match`.
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The old build: a binary, or a profile of it
    old: PathBuf,

    /// The new build: a binary, or a profile of it
    new: PathBuf,

    /// One function of the new build, side by side with its partner: a name as in the symbol table or demangled, or
    /// an address inside it
    #[arg(long, short, value_name = "NAME|ADDR", group = "view", help_heading = "What to print")]
    function: Option<String>,

    /// Print all pairs: kind, old and new address, level (docs/matching.md)
    #[arg(long, group = "view", help_heading = "What to print")]
    tsv: bool,

    /// Print the summary as JSON (docs/match-json.md)
    #[arg(long, group = "view", help_heading = "What to print")]
    json: bool,

    /// Write a page that needs nothing beside itself, to look at in a browser (docs/html-report.md)
    #[arg(
        long,
        value_name = "FILE",
        group = "view",
        conflicts_with = "output",
        help_heading = "What to print"
    )]
    html: Option<PathBuf>,

    /// With --html: how large the page may become, in MiB; functions that changed least are left without their code then
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "html")]
    html_size: u32,

    /// Do not look for separate debug files; debug information itself is never used to match
    #[arg(long)]
    no_debug_info: bool,

    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print on standard error how long each step took
    #[arg(long)]
    timings: bool,
}

const PHASES: &[Phase] = &[("read", 75), ("compare", 25)];

/// A match that leaves more of the new build without a partner than this is no basis for anything.
const LEAST: f64 = 0.1;

/// Smaller functions are found in any program: those that start it, for one.
const LARGE: u32 = 16;

/// Compares two builds.
pub(crate) fn run(args: &Args) -> Result<()> {
    let progress = Progress::start(PHASES);
    let mut timed = Instant::now();
    let mut lap = |what: &str| {
        if args.timings {
            eprintln!("{:>9.1} ms  {what}", timed.elapsed().as_secs_f64() * 1e3);
        }
        timed = Instant::now();
    };
    let reading = Reading { debug_files: !args.no_debug_info, lines: false };
    // At the same time: in some programs there is a function that keeps one thread busy for seconds.
    let (old, new) = std::thread::scope(|scope| {
        let old = scope.spawn(|| build::open(&args.old, &args.new, reading, &Watch::default()));
        let new = build::open(&args.new, &args.old, reading, progress.watch());
        let old = old.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (old, new)
    });
    let (old, new) = (old?, new?);
    lap("read");
    progress.next();
    let (a, b) = (fingerprint(&old, &args.old)?, fingerprint(&new, &args.new)?);
    lap("fingerprints");
    let matching = match_builds(&a, &b);
    lap("match");
    drop(progress);
    warn_if_poor(&matching, &new, &args.old, &args.new);
    let written = match &args.html {
        Some(page) => html::run(&old, &new, &matching, page, args),
        None => write_to(args.output.as_deref(), |out| match &args.function {
            Some(name) => side_by_side(&old, &new, &matching, name, &args.new, out),
            None if args.tsv => tsv(&old, &new, &matching, out),
            None if args.json => json(&old, &new, &matching, out),
            None => summary(&old, &new, &matching, out),
        }),
    };
    // The process ends here: taking millions of blocks apart would only take time.
    std::mem::forget((a, b, matching));
    std::mem::forget((old, new));
    written
}

/// The fingerprint of a module that was read from `path`.
pub(crate) fn fingerprint<'m>(module: &'m Module, path: &Path) -> Result<Fingerprint<'m>> {
    Fingerprint::new(module).ok_or_else(|| {
        anyhow!("{}: it holds no code to compare; measure again, or give the binary instead", path.display())
    })
}

/// Says so if two builds have hardly anything in common.
pub(crate) fn warn_if_poor(matching: &Matching, new: &Module, old_path: &Path, new_path: &Path) {
    let (matched, blocks) = in_common(matching, new, |both| both.pair.new);
    if (matched as f64) < LEAST * blocks as f64 {
        eprintln!(
            "relive: only {} of the blocks of {} are in {}: are they builds of the same program?",
            percent(matched, blocks),
            new_path.display(),
            old_path.display()
        );
    }
}

/// How many blocks of the larger functions of one side have a partner, and how many there are.
pub(crate) fn in_common(
    matching: &Matching,
    module: &Module,
    side: impl Fn(&Procedures) -> u32,
) -> (u64, u64) {
    let large = |function: &Function| function.blocks.iter().map(|block| block.insns).sum::<u32>() >= LARGE;
    let all = module.functions.iter().filter(|function| large(function)).map(|f| f.blocks.len() as u64).sum();
    let pairs = matching.procedures.iter().filter(|p| large(&module.functions[side(p) as usize]));
    (pairs.map(|p| p.blocks.len() as u64).sum(), all)
}

struct Totals {
    old: u64,
    new: u64,
    matched: u64,
}

fn totals(old: &Module, new: &Module, matching: &Matching) -> [(&'static str, Totals); 3] {
    let blocks = |module: &Module| module.functions.iter().map(|f| f.blocks.len() as u64).sum();
    [
        (
            "procedures",
            Totals {
                old: old.functions.len() as u64,
                new: new.functions.len() as u64,
                matched: matching.procedures.len() as u64,
            },
        ),
        (
            "data",
            Totals {
                old: old.data.len() as u64,
                new: new.data.len() as u64,
                matched: matching.data.len() as u64,
            },
        ),
        (
            "blocks",
            Totals {
                old: blocks(old),
                new: blocks(new),
                matched: matching.procedures.iter().map(|p| p.blocks.len() as u64).sum(),
            },
        ),
    ]
}

fn summary(old: &Module, new: &Module, matching: &Matching, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "old  {}", field(&old.path))?;
    writeln!(out, "new  {}", field(&new.path))?;
    writeln!(out)?;
    writeln!(out, "{:<28}{:>12}{:>12}{:>12}{:>10}", "", "old", "new", "matched", "of new")?;
    let all = totals(old, new, matching);
    for (name, Totals { old, new, matched }) in &all {
        let share = percent(*matched, *new);
        writeln!(
            out,
            "{name:<28}{:>12}{:>12}{:>12}{share:>10}",
            grouped(*old),
            grouped(*new),
            grouped(*matched)
        )?;
    }
    writeln!(out, "\nprocedures after")?;
    for stage in &matching.stages {
        let share = percent(stage.matched as u64, all[0].1.new);
        writeln!(out, "  {:<50}{:>12}{share:>10}", stage.name, grouped(stage.matched as u64))?;
    }
    writeln!(out, "\nblocks after")?;
    for stage in &matching.block_stages {
        let share = percent(stage.matched as u64, all[2].1.new);
        writeln!(out, "  {:<50}{:>12}{share:>10}", stage.name, grouped(stage.matched as u64))?;
    }
    let crossings = crossings(matching);
    if crossings.iter().any(|(_, blocks)| *blocks > 0) || !matching.clones.is_empty() {
        writeln!(out, "\nacross procedures")?;
        for (kind, blocks) in crossings {
            writeln!(out, "  {:<50}{:>12}", format!("blocks {}", kind.name()), grouped(blocks))?;
        }
        writeln!(out, "  {:<50}{:>12}", "clones of procedures", grouped(matching.clones.len() as u64))?;
    }
    Ok(())
}

/// How many blocks are in other procedures than before.
fn crossings(matching: &Matching) -> [(Kind, u64); 2] {
    [Kind::Inlined, Kind::Outlined].map(|kind| {
        let moved = matching.across.iter().flat_map(Joined::moved);
        (kind, moved.filter(|moved| moved.kind == kind).count() as u64)
    })
}

fn tsv(old: &Module, new: &Module, matching: &Matching, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "kind\told\tnew\tlevel")?;
    for found in &matching.procedures {
        let pair = found.pair;
        let (a, b) = (&old.functions[pair.old as usize], &new.functions[pair.new as usize]);
        writeln!(out, "procedure\t{:#x}\t{:#x}\t{}", a.address, b.address, pair.how.name())?;
    }
    for pair in &matching.data {
        let (a, b) = (&old.data[pair.old as usize], &new.data[pair.new as usize]);
        writeln!(out, "data\t{:#x}\t{:#x}\t{}", a.address, b.address, pair.how.name())?;
    }
    for found in &matching.procedures {
        let pair = found.pair;
        let (a, b) = (&old.functions[pair.old as usize], &new.functions[pair.new as usize]);
        let place = |function: &Function, block: u32| function.blocks[block as usize].address;
        for block in &found.blocks {
            let (x, y) = (place(a, block.old), place(b, block.new));
            writeln!(out, "block\t{x:#x}\t{y:#x}\t{}", block.found.name())?;
        }
        for &(y, x) in &found.partial {
            writeln!(out, "partial\t{:#x}\t{:#x}\tcf", place(a, x), place(b, y))?;
        }
    }
    let place = |module: &Module, (procedure, block): (u32, u32)| {
        module.functions[procedure as usize].blocks[block as usize].address
    };
    for pair in matching.clones.iter().map(|clone| clone.procedures.pair) {
        let (a, b) = (&old.functions[pair.old as usize], &new.functions[pair.new as usize]);
        writeln!(out, "clone\t{:#x}\t{:#x}\t{}", a.address, b.address, pair.how.name())?;
    }
    for moved in matching.across.iter().flat_map(Joined::moved) {
        let (x, y) = (place(old, moved.old), place(new, moved.new));
        writeln!(out, "{}\t{x:#x}\t{y:#x}\t{}", moved.kind.name(), moved.found.name())?;
    }
    Ok(())
}

fn json(old: &Module, new: &Module, matching: &Matching, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(&summary_json(old, new, matching))?)?;
    Ok(())
}

fn summary_json(old: &Module, new: &Module, matching: &Matching) -> serde_json::Value {
    let mut object = serde_json::Map::new();
    object.insert(
        "old".into(),
        serde_json::json!({ "path": old.path, "build_id": crate::profiles::hex(&old.build_id) }),
    );
    object.insert(
        "new".into(),
        serde_json::json!({ "path": new.path, "build_id": crate::profiles::hex(&new.build_id) }),
    );
    for (name, Totals { old, new, matched }) in totals(old, new, matching) {
        object.insert(name.into(), serde_json::json!({ "old": old, "new": new, "matched": matched }));
    }
    let partial: usize = matching.procedures.iter().map(|p| p.partial.len()).sum();
    object["blocks"]["partial"] = partial.into();
    let across = crossings(matching).map(|(kind, blocks)| (kind.name().to_owned(), blocks.into()));
    object["blocks"]["across"] = serde_json::Value::Object(across.into_iter().collect());
    object["procedures"]["clones"] = matching.clones.len().into();
    let mut levels = std::collections::BTreeMap::<&str, u64>::new();
    for block in matching.procedures.iter().flat_map(|p| &p.blocks) {
        *levels.entry(block.found.name()).or_default() += 1;
    }
    object["blocks"]["levels"] = serde_json::json!(levels);
    let stages = |stages: Vec<(&str, usize)>| -> serde_json::Value {
        stages
            .iter()
            .map(|(name, matched)| serde_json::json!({ "after": name, "matched": matched }))
            .collect()
    };
    object["procedures"]["stages"] = stages(matching.stages.iter().map(|s| (s.name, s.matched)).collect());
    object["blocks"]["stages"] = stages(matching.block_stages.iter().map(|s| (s.name, s.matched)).collect());
    serde_json::Value::Object(object)
}

/// Whether someone means `function` by `name`.
fn is_meant(module: &Module, function: &Function, name: &str) -> bool {
    let own = module.name(function);
    let address = name.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    own == name
        || demangle(own) == name
        || address.is_some_and(|at| function.pieces.iter().any(|p| p.start <= at && at < p.start + p.len))
}

/// Characters of one side.
const WIDTH: usize = 58;

fn side_by_side(
    old: &Module,
    new: &Module,
    matching: &Matching,
    name: &str,
    path: &Path,
    out: &mut dyn Write,
) -> Result<()> {
    let meant = new.functions.iter().position(|f| is_meant(new, f, name)).ok_or_else(|| {
        anyhow!("{}: there is no function {name}; `relive inspect --functions` lists them", path.display())
    })?;
    let function = &new.functions[meant];
    let Some(found) = matching.procedures.iter().find(|p| p.pair.new as usize == meant) else {
        writeln!(out, "{} at {:#x} has no partner in the old build", new.name(function), function.address)?;
        return Ok(());
    };
    let partner = &old.functions[found.pair.old as usize];
    writeln!(
        out,
        "{} at {:#x}  =  {} at {:#x}  ({})",
        old.name(partner),
        partner.address,
        new.name(function),
        function.address,
        found.pair.how.name()
    )?;
    let mut partners = vec![None; function.blocks.len()];
    let mut matched = vec![false; partner.blocks.len()];
    for pair in &found.blocks {
        partners[pair.new as usize] = Some((pair.old, pair.found.name()));
        matched[pair.old as usize] = true;
    }
    for &(y, x) in &found.partial {
        partners[y as usize] = Some((x, "partial"));
    }
    for (block, pair) in (0u32..).zip(partners) {
        let (left, level) = match pair {
            Some((x, level)) => (listing(partner, x), level),
            None => (Vec::new(), "-"),
        };
        let right = listing(function, block);
        writeln!(out, "\n{level:─^0$}", WIDTH * 2 + 3)?;
        for i in 0..left.len().max(right.len()) {
            let side =
                |lines: &[String]| lines.get(i).map_or(String::new(), |l| l.chars().take(WIDTH).collect());
            writeln!(out, "{:<WIDTH$} │ {}", side(&left), side(&right))?;
        }
    }
    let gone: Vec<u32> = (0..).zip(matched).filter(|(_, m)| !m).map(|(b, _)| b).collect();
    if !gone.is_empty() {
        writeln!(out, "\nonly in the old build")?;
        for block in gone {
            writeln!(out)?;
            for line in listing(partner, block) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

fn listing(function: &Function, block: u32) -> Vec<String> {
    let block = &function.blocks[block as usize];
    code(function, block).map(|(address, text)| format!("{address:>8x}  {text}")).collect()
}

/// The instructions of a block: address and text.
fn code<'f>(function: &'f Function, block: &Block) -> impl Iterator<Item = (u64, String)> + use<'f> {
    let bytes = function.bytes_at(block.address, block.size.into()).unwrap_or_default();
    Decode::new(bytes, LinkAddr(block.address))
        .map(|insn| (insn.addr().0, insn.text(Syntax::Intel).to_string()))
}
