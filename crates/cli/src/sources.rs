//! Two source trees, and what of a build's code they say has not changed.

use anyhow::{Context as _, Result, anyhow, bail};
use relive_impact::significance::Weights;
use relive_profile::model::{Function, Module};
use relive_sources::{Changes, FileId, Span, Tree, compare};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// What changed from one tree to the other.
pub(crate) struct Compared {
    changes: Changes,
    old: Side,
    new: Side,
}

/// One of the trees: which lines changed.
struct Side {
    tree: Tree,
    /// By number.
    paths: Vec<String>,
    /// Files by their last component.
    files: HashMap<String, Vec<FileId>>,
    changed: HashMap<FileId, Vec<(u32, u32)>>,
}

/// How well the lines that code of a build comes from fit to a tree.
struct Fit {
    /// Lines of files that the tree has.
    lines: usize,
    /// How many of these no code can come from.
    impossible: usize,
    /// One of those: the file, as debug information names it, and the line.
    first: Option<(String, u32)>,
}

/// The share of lines that no code can come from, above which it is another tree. In nine programs and both releases of each (in C and C++, one in
/// Rust), no line of a line table is impossible in the right tree; in that of the release before or after, 0.9 to 35 % are.
const WRONG: f64 = 0.005;

/// By how many times better lines must fit the other way round for the trees to be swapped.
const SWAPPED: usize = 4;

impl Compared {
    /// Reads and compares both trees.
    pub(crate) fn read(old: &Path, new: &Path) -> Result<Self> {
        let (old_tree, new_tree) = (tree(old)?, tree(new)?);
        let changes = compare(&old_tree, &new_tree);
        let mut sides = (Side::new(old_tree, &changes.old_files), Side::new(new_tree, &changes.new_files));
        for change in &changes.changes {
            change.old.into_iter().for_each(|span| sides.0.note(span));
            change.new.into_iter().for_each(|span| sides.1.note(span));
        }
        Ok(Self { changes, old: sides.0, new: sides.1 })
    }

    /// How much of the program changed, in statements.
    pub(crate) fn significance(&self, weights: &Weights) -> f64 {
        self.changes.statements.weighed([weights.changed, weights.added, weights.deleted])
    }

    /// Whether no line of an old and of a new function changed, as far as lines of both are known.
    pub(crate) fn is_same(&self, old: (&Module, &Function), new: (&Module, &Function)) -> bool {
        self.old.is_same(old.0, old.1) == Some(true) && self.new.is_same(new.0, new.1) == Some(true)
    }

    /// Refuses trees that the builds were not made from.
    pub(crate) fn check(&self, old: (&Module, &Path), new: (&Module, &Path)) -> Result<()> {
        let pairs = [(old, &self.old, &self.new), (new, &self.new, &self.old)];
        for ((module, _), ..) in &pairs {
            has_lines(module)?;
        }
        let fits = pairs.map(|((module, _), own, other)| (own.fit(module), other.fit(module)));
        let impossible =
            |of: fn(&(Fit, Fit)) -> &Fit| fits.iter().map(|both| of(both).impossible).sum::<usize>();
        let (own, other) = (impossible(|both| &both.0), impossible(|both| &both.1));
        let fits_there = fits.iter().all(|(_, other)| other.lines > 0);
        let is_swapped = fits_there && own > 0 && other * SWAPPED <= own;
        for (((module, path), ..), (own, _)) in pairs.iter().zip(&fits) {
            let named = || path.display().to_string();
            if own.lines == 0 {
                return Err(anyhow!(
                    "not the sources of {}: none of the files it was made from is here",
                    module.path
                ))
                .with_context(named);
            }
            if let Some((file, line)) = own.first.as_ref().filter(|_| is_swapped || own.is_wrong()) {
                let remedy = match is_swapped {
                    true => "; --old-source and --new-source are the wrong way round",
                    false => "",
                };
                return Err(anyhow!(
                    "not the sources of {}: its code comes from line {line} of {file}, where there is no code here ({} such lines \
                     of {}){remedy}",
                    module.path,
                    own.impossible,
                    own.lines
                ))
                .with_context(named);
            }
        }
        Ok(())
    }
}

impl Fit {
    fn is_wrong(&self) -> bool {
        self.impossible as f64 > self.lines as f64 * WRONG
    }
}

/// Refuses a build of which no lines are known.
fn has_lines(module: &Module) -> Result<()> {
    if module.functions.iter().flat_map(|f| &f.blocks).any(|block| block.line.is_some()) {
        return Ok(());
    }
    bail!(
        "no source lines are known of {}: it was built, or measured, without debug information; leave --old-source and \
         --new-source out",
        module.path
    )
}

impl Side {
    fn new(tree: Tree, files: &[String]) -> Self {
        let mut side = Self { tree, paths: files.to_vec(), files: HashMap::new(), changed: HashMap::new() };
        for (path, i) in files.iter().zip(0..) {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            side.files.entry(name).or_default().push(FileId(i));
        }
        side
    }

    fn note(&mut self, span: Span) {
        self.changed.entry(span.file).or_default().push((span.first, span.last));
    }

    /// The file of the tree that debug information means: the longer of the two paths ends like the other, and no other file of the tree
    /// fits as well. Modules of Rust's library are called like those of the program.
    fn find(&self, path: &str) -> Option<FileId> {
        let path = plain(path);
        let depth = path.split('/').filter(|part| !part.is_empty()).count();
        let fits = |&id: &FileId| {
            let other = &self.paths[id.0 as usize];
            let shared = path.rsplit('/').zip(other.rsplit('/')).take_while(|(a, b)| a == b).count();
            (shared >= depth.min(other.split('/').count())).then_some((shared, id))
        };
        let mut fitting: Vec<(usize, FileId)> =
            self.files.get(path.rsplit('/').next()?)?.iter().filter_map(fits).collect();
        fitting.sort_unstable();
        match fitting[..] {
            [] => None,
            [.., (second, _), (first, _)] if first == second => None,
            [.., (_, id)] => Some(id),
        }
    }

    /// Whether no line of a function changed; `None` if nobody knows all its lines.
    fn is_same(&self, module: &Module, function: &Function) -> Option<bool> {
        let mut same = true;
        for block in &function.blocks {
            let line = block.line?;
            let file = self.find(module.file(line))?;
            let spans = self.changed.get(&file).map_or(&[][..], Vec::as_slice);
            same &= !spans.iter().any(|&(first, last)| (first..=last).contains(&line.line));
        }
        Some(same)
    }

    fn fit(&self, module: &Module) -> Fit {
        let blocks = module.functions.iter().flat_map(|function| &function.blocks);
        // Line 0 is what compilers call code that comes from no line.
        let lines: BTreeSet<(u32, u32)> = blocks
            .filter_map(|block| block.line)
            .map(|line| (line.file(), line.line))
            .filter(|line| line.1 > 0)
            .collect();
        let mut fit = Fit { lines: 0, impossible: 0, first: None };
        let lines: Vec<(u32, u32)> = lines.into_iter().collect();
        for of_file in lines.chunk_by(|a, b| a.0 == b.0) {
            let name = module.files.get(of_file[0].0 as usize).map_or("?", String::as_str);
            let path = self.find(name).map(|id| &self.paths[id.0 as usize]);
            let Some(standing) = path.and_then(|path| self.tree.standing(path)) else { continue };
            fit.lines += of_file.len();
            for &(_, line) in of_file.iter().filter(|(_, line)| !standing.has(*line)) {
                fit.impossible += 1;
                fit.first.get_or_insert_with(|| (name.to_owned(), line));
            }
        }
        fit
    }
}

/// A path without `.` and `..`.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|&last| last != ".." && !last.is_empty()) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The sources below a folder.
fn tree(root: &Path) -> Result<Tree> {
    let mut tree = Tree::default();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}: is it a folder with sources?", folder.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| folder.display().to_string())?;
            let path = entry.path();
            // Links are not followed: they may lead round in circles.
            let kind = entry.file_type().with_context(|| path.display().to_string())?;
            let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && relive_sources::Language::of_path(&relative).is_some() {
                let bytes =
                    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                tree.insert(relative, bytes);
            }
        }
    }
    if tree.is_empty() {
        bail!("{}: no sources in C, C++, Rust or Go", root.display());
    }
    Ok(tree)
}
