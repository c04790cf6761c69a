//! The answer under test: what `relive inspect` prints, parsed without any of its code.

use crate::process::output_of;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

/// One line of `--blocks`.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) function: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) successors: Vec<u64>,
}

impl Block {
    pub(crate) fn end(&self) -> u64 {
        self.address + self.size
    }
}

/// One line of `--functions`.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) status: String,
}

/// Everything relive says about one file.
pub(crate) struct Reading {
    blocks: BTreeMap<u64, Block>,
    /// Understood or not, by entry address.
    entries: HashMap<u64, bool>,
    /// Names of which every function is understood: a block names its function, and names need not be unique.
    understood_names: BTreeSet<String>,
    /// How many functions have each name.
    names: HashMap<String, usize>,
}

impl Reading {
    /// Asks the binary.
    pub(crate) fn take(relive: &Path, file: &Path) -> Result<Self> {
        let ask = |view: &str| output_of(Command::new(relive).arg("inspect").arg(file).arg(view));
        let blocks = parse_blocks(&ask("--blocks")?).context("relive inspect --blocks")?;
        let functions = parse_functions(&ask("--functions")?).context("relive inspect --functions")?;
        Ok(Self::new(blocks, functions))
    }

    pub(crate) fn new(blocks: Vec<Block>, functions: Vec<Function>) -> Self {
        let mut names: BTreeMap<&str, bool> = BTreeMap::new();
        for function in &functions {
            *names.entry(&function.name).or_insert(true) &= function.status == "understood";
        }
        let understood_names =
            names.iter().filter(|(_, all)| **all).map(|(name, _)| (*name).to_owned()).collect();
        let mut counted: HashMap<String, usize> = HashMap::new();
        for function in &functions {
            *counted.entry(function.name.clone()).or_default() += 1;
        }
        let entries = functions.iter().map(|f| (f.address, f.status == "understood")).collect();
        Self {
            blocks: blocks.into_iter().map(|b| (b.address, b)).collect(),
            entries,
            understood_names,
            names: counted,
        }
    }

    /// Is the code that begins here (a function or its cold piece) said to be understood? `None`: not known at all.
    pub(crate) fn understood(&self, address: u64) -> Option<bool> {
        if let Some(&understood) = self.entries.get(&address) {
            return Some(understood);
        }
        self.blocks.get(&address).map(|block| self.understood_names.contains(&block.function))
    }

    /// The block that begins here.
    pub(crate) fn block_at(&self, address: u64) -> Option<&Block> {
        self.blocks.get(&address)
    }

    /// The block this address lies in.
    pub(crate) fn block_around(&self, address: u64) -> Option<&Block> {
        self.blocks
            .range(..=address)
            .next_back()
            .map(|(_, block)| block)
            .filter(|block| address < block.end())
    }

    /// All blocks, by address.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.values()
    }

    /// Is there only one function of this name?
    pub(crate) fn is_unique(&self, name: &str) -> bool {
        self.names.get(name) == Some(&1)
    }

    /// Blocks that begin in a range.
    pub(crate) fn blocks_in(&self, range: &std::ops::Range<u64>) -> impl Iterator<Item = &Block> {
        self.blocks.range(range.clone()).map(|(_, block)| block)
    }
}

/// Parses `0x1140`.
pub(crate) fn hex(text: &str) -> Result<u64> {
    let digits = text.strip_prefix("0x").with_context(|| format!("address without 0x: {text:?}"))?;
    u64::from_str_radix(digits, 16).with_context(|| format!("bad address {text:?}"))
}

fn parse_blocks(text: &str) -> Result<Vec<Block>> {
    rows(text, "function\taddress\tsize\tsuccessors")?
        .map(|row| {
            let [function, address, size, successors] = row[..] else { bail!("not four columns: {row:?}") };
            let successors =
                successors.split(',').filter(|s| !s.is_empty()).map(hex).collect::<Result<_>>()?;
            let size = size.parse().with_context(|| format!("bad size {size:?}"))?;
            Ok(Block { function: function.to_owned(), address: hex(address)?, size, successors })
        })
        .collect()
}

fn parse_functions(text: &str) -> Result<Vec<Function>> {
    rows(text, "name\taddress\tsize\tstatus")?
        .map(|row| {
            let [name, address, _size, status] = row[..] else { bail!("not four columns: {row:?}") };
            Ok(Function { name: name.to_owned(), address: hex(address)?, status: status.to_owned() })
        })
        .collect()
}

pub(crate) fn rows<'t>(text: &'t str, header: &str) -> Result<impl Iterator<Item = Vec<&'t str>>> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    if first != header {
        bail!("header is {first:?}, not {header:?}");
    }
    Ok(lines.map(|line| line.split('\t').collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: &str = "function\taddress\tsize\tsuccessors\nf\t0x10\t4\t0x14,0x20\nf\t0x14\t2\t\n";
    const FUNCTIONS: &str =
        "name\taddress\tsize\tstatus\nf\t0x10\t6\tunderstood\ng\t0x40\t9\tindirect jump\n";

    #[test]
    fn blocks_and_functions() {
        let reading = Reading::new(parse_blocks(BLOCKS).unwrap(), parse_functions(FUNCTIONS).unwrap());
        assert_eq!(reading.block_at(0x10).unwrap().successors, [0x14, 0x20]);
        assert!(reading.block_at(0x14).unwrap().successors.is_empty());
        assert_eq!(reading.block_around(0x13).unwrap().address, 0x10);
        assert!(reading.block_around(0x16).is_none());
        assert_eq!(reading.understood(0x10), Some(true));
        assert_eq!(reading.understood(0x14), Some(true)); // a second piece, by its block's function name
        assert_eq!(reading.understood(0x40), Some(false));
        assert_eq!(reading.understood(0x50), None);
    }

    #[test]
    fn a_wrong_header_is_an_error() {
        assert!(parse_blocks("address\n").is_err());
        assert!(parse_blocks("function\taddress\tsize\tsuccessors\nf\t10\t4\t\n").is_err());
    }
}
