//! Runs `tests/filetests`: small programs with what relive has to make of them written beside the code.
//! The grammar is in the README there.

use rayon::prelude::*;
use relive_code::addr::LinkAddr;
use relive_code::cfg::{Edge, Gap, GapKind, Target};
use relive_code::verify;
use relive_image::image::Image;
use relive_image::program::{Function, Program, analyze};
use relive_testkit::compile::{Compiled, compile, stdout};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/filetests");

#[test]
fn every_expectation_holds() {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(DIRECTORY)
        .expect("the directory of the filetests")
        .map(|entry| entry.expect("a readable directory").path())
        .filter(|path| path.extension().is_some_and(|ending| ending != "md"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no filetests in {DIRECTORY}");
    let failures: Vec<String> = paths.par_iter().flat_map_iter(|path| run(path)).collect();
    assert!(failures.is_empty(), "{} do not hold:\n{}", failures.len(), failures.join("\n"));
}

/// Builds the file in every way it asks for; what does not hold.
fn run(path: &Path) -> Vec<String> {
    let name = path.file_name().and_then(OsStr::to_str).expect("a name in UTF-8");
    let text = std::fs::read_to_string(path).expect("a readable file");
    let case = match Case::parse(&text) {
        Ok(case) => case,
        Err(why) => return vec![format!("{name}: {why}")],
    };
    case.builds.iter().flat_map(|build| case.check(name, &text, build)).collect()
}

/// What the comments of a file say.
#[derive(Default)]
struct Case<'t> {
    /// Compiler and flags.
    builds: Vec<Vec<&'t str>>,
    hidden: Vec<&'t str>,
    /// Claims with their line numbers.
    expected: Vec<(usize, &'t str)>,
}

impl<'t> Case<'t> {
    fn parse(text: &'t str) -> Result<Self, String> {
        let mut case = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let Some(comment) = line.strip_prefix("//").or_else(|| line.strip_prefix('#')) else { continue };
            match comment.trim().split_once(": ") {
                Some(("build", words)) => case.builds.push(words.split_whitespace().collect()),
                Some(("hide", words)) => case.hidden.extend(words.split_whitespace()),
                Some(("expect", claim)) => case.expected.push((number, claim.trim())),
                _ => {}
            }
        }
        match (case.builds.is_empty(), case.expected.is_empty()) {
            (true, _) => Err("no `build:`".into()),
            (_, true) => Err("no `expect:`".into()),
            _ => Ok(case),
        }
    }

    /// What does not hold of one build.
    fn check(&self, name: &str, text: &str, build: &[&str]) -> Vec<String> {
        let built = compile(build[0], &build[1..], (name, text));
        let symbols = symbols_of(&built);
        let bytes = without_labels(&built, &symbols, &self.hidden);
        let image = match Image::parse(&bytes, None) {
            Ok(image) => image,
            Err(why) => return vec![format!("{name}: {}: {why}", build.join(" "))],
        };
        let outcome = Outcome {
            program: analyze(&image),
            labels: symbols.iter().map(|s| (s.name.as_str(), s.addr)).collect(),
        };
        let mut failures = Vec::new();
        let mut shown = BTreeSet::new();
        for &(line, claim) in &self.expected {
            let Err(why) = outcome.judge(claim) else { continue };
            let mut failure = format!("{name}:{line}: expect: {claim}\n    {why} ({})", build.join(" "));
            let first = claim.split_whitespace().next().unwrap_or_default();
            if let Ok(function) = outcome.function(first)
                && shown.insert(function.entry)
            {
                for line in function.cfg.dump().lines() {
                    let _ = write!(failure, "\n    | {}", outcome.with_labels(line));
                }
            }
            failures.push(failure);
        }
        for function in &outcome.program.functions {
            if let Err(why) = verify::cfg::check(&function.cfg, &image.elf) {
                failures.push(format!("{name}: {}: unsound graph: {why}", function.name()));
            }
        }
        failures
    }
}

/// A named place in the file as built.
struct Symbol {
    name: String,
    addr: LinkAddr,
    /// Whether it is the symbol of a function or an object, which relive may see.
    typed: bool,
}

fn symbols_of(file: &Compiled) -> Vec<Symbol> {
    let table = stdout("readelf", &["-sW".as_ref(), file.as_ref()]);
    let rows = table.lines().filter_map(|row| {
        let [_, addr, _, kind, _, _, section, name] =
            row.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
        if matches!(kind, "FILE" | "SECTION") || section == "UND" {
            return None;
        }
        let addr = LinkAddr(u64::from_str_radix(addr, 16).ok()?);
        Some(Symbol { name: name.to_owned(), addr, typed: kind != "NOTYPE" })
    });
    rows.collect()
}

/// The file without its labels and the symbols to hide.
fn without_labels(file: &Compiled, symbols: &[Symbol], hidden: &[&str]) -> Vec<u8> {
    let copy = file.with_extension("stripped");
    let stripped = symbols.iter().filter(|s| !s.typed || hidden.contains(&s.name.as_str()));
    let flags: Vec<String> = stripped.map(|s| format!("--strip-symbol={}", s.name)).collect();
    let mut args: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
    args.extend([file.as_ref(), copy.as_os_str()]);
    let _ = stdout("objcopy", &args);
    std::fs::read(&copy).expect("what objcopy wrote")
}

/// What relive made of a build, and the labels to ask about it.
struct Outcome<'d> {
    program: Program<'d>,
    labels: HashMap<&'d str, LinkAddr>,
}

impl Outcome<'_> {
    /// Why the claim does not hold.
    fn judge(&self, claim: &str) -> Result<(), String> {
        let words: Vec<&str> = claim.split_whitespace().collect();
        let function = |name| self.function(name);
        match words[..] {
            ["no", "function", "at", label] => {
                let none = self.program.function_at(self.label(label)?).is_none();
                ensure(none, || "there is one".into())
            }
            [f, "understood"] => {
                let problems = &function(f)?.cfg.problems;
                ensure(problems.is_empty(), || "it is not".into())
            }
            [f, "not", "understood:", reason, ref place @ ..] => {
                let at = match place {
                    [] => None,
                    ["at", label] => Some(self.label(label)?),
                    _ => return Err("not in the grammar".into()),
                };
                let problems = &function(f)?.cfg.problems;
                let found =
                    problems.iter().any(|p| p.reason.name() == reason && at.is_none_or(|at| at == p.at));
                ensure(found, || "not for that reason".into())
            }
            [f, "blocks", n] => equal(function(f)?.cfg.blocks.len(), n),
            [f, "unreached", n] => equal(function(f)?.cfg.blocks.iter().filter(|b| !b.reached).count(), n),
            [f, "pieces", n] => equal(function(f)?.cfg.pieces.len(), n),
            [f, "entries", n] => equal(function(f)?.cfg.entries.len(), n),
            [f, "padding", n] => equal(gap_bytes(&function(f)?.cfg.gaps, GapKind::Padding), n),
            [f, "data", n] => equal(gap_bytes(&function(f)?.cfg.gaps, GapKind::Data), n),
            [f, "edges", kind, n] => {
                equal(function(f)?.cfg.edges.iter().filter(|e| e.kind.name() == kind).count(), n)
            }
            [f, "tables", n] => equal(function(f)?.cfg.tables.len(), n),
            [f, "table", n, "entries", bound] => {
                let wanted = number(n)?;
                let tables = &function(f)?.cfg.tables;
                let found = tables.iter().any(|t| t.targets.len() == wanted && t.bound.name() == bound);
                ensure(found, || "there is no such table".into())
            }
            [f, "edge", from, "->", to, kind] => {
                let edges = self.edges(function(f)?, from, to)?;
                ensure(edges.iter().any(|e| e.kind.name() == kind), || "there is no such edge".into())
            }
            [f, "no", "edge", from, "->", to] => {
                let edges = self.edges(function(f)?, from, to)?;
                ensure(edges.is_empty(), || format!("there is one: {}", edges[0].kind))
            }
            [f, "returns"] => ensure(function(f)?.returns, || "it never does".into()),
            [f, "never", "returns"] => ensure(!function(f)?.returns, || "it does".into()),
            _ => Err("not in the grammar".into()),
        }
    }

    fn label(&self, name: &str) -> Result<LinkAddr, String> {
        self.labels.get(name).copied().ok_or_else(|| format!("the file has no symbol {name}"))
    }

    fn function(&self, name: &str) -> Result<&Function<'_>, String> {
        let found = self.program.function_at(self.label(name)?);
        found.map(|id| self.program.function(id)).ok_or_else(|| format!("no function begins at {name}"))
    }

    /// The edges from the block that holds one label to what starts at the other.
    fn edges(&self, function: &Function<'_>, from: &str, to: &str) -> Result<Vec<Edge>, String> {
        let cfg = &function.cfg;
        let block =
            cfg.block_holding(self.label(from)?).ok_or_else(|| format!("no block of it holds {from}"))?;
        let wanted = match to {
            "elsewhere" => None,
            label => Some(self.label(label)?),
        };
        let place = |edge: &Edge| match edge.to {
            Target::Block(id) => Some(cfg.block(id).start),
            Target::Outside(at) => Some(at),
            Target::Elsewhere => None,
        };
        Ok(cfg.edges_from(block).iter().filter(|edge| place(edge) == wanted).copied().collect())
    }

    /// A line of a dump with the labels of the addresses it mentions.
    fn with_labels(&self, line: &str) -> String {
        let mut out = line.to_owned();
        let mut known: Vec<(&str, LinkAddr)> = self.labels.iter().map(|(&name, &at)| (name, at)).collect();
        known.sort_unstable();
        for (name, at) in known {
            let at = at.to_string();
            if line.split([' ', ':', ',']).any(|word| word == at) {
                let _ = write!(out, " [{at} = {name}]");
            }
        }
        out
    }
}

fn gap_bytes(gaps: &[Gap], kind: GapKind) -> usize {
    gaps.iter().filter(|gap| gap.kind == kind).map(|gap| gap.range.len() as usize).sum()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn equal(found: usize, wanted: &str) -> Result<(), String> {
    let wanted = number(wanted)?;
    ensure(found == wanted, || format!("there are {found}"))
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}
