//! `relive instrument`: rewrites a binary so that it counts what it does.

mod args;
mod summary;

pub(crate) use args::Args;

use crate::output::write_to;
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, anyhow, bail};
use args::{CountMode, Switch};
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options as LoadOptions};
use relive_image::names::demangle;
use relive_image::program::{FunctionId, Program, analyze};
use relive_probe::describe::{Subject, describe};
use relive_profile::model as profile;
use relive_rewrite::module::{Mode, Options, Refusal, Rewriter};
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

/// Rewrites the file that was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut timings: Vec<(&'static str, Duration)> = Vec::new();
    let mut timed = Instant::now();
    let mut lap = |name| {
        timings.push((name, timed.elapsed()));
        timed = Instant::now();
    };
    if same_file(args) {
        bail!(
            "{} would overwrite the file it is made from: choose another place with -o",
            args.output.display()
        );
    }
    let loaded = Loaded::open(&args.binary, &LoadOptions::default()).map_err(with_remedy)?;
    let named = || args.binary.display().to_string();
    let image = loaded.image().map_err(with_remedy).with_context(named)?;
    lap("read");
    let program = analyze(&image);
    lap("analyse");
    let wanted = Wanted::new(&program, args)?;
    let pattern = pattern(args)?;
    let mode = match args.mode {
        CountMode::Edges => Mode::Edges,
        CountMode::Blocks => Mode::Blocks,
        CountMode::Functions => Mode::Functions,
    };
    let options = Options {
        mode,
        calls: args.calls == Switch::On,
        trap: args.trap,
        wanted: &|id| wanted.has(id),
        pattern: &pattern,
        runtime: relive_runtime::IMAGE,
    };
    let refused = |refusal: Refusal| {
        let remedy = match &refusal {
            Refusal::Go => "; relive cannot measure it by rewriting",
            Refusal::Nothing => "; `relive inspect` shows why",
            _ => "",
        };
        anyhow!("{}: {refusal}{remedy}", args.binary.display())
    };
    let rewriter = Rewriter::new(&image, &program, &options).map_err(refused)?;
    lap("plan");
    let lines = Lines::new(&loaded);
    let path = std::fs::canonicalize(&args.binary).unwrap_or_else(|_| args.binary.clone());
    let outline = &rewriter.outline;
    let module = describe(&Subject {
        image: &image,
        program: &program,
        lines: &lines,
        fates: &outline.fates,
        layout: outline.layout,
        sites: &outline.sites,
        path: &path.to_string_lossy(),
        mode: match args.mode {
            CountMode::Edges => profile::Mode::Edges,
            CountMode::Blocks => profile::Mode::Blocks,
            CountMode::Functions => profile::Mode::Functions,
        },
    });
    let file = relive_profile::file::file_image(&module);
    lap("describe");
    let rewritten = rewriter.finish(&file).map_err(refused)?;
    lap("rewrite");
    let permissions = std::fs::metadata(&args.binary).map(|m| m.permissions().mode()).unwrap_or(0o755);
    write_to(Some(&args.output), |out| Ok(out.write_all(&rewritten.bytes)?))?;
    // The set-user-id bit is not copied: a program that counts should not have more rights than its user.
    std::fs::set_permissions(&args.output, std::fs::Permissions::from_mode(permissions & 0o777))
        .with_context(|| format!("cannot make {} executable", args.output.display()))?;
    lap("write");
    summary::print(args, &program, outline, &rewritten, &pattern, if args.timings { &timings } else { &[] })
}

fn same_file(args: &Args) -> bool {
    match (std::fs::canonicalize(&args.binary), std::fs::canonicalize(&args.output)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Where the profile goes if nothing else is said: beside whoever runs the program, under its name.
fn pattern(args: &Args) -> Result<String> {
    match &args.profile {
        Some(pattern) if pattern.is_empty() || pattern.contains('\0') => {
            bail!("--profile needs a path, in which %p and %e stand for process and program")
        }
        Some(pattern) => Ok(pattern.clone()),
        None => {
            let name = args.output.file_name().unwrap_or_default().to_string_lossy();
            Ok(format!("./{}.rprof", name.replace('%', "%%")))
        }
    }
}

/// Which functions the user wants.
struct Wanted {
    only: Option<HashSet<FunctionId>>,
    except: HashSet<FunctionId>,
}

impl Wanted {
    fn new(program: &Program<'_>, args: &Args) -> Result<Self> {
        let only = if args.only.is_empty() { None } else { Some(find(program, &args.only, "--only")?) };
        Ok(Self { only, except: find(program, &args.except, "--except")? })
    }

    fn has(&self, id: FunctionId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&id)) && !self.except.contains(&id)
    }
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
