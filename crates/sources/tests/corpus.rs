//! Real programs, against what gcc makes of their comments and what text is where: every line of code is either
//! paired with a line that says the same, or within a reported change.
//!
//! `CORPUS_DIR=… cargo test --release -p relive-sources --test corpus -- --ignored --nocapture`, with
//! `src/<program>/<version>/` below that directory (`benchmarks/corpus/fetch.sh`).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use relive_sources::{Changes, Tree, compare};

/// The code of each line of a file, without comments and blanks, as gcc sees it.
type Code = BTreeMap<u32, String>;

fn files(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() {
                found.push((path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), path));
            }
        }
    }
    found.sort();
    found
}

/// Strips comments with gcc; none for what it does not read.
fn strip(path: &Path) -> Option<Code> {
    let language = match path.extension()?.to_str()? {
        "c" => "c",
        "h" | "cpp" | "cc" | "hpp" => "c++",
        _ => return None,
    };
    let output =
        Command::new("gcc").args(["-fpreprocessed", "-dD", "-E", "-x", language]).arg(path).output().unwrap();
    let mut code = Code::new();
    let mut line = 1;
    // Text under `#if 0` is no code; gcc keeps it here.
    let mut conditions: Vec<bool> = Vec::new();
    let mut in_condition = false;
    let mut guard = String::new();
    for said in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(number) = said.strip_prefix("# ").and_then(|rest| rest.split(' ').next()?.parse().ok()) {
            line = number;
            continue;
        }
        let bare = said.split_whitespace().collect::<String>();
        let bare = bare.trim_end_matches('\\');
        let continues = std::mem::replace(&mut in_condition, false);
        // The macro of an include guard is no more than its condition.
        let guards = std::mem::take(&mut guard);
        if continues || (!guards.is_empty() && bare == format!("#define{guards}")) {
            in_condition = continues && said.ends_with('\\');
        } else if bare.starts_with("#if") {
            conditions.push(bare == "#if0");
            guard = bare.strip_prefix("#ifndef").unwrap_or_default().to_owned();
            in_condition = said.ends_with('\\');
        } else if bare.starts_with("#el") {
            conditions.pop();
            conditions.push(false);
            in_condition = said.ends_with('\\');
        } else if bare.starts_with("#endif") {
            conditions.pop();
        } else if !bare.is_empty() && !conditions.contains(&true) {
            code.insert(line, bare.to_owned());
        }
        line += 1;
    }
    Some(code)
}

/// Lines that say nothing by themselves.
fn is_idle(code: &str) -> bool {
    code.chars().all(|c| "{}();,".contains(c))
        || code.starts_with("extern\"C\"")
        || code.starts_with("namespace")
}

/// Whether two lines declare the same function. What its parameters are called means nothing there.
fn declare_alike(a: &str, b: &str) -> bool {
    let declared = |line: &str| {
        let (head, parameters) = line.strip_suffix(");")?.rsplit_once('(')?;
        Some((head.to_owned(), parameters.matches(',').count()))
    };
    declared(a).is_some_and(|declared_a| declared(b) == Some(declared_a))
}

#[derive(Default)]
struct Tally {
    lines: usize,
    paired: usize,
    different: usize,
    missing: usize,
}

fn check(old_root: &Path, new_root: &Path) -> (Tally, Changes) {
    let (old_files, new_files) = (files(old_root), files(new_root));
    let tree = |files: &[(String, PathBuf)]| {
        let mut tree = Tree::default();
        for (name, path) in files {
            tree.insert(name.clone(), std::fs::read(path).unwrap());
        }
        tree
    };
    let (old, new) = (tree(&old_files), tree(&new_files));
    let start = std::time::Instant::now();
    let changes = compare(&old, &new);
    let took = start.elapsed();
    let code = |files: &[(String, PathBuf)]| {
        files.iter().filter_map(|(name, path)| Some((name.clone(), strip(path)?))).collect::<HashMap<_, _>>()
    };
    let (old_code, new_code) = (code(&old_files), code(&new_files));
    let mut tally = Tally::default();
    let show = std::env::var_os("SHOW").is_some();
    let mut known: [HashSet<(String, u32)>; 2] = Default::default();
    for (from, to) in &changes.unchanged {
        let (from_path, to_path) = (changes.old_path(from.file).unwrap(), changes.new_path(to.file).unwrap());
        known[0].insert((from_path.to_owned(), from.line));
        known[1].insert((to_path.to_owned(), to.line));
        let (Some(a), Some(b)) = (old_code.get(from_path), new_code.get(to_path)) else { continue };
        let (Some(line_a), Some(line_b)) = (a.get(&from.line), b.get(&to.line)) else { continue };
        tally.paired += 1;
        // Layout may differ: then one stands within the lines around the other.
        let around = |code: &Code, line: u32| {
            code.range(line.saturating_sub(8)..=line + 8).map(|(_, text)| text.as_str()).collect::<String>()
        };
        // A statement may also share its line with others, and so may an enumerator.
        let shares = |x: &str, y: &str| {
            let parts = |c: char| ";{}".contains(c) || c == ',' && x.contains("enum{");
            x.split(parts).any(|part| !part.is_empty() && y.contains(part))
        };
        if line_a != line_b
            && !around(b, to.line).contains(line_a.as_str())
            && !around(a, from.line).contains(line_b.as_str())
            && !shares(line_a, line_b)
            && !declare_alike(line_a, line_b)
        {
            tally.different += 1;
            if show {
                println!("different: {from_path}:{} {line_a} | {to_path}:{} {line_b}", from.line, to.line);
            }
        }
    }
    for change in changes.changes.iter().filter(|change| change.because.is_none()) {
        for (side, span, paths) in [(0, change.old, &changes.old_files), (1, change.new, &changes.new_files)]
        {
            let Some(span) = span else { continue };
            known[side]
                .extend((span.first..=span.last).map(|line| (paths[span.file.0 as usize].clone(), line)));
        }
    }
    for (side, code) in [(0, &old_code), (1, &new_code)] {
        for (path, code) in code {
            for (line, text) in code.iter().filter(|(_, text)| !is_idle(text)) {
                tally.lines += 1;
                if !known[side].contains(&(path.clone(), *line)) {
                    tally.missing += 1;
                    if show {
                        println!("missing: {} {path}:{line} {text}", if side == 0 { "old" } else { "new" });
                    }
                }
            }
        }
    }
    println!(
        "{} {}: {} lines, {} paired, {} different, {} missing; {} changes, {:.2} %, {took:.2?}",
        old_root.display(),
        new_root.display(),
        tally.lines,
        tally.paired,
        tally.different,
        tally.missing,
        changes.changes.len(),
        100.0 * changes.statements.significance()
    );
    (tally, changes)
}

/// Versions by their numbers.
fn versions(program: &Path) -> Vec<PathBuf> {
    let mut found =
        std::fs::read_dir(program).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    found.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0)).collect::<Vec<_>>()
    });
    found
}

#[test]
#[ignore = "needs CORPUS_DIR"]
fn every_line_of_the_corpus_is_accounted_for() {
    let corpus = PathBuf::from(std::env::var_os("CORPUS_DIR").expect("CORPUS_DIR")).join("src");
    let only = std::env::var("ONLY").ok();
    let mut sum = Tally::default();
    for program in std::fs::read_dir(corpus).unwrap().flatten().map(|entry| entry.path()) {
        if only.as_ref().is_some_and(|only| !program.ends_with(only)) {
            continue;
        }
        for pair in versions(&program).windows(2) {
            let (tally, _) = check(&pair[0], &pair[1]);
            sum.lines += tally.lines;
            sum.paired += tally.paired;
            sum.different += tally.different;
            sum.missing += tally.missing;
        }
    }
    println!(
        "all: {} lines, {} paired, {} different, {} missing",
        sum.lines, sum.paired, sum.different, sum.missing
    );
    assert_eq!(sum.different, 0);
    assert!(sum.missing * 1000 <= sum.lines);
}
