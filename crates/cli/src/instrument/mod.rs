//! `relive instrument`: rewrites a binary so that it counts what it does.

mod args;
pub(crate) mod beside;
mod make;
mod summary;
mod verify;
mod weights;

pub(crate) use args::{Args, CountMode, Switch};
pub(crate) use make::{Made, NothingToMeasure, Subject, ground};

use crate::output::write_to;
use crate::progress::{Phase, Progress};
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, bail};
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options as LoadOptions};
use relive_image::names::demangle;
use relive_image::program::{FunctionId, Program, analyze_watched};
use relive_migrate::reprofile::plan::Plan;
use relive_probe::describe::build_id;
use relive_rewrite::module::{Extent, Selection};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// What it does, and how long that takes in comparison: as for gcc's `cc1`.
const PHASES: &[Phase] = &[
    ("read", 1),
    ("analyse", 25),
    ("prepare", 1),
    ("plan", 15),
    ("describe", 13),
    ("rewrite", 32),
    ("write", 5),
    // Only if it is asked for.
    ("verify", 60),
];

/// Rewrites the file that was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut timings: Vec<(&'static str, Duration)> = Vec::new();
    let mut timed = Instant::now();
    let progress = Progress::start(if args.verify { PHASES } else { &PHASES[..PHASES.len() - 1] });
    let mut lap = |name| {
        timings.push((name, timed.elapsed()));
        timed = Instant::now();
        progress.next();
    };
    let output =
        if args.keep_name { beside::place(&args.binary, &args.output)? } else { args.output.clone() };
    if same_file(&args.binary, &output) {
        bail!("{} would overwrite the file it is made from: choose another place with -o", output.display());
    }
    let options = LoadOptions { annotations: args.annotations.clone(), ..LoadOptions::default() };
    let loaded = Loaded::open(&args.binary, &options).map_err(with_remedy)?;
    let named = || args.binary.display().to_string();
    let image = loaded.image().map_err(with_remedy).with_context(named)?;
    lap("read");
    let program = analyze_watched(&image, progress.watch());
    lap("analyse");
    let wanted = Wanted::new(&image, &program, &args.only, &args.except)?;
    let pattern = pattern(args, &output)?;
    let weights = args.weights.as_ref().map(|path| weights::read(path, &image, &args.binary)).transpose()?;
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
        weights: weights.as_ref(),
        pattern: &pattern,
    };
    lap("prepare");
    let made = subject.make(&wanted, progress.watch(), &mut lap);
    let Made { outline, rewritten } = made.map_err(|why| match why.is::<NothingToMeasure>() {
        true if !args.except.is_empty() => why.context("nothing is left beside --except"),
        _ => why,
    })?;
    if args.keep_name {
        beside::link_others(&args.binary, &output)?;
    }
    write_program(&args.binary, &output, &rewritten.bytes)?;
    lap("write");
    let verified = args.verify.then(|| verify::check(&subject, &outline, &output));
    lap("verify");
    drop(progress);
    let verified = verified.map(|report| verify::print(&report?, &output));
    let timings = if args.timings { &*timings } else { &[] };
    summary::print(args, &output, &program, &outline, &rewritten, &pattern, timings)?;
    verified.unwrap_or(Ok(()))
}

/// Writes a rewritten program, with the rights of the one it was made from.
pub(crate) fn write_program(binary: &Path, output: &Path, bytes: &[u8]) -> Result<()> {
    let permissions = std::fs::metadata(binary).map(|m| m.permissions().mode()).unwrap_or(0o755);
    write_to(Some(output), |out| Ok(out.write_all(bytes)?))?;
    if !std::fs::metadata(output).is_ok_and(|written| written.is_file()) {
        // The rights of a device are not ours.
        return Ok(());
    }
    // The set-user-id bit is not copied: a program that counts should not have more rights than its user.
    std::fs::set_permissions(output, std::fs::Permissions::from_mode(permissions & 0o777))
        .with_context(|| format!("cannot make {} executable", output.display()))
}

fn same_file(binary: &Path, output: &Path) -> bool {
    match (std::fs::canonicalize(binary), std::fs::canonicalize(output)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Where the profile goes if nothing else is said: beside whoever runs the program, under its name.
fn pattern(args: &Args, output: &Path) -> Result<String> {
    match &args.profile {
        Some(pattern) if pattern.is_empty() || pattern.contains('\0') => {
            bail!("--profile needs a path, in which %p and %e stand for process and program")
        }
        Some(pattern) => Ok(pattern.clone()),
        None => {
            let name = output.file_name().unwrap_or_default().to_string_lossy();
            Ok(format!("./{}.rprof", name.replace('%', "%%")))
        }
    }
}

/// Which functions the user wants.
pub(crate) struct Wanted {
    only: Option<HashSet<FunctionId>>,
    except: HashSet<FunctionId>,
    /// Blocks to count in functions that are measured in part, by address.
    parts: HashMap<FunctionId, HashSet<u64>>,
}

impl Wanted {
    pub(crate) fn new(
        image: &Image<'_>,
        program: &Program<'_>,
        only: &[String],
        except: &[String],
    ) -> Result<Self> {
        let (plans, except): (Vec<&String>, Vec<&String>) =
            except.iter().partition(|name| Path::new(name).extension().is_some_and(|end| end == "json"));
        let except: Vec<String> = except.into_iter().cloned().collect();
        let only = if only.is_empty() { None } else { Some(find(program, only, "--only")?) };
        let mut wanted = Self { only, except: find(program, &except, "--except")?, parts: HashMap::new() };
        for path in plans {
            let Self { except, parts, .. } = Self::by_plan(program, &plan_for(image, Path::new(path))?);
            wanted.except.extend(except);
            wanted.parts.extend(parts);
        }
        Ok(wanted)
    }

    /// What a plan, which is for this build, wants measured.
    pub(crate) fn by_plan(program: &Program<'_>, plan: &Plan) -> Self {
        let exempt: HashSet<u64> = plan.exempt_addresses().into_iter().collect();
        let mut counted = plan.counted_blocks();
        let mut wanted = Self { only: None, except: HashSet::new(), parts: HashMap::new() };
        for (id, function) in program.numbered() {
            if exempt.contains(&function.entry.0) {
                wanted.except.insert(id);
            }
            if let Some(blocks) = counted.remove(&function.entry.0) {
                wanted.parts.insert(id, blocks);
            }
        }
        wanted
    }

    /// These blocks, by addresses of functions and blocks, and nothing else.
    pub(crate) fn blocks(program: &Program<'_>, mut counted: HashMap<u64, HashSet<u64>>) -> Self {
        let parts: HashMap<FunctionId, HashSet<u64>> = program
            .numbered()
            .filter_map(|(id, function)| Some((id, counted.remove(&function.entry.0)?)))
            .collect();
        Self { only: Some(parts.keys().copied().collect()), except: HashSet::new(), parts }
    }

    pub(crate) fn has(&self, id: FunctionId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&id)) && !self.except.contains(&id)
    }
}

impl Selection for Wanted {
    fn extent(&self, id: FunctionId) -> Extent<'_> {
        match self.parts.get(&id) {
            _ if !self.has(id) => Extent::Nothing,
            Some(blocks) => Extent::Blocks(blocks),
            None => Extent::All,
        }
    }
}

/// A plan, which must be for this build.
fn plan_for(image: &Image<'_>, path: &Path) -> Result<Plan> {
    let plan = crate::plan::open(path)?;
    plan.check(&build_id(&image.elf, &image.identity)).with_context(|| path.display().to_string())?;
    Ok(plan)
}

/// The functions of that name, mangled or not, or at that address.
fn find(program: &Program<'_>, names: &[String], flag: &str) -> Result<HashSet<FunctionId>> {
    let mut listed: Vec<String> = Vec::new();
    for name in names {
        match name.strip_prefix('@') {
            None => listed.push(name.clone()),
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("{flag} @{file}: cannot read the list of functions"))?;
                let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
                listed.extend(lines.map(str::to_string));
            }
        }
    }
    let mut missing: HashSet<&str> = listed.iter().map(String::as_str).collect();
    let wanted = missing.clone();
    let mut found = HashSet::new();
    for (id, function) in program.numbered() {
        let address = format!("{:#x}", function.entry.0);
        let made_up = function.name().into_owned();
        let names = function.names.iter().map(|n| n.to_string());
        let demangled = function.names.iter().map(|n| demangle(n).into_owned());
        for name in names.chain(demangled).chain([address, made_up]) {
            if wanted.contains(name.as_str()) {
                missing.remove(name.as_str());
                found.insert(id);
            }
        }
    }
    match missing.into_iter().min() {
        Some(name) => bail!("{flag}: there is no function {name}; `relive inspect --functions` lists them"),
        None => Ok(found),
    }
}
