//! Which matched pairs are right, and which blocks should have been matched.
//!
//! A pair is **right** if the two blocks share a statement: some instruction of either comes from a line with the same
//! text, or from lines of which one took the place of the other (`edits`). The compiler moves single instructions across
//! blocks, so the first one alone would blame the matcher for the scheduler; how many pairs agree in the first one too is
//! a number of its own.
//!
//! It is **wrong** if they do not, and a statement of one of them is still there in the other version's function: its
//! partner is elsewhere. The rest is **not judged**: lines that say nothing (`source::meaningful`), and code that was written
//! anew, where the text cannot tell what became of it.
//!
//! A new block is **unchanged**, so that its partner is certain to exist, if a function of its name is in both builds, and
//! of the text of its first line that function has as many lines and as many blocks in one as in the other. It is
//! **found** if it is matched with a block of that function that has an instruction of that text.

use super::build::{Block, Build};
use super::edits::Edits;
use crate::relive::{hex, rows};
use anyhow::{Result, bail};
use std::collections::BTreeMap;

/// One line of `relive match --tsv` on code blocks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matched {
    pub(crate) old: u64,
    pub(crate) new: u64,
    /// How it was found, or in brackets what it is.
    pub(crate) level: String,
    /// Whether it is counted apart: it claims no more than control flow, or it is in another function than before.
    pub(crate) apart: bool,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Matched>> {
    let mut matched = Vec::new();
    for row in rows(text, "kind\told\tnew\tlevel")? {
        let [kind, old, new, level] = row[..] else { bail!("relive match --tsv: not four columns: {row:?}") };
        let (level, apart) = match kind {
            "block" => (level.to_owned(), false),
            "partial" | "inlined" | "outlined" => (format!("({kind})"), true),
            "procedure" | "clone" | "data" => continue,
            _ => bail!("relive match --tsv: unknown kind {kind:?}"),
        };
        matched.push(Matched { old: hex(old)?, new: hex(new)?, level, apart });
    }
    Ok(matched)
}

/// How many of what was judged are right.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Share {
    pub(crate) right: u64,
    pub(crate) all: u64,
}

impl Share {
    fn count(&mut self, right: bool) {
        self.all += 1;
        self.right += u64::from(right);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.all += other.all;
        self.right += other.right;
    }

    /// Nothing of nothing is all of it.
    pub(crate) fn fraction(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.right as f64 / self.all as f64 }
    }
}

/// What came of one pair of files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// One-to-one pairs, judged or not.
    pub(crate) pairs: u64,
    pub(crate) precision: Share,
    /// Of the judged pairs, those that begin with the same statement.
    pub(crate) first: Share,
    /// Unchanged blocks that are matched at all, and that are matched right.
    pub(crate) matched: Share,
    pub(crate) recall: Share,
    /// By level; what is counted apart has a name in brackets.
    pub(crate) levels: BTreeMap<String, Share>,
    pub(crate) wrong: Vec<Matched>,
    /// Unchanged blocks that are not found, with what they are matched with instead.
    pub(crate) missed: Vec<(Option<u64>, u64)>,
}

impl Verdict {
    pub(crate) fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.precision.add(other.precision);
        self.first.add(other.first);
        self.matched.add(other.matched);
        self.recall.add(other.recall);
        for (level, share) in &other.levels {
            self.levels.entry(level.clone()).or_default().add(*share);
        }
    }
}

/// Judges the pairs of one copy. Unchanged blocks are always those of the named copies.
pub(crate) fn judge(pairs: &[Matched], old: &Build, new: &Build, edits: &Edits, stripped: bool) -> Verdict {
    let [old_blocks, new_blocks] =
        [old, new].map(|build| if stripped { &build.stripped } else { &build.named });
    let mut verdict = Verdict::default();
    let mut partners: BTreeMap<u64, u64> = BTreeMap::new();
    for pair in pairs {
        if !pair.apart {
            verdict.pairs += 1;
            partners.insert(pair.new, pair.old);
        }
        let (Some(one), Some(other)) = (old_blocks.get(&pair.old), new_blocks.get(&pair.new)) else {
            continue;
        };
        if one.texts.is_empty() || other.texts.is_empty() {
            continue;
        }
        let right = same_text(one, other) || same_edit(one, other, edits);
        let still_there =
            |block: &Block, build: &Build| block.texts.iter().any(|&text| build.has(&block.function, text));
        if !right && !still_there(one, new) && !still_there(other, old) {
            continue;
        }
        verdict.levels.entry(pair.level.clone()).or_default().count(right);
        if !pair.apart {
            verdict.precision.count(right);
            verdict.first.count(one.first == other.first);
            if !right {
                verdict.wrong.push(pair.clone());
            }
        }
    }
    for (address, block) in &new.named {
        let Some(first) = block.first else { continue };
        let occurrences = |build: &Build| build.functions.get(&block.function)?.get(&first).cloned();
        let (Some(before), Some(now)) = (occurrences(old), occurrences(new)) else { continue };
        if before != now {
            continue;
        }
        let partner = partners.get(address).copied();
        verdict.matched.count(partner.is_some());
        let found = partner.and_then(|at| old_blocks.get(&at)).is_some_and(|partner| {
            partner.function == block.function && partner.texts.binary_search(&first).is_ok()
        });
        verdict.recall.count(found);
        if !found {
            verdict.missed.push((partner, *address));
        }
    }
    verdict
}

fn same_text(one: &Block, other: &Block) -> bool {
    one.texts.iter().any(|text| other.texts.binary_search(text).is_ok())
}

fn same_edit(old: &Block, new: &Block, edits: &Edits) -> bool {
    let changed = |line| edits.new.get(line);
    let mut before = old.lines.iter().filter_map(|line| edits.old.get(line));
    before.any(|edit| new.lines.iter().filter_map(changed).any(|own| own == edit))
}

#[cfg(test)]
mod tests {
    use super::super::build::Occurrences;
    use super::*;

    fn build(blocks: &[(u64, u32, &[u32])]) -> Build {
        let mut build = Build::default();
        for &(address, first, texts) in blocks {
            let block = Block {
                function: "f".into(),
                first: Some(first),
                texts: texts.to_vec(),
                lines: vec![(0, first)],
            };
            build.named.insert(address, block.clone());
            build.stripped.insert(address, block);
            let of_function = build.functions.entry("f".into()).or_default();
            let occurrences = of_function.entry(first).or_insert(Occurrences { lines: 1, blocks: 0 });
            occurrences.blocks += 1;
        }
        build
    }

    #[test]
    fn right_wrong_and_forgotten() {
        let old = build(&[(0x10, 1, &[1, 2]), (0x20, 3, &[3]), (0x30, 4, &[4]), (0x40, 6, &[6])]);
        let new = build(&[(0x11, 1, &[1]), (0x21, 3, &[3]), (0x31, 4, &[4]), (0x41, 5, &[5])]);
        let text = "kind\told\tnew\tlevel\nprocedure\t0x10\t0x11\tname\nblock\t0x10\t0x11\t1\n\
                    block\t0x20\t0x31\t5\npartial\t0x30\t0x21\tcontrol-flow\nblock\t0x40\t0x41\t5\n";
        let pairs = parse(text).unwrap();
        let verdict = judge(&pairs, &old, &new, &Edits::default(), false);
        // statement 6 became 5, which the text does not tell
        assert_eq!((verdict.pairs, verdict.precision), (3, Share { right: 1, all: 2 }));
        // 1, 3 and 4 are in both: 1 is found, 3 is matched by control flow only, 4 wrongly
        assert_eq!(verdict.recall, Share { right: 1, all: 3 });
        assert_eq!(verdict.matched, Share { right: 2, all: 3 });
        assert_eq!(verdict.missed, [(None, 0x21), (Some(0x20), 0x31)]);
        assert_eq!(verdict.levels["(partial)"], Share { right: 0, all: 1 });
        assert_eq!(verdict.levels["5"], Share { right: 0, all: 1 });
        assert_eq!(verdict.wrong.len(), 1);
        let edits = Edits { old: [((0, 6), 1)].into(), new: [((0, 5), 1)].into() };
        let verdict = judge(&pairs, &old, &new, &edits, false);
        assert_eq!(verdict.precision, Share { right: 2, all: 3 });
        assert!(parse("kind\told\tnew\tlevel\nother\t0x1\t0x1\t1\n").is_err());
    }
}
