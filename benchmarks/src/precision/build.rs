//! The blocks of one build with the statements they come from.

use super::source::{Sources, TextId, Texts};
use crate::corpus;
use crate::oracle::line_table::{LineTable, Span};
use crate::relive::Reading;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A file of a build, and the number of a line.
pub(crate) type Line = (u32, u32);

/// A block and where it comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Block {
    /// Its function, by the symbol table.
    pub(crate) function: String,
    /// The text of its first instruction's line, if that says anything.
    pub(crate) first: Option<TextId>,
    /// The texts of all its instructions' lines, ascending.
    pub(crate) texts: Vec<TextId>,
    /// All these lines.
    pub(crate) lines: Vec<Line>,
}

/// What a function has of one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Occurrences {
    /// Lines with this text.
    pub(crate) lines: usize,
    /// Blocks that begin with it.
    pub(crate) blocks: usize,
}

/// Both copies of a build; their addresses are the same, and so the debug information of the one tells of the other.
#[derive(Default)]
pub(crate) struct Build {
    /// The folder of its version.
    pub(crate) root: PathBuf,
    /// Each source file once.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) named: BTreeMap<u64, Block>,
    pub(crate) stripped: BTreeMap<u64, Block>,
    /// What is in each function of the named copy. Functions that share a name are left out.
    pub(crate) functions: HashMap<String, HashMap<TextId, Occurrences>>,
    /// The texts of all its instructions' lines.
    pub(crate) texts: BTreeSet<TextId>,
}

impl Build {
    /// Is a statement of a function of another version still here? If the function is not, anywhere.
    pub(crate) fn has(&self, function: &str, text: TextId) -> bool {
        self.functions
            .get(function)
            .map_or_else(|| self.texts.contains(&text), |texts| texts.contains_key(&text))
    }

    pub(crate) fn take(relive: &Path, corpus: &Path, of: &corpus::Build, texts: &mut Texts) -> Result<Self> {
        let lines = LineTable::of(&of.binary(corpus, ""))?;
        let mut sources = Sources::of(of, corpus);
        let files: Vec<u32> = lines.files.iter().map(|file| sources.file(file, texts)).collect();
        let own = |path: &&PathBuf| path.starts_with(corpus) && !path.ends_with("<built-in>");
        for path in sources.missing.iter().filter(own) {
            eprintln!("not found: {}", path.display());
        }
        let named = Reading::take(relive, &of.named(corpus))?;
        let stripped = Reading::take(relive, &of.binary(corpus, ".stripped"))?;
        let mut build = Self::new(&lines, &files, &sources.texts, &named, &stripped);
        (build.root, build.files) = (sources.root, sources.paths);
        Ok(build)
    }

    /// `files` says which source file each file of the line table is, `texts` what its lines say.
    fn new(
        lines: &LineTable,
        files: &[u32],
        texts: &[Vec<Option<TextId>>],
        named: &Reading,
        stripped: &Reading,
    ) -> Self {
        let mut build = Self::default();
        let mut seen: BTreeSet<(&str, Line)> = BTreeSet::new();
        let line_of = |span: &Span| (files[span.file], span.line);
        let text_of = |(file, line): Line| {
            texts[file as usize].get((line as usize).saturating_sub(1)).copied().flatten()
        };
        for (reading, blocks) in [(named, &mut build.named), (stripped, &mut build.stripped)] {
            for block in reading.blocks() {
                let function = named.block_around(block.address).map_or("", |own| own.function.as_str());
                let spans = || lines.within(block.address..block.end());
                let covers = |span: &&Span| span.range.contains(&block.address);
                let first = spans().find(covers).and_then(|span| text_of(line_of(span)));
                let mut lines: Vec<Line> = spans().map(line_of).collect();
                lines.sort_unstable();
                lines.dedup();
                let mut texts: Vec<TextId> = lines.iter().filter_map(|&line| text_of(line)).collect();
                texts.sort_unstable();
                texts.dedup();
                let function = function.to_owned();
                blocks.insert(block.address, Block { function, first, texts, lines });
            }
        }
        for block in named.blocks() {
            let of_function = build.functions.entry(block.function.clone()).or_default();
            for span in lines.within(block.address..block.end()) {
                let line = line_of(span);
                if let Some(text) = text_of(line)
                    && seen.insert((&block.function, line))
                {
                    of_function.entry(text).or_default().lines += 1;
                }
            }
            if let Some(first) = build.named.get(&block.address).and_then(|block| block.first) {
                of_function.entry(first).or_default().blocks += 1;
            }
        }
        build.texts = build.named.values().flat_map(|block| block.texts.iter().copied()).collect();
        build.functions.retain(|name, _| named.is_unique(name));
        build
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relive::{Block as Shape, Function};

    #[test]
    fn statements_of_blocks() {
        let lines = LineTable::parse(
            "debug_line[0x0]\ninclude_directories[  0] = \"/s\"\nfile_names[  0]:\n           name: \"a.c\"\n      dir_index: 0\n\
             0x0000000000000010      1      0      0   0  0  0  is_stmt\n\
             0x0000000000000014      2      0      0   0  0  0  is_stmt\n\
             0x0000000000000018      3      0      0   0  0  0  is_stmt end_sequence\n",
        )
        .unwrap();
        let shape = |address, size| Shape { function: "f".into(), address, size, successors: Vec::new() };
        let function = Function { name: "f".into(), address: 0x10, status: "understood".into() };
        let reading = Reading::new(vec![shape(0x10, 6), shape(0x16, 2)], vec![function]);
        let build = Build::new(&lines, &[0], &[vec![Some(7), Some(9)]], &reading, &reading);
        let lines = vec![(0, 1), (0, 2)];
        assert_eq!(
            build.named[&0x10],
            Block { function: "f".into(), first: Some(7), texts: vec![7, 9], lines }
        );
        assert_eq!(build.named[&0x16].first, Some(9));
        assert_eq!(build.functions["f"][&9], Occurrences { lines: 1, blocks: 1 });
    }
}
