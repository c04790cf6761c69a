//! Two source trees, and what of a build's code they say has not changed.

use anyhow::{Context as _, Result, bail};
use relive_impact::significance::Weights;
use relive_profile::model::{Function, Module};
use relive_sources::{Changes, FileId, Span, Tree, compare};
use std::collections::HashMap;
use std::path::Path;

/// What changed from one tree to the other.
pub(crate) struct Compared {
    changes: Changes,
    old: Side,
    new: Side,
}

/// One of the trees: which lines changed.
#[derive(Default)]
struct Side {
    /// Files by their last component.
    files: HashMap<String, Vec<(String, FileId)>>,
    lengths: HashMap<FileId, u32>,
    changed: HashMap<FileId, Vec<(u32, u32)>>,
}

impl Compared {
    /// Reads and compares both trees.
    pub(crate) fn read(old: &Path, new: &Path) -> Result<Self> {
        let (old_tree, old_lengths) = tree(old)?;
        let (new_tree, new_lengths) = tree(new)?;
        let changes = compare(&old_tree, &new_tree);
        let mut sides =
            (Side::new(&changes.old_files, &old_lengths), Side::new(&changes.new_files, &new_lengths));
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
        for ((module, path), side) in [(old, &self.old), (new, &self.new)] {
            side.check(module).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

impl Side {
    fn new(files: &[String], lengths: &HashMap<String, u32>) -> Self {
        let mut side = Self::default();
        for (path, i) in files.iter().zip(0..) {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            side.files.entry(name).or_default().push((path.clone(), FileId(i)));
            side.lengths.insert(FileId(i), lengths.get(path).copied().unwrap_or(0));
        }
        side
    }

    fn note(&mut self, span: Span) {
        self.changed.entry(span.file).or_default().push((span.first, span.last));
    }

    /// The file of the tree that debug information means: the one that shares the most of its path.
    fn find(&self, path: &str) -> Option<FileId> {
        let shared =
            |other: &str| path.rsplit('/').zip(other.rsplit('/')).take_while(|(a, b)| a == b).count();
        let name = path.rsplit('/').next()?;
        self.files.get(name)?.iter().max_by_key(|(other, _)| shared(other)).map(|(_, id)| *id)
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

    fn check(&self, module: &Module) -> Result<()> {
        let lines = || module.functions.iter().flat_map(|f| &f.blocks).filter_map(|block| block.line);
        if lines().next().is_none() {
            bail!(
                "no source lines are known of {}: it was built, or measured, without debug information; leave \
                 --old-source and --new-source out",
                module.path
            );
        }
        let mut found = false;
        for line in lines() {
            let Some(file) = self.find(module.file(line)) else { continue };
            found = true;
            let last = self.lengths.get(&file).copied().unwrap_or(0);
            if line.line > last {
                bail!(
                    "not the sources of {}: its code comes from line {} of {}, which has {last} lines here",
                    module.path,
                    line.line,
                    module.file(line)
                );
            }
        }
        if !found {
            bail!("not the sources of {}: none of the files it was made from is here", module.path);
        }
        Ok(())
    }
}

/// The sources below a folder, and how many lines each file has.
fn tree(root: &Path) -> Result<(Tree, HashMap<String, u32>)> {
    let (mut tree, mut lengths) = (Tree::default(), HashMap::new());
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
                lengths
                    .insert(relative.clone(), bytes.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1);
                tree.insert(relative, bytes);
            }
        }
    }
    if tree.is_empty() {
        bail!("{}: no sources in C, C++, Rust or Go", root.display());
    }
    Ok((tree, lengths))
}
