//! The tables of a profile as `relive dump` prints them.

use crate::process::output_of;
use crate::relive::{hex, rows};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// One block; no count if its function is not measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Block {
    pub(crate) function: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) count: Option<u64>,
}

/// An end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// Wherever a function is entered from and left to.
    Outside,
    /// Several indirect jumps that share a table, numbered within the function.
    Hub(u32),
    /// The block at an address.
    Block(u64),
}

/// One edge; no count if it is not known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Edge {
    pub(crate) function: String,
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) count: Option<u64>,
}

/// One function: where it begins, and how many instructions were executed in it if that was counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) address: u64,
    pub(crate) instructions: Option<u64>,
}

fn ask(relive: &Path, profile: &Path, table: &str) -> Result<String> {
    output_of(Command::new(relive).arg("dump").arg(profile).arg(table))
}

pub(crate) fn blocks(relive: &Path, profile: &Path) -> Result<Vec<Block>> {
    parse_blocks(&ask(relive, profile, "--blocks")?)
}

pub(crate) fn edges(relive: &Path, profile: &Path) -> Result<Vec<Edge>> {
    parse_edges(&ask(relive, profile, "--edges")?)
}

pub(crate) fn functions(relive: &Path, profile: &Path) -> Result<Vec<Function>> {
    parse_functions(&ask(relive, profile, "--functions")?)
}

pub(crate) fn parse_blocks(text: &str) -> Result<Vec<Block>> {
    rows(text, "module\tfunction\taddress\tsize\tcount\torigin\tconfidence")?
        .map(|row| {
            let [_, function, address, size, count, ..] = row[..] else {
                bail!("not seven columns: {row:?}")
            };
            let size = size.parse().with_context(|| format!("bad size {size:?}"))?;
            Ok(Block {
                function: function.to_owned(),
                address: hex(address)?,
                size,
                count: parse_count(count)?,
            })
        })
        .collect()
}

pub(crate) fn parse_count(text: &str) -> Result<Option<u64>> {
    if text == "-" {
        return Ok(None);
    }
    text.parse().map(Some).with_context(|| format!("bad count {text:?}"))
}

fn parse_edges(text: &str) -> Result<Vec<Edge>> {
    rows(text, "module\tfunction\tfrom\tto\tcount\torigin\tconfidence")?
        .map(|row| {
            let [_, function, from, to, count, ..] = row[..] else { bail!("not seven columns: {row:?}") };
            let (from, to, count) = (parse_node(from)?, parse_node(to)?, parse_count(count)?);
            Ok(Edge { function: function.to_owned(), from, to, count })
        })
        .collect()
}

fn parse_node(text: &str) -> Result<Node> {
    if text == "outside" {
        return Ok(Node::Outside);
    }
    if let Some(number) = text.strip_prefix("hub") {
        return number.parse().map(Node::Hub).with_context(|| format!("bad hub {text:?}"));
    }
    hex(text).map(Node::Block)
}

fn parse_functions(text: &str) -> Result<Vec<Function>> {
    rows(text, "module\tfunction\taddress\tsize\tstate\tentries\tinstructions\treason")?
        .map(|row| {
            let [_, _, address, _, _, _, instructions, _] = row[..] else {
                bail!("not eight columns: {row:?}")
            };
            Ok(Function { address: hex(address)?, instructions: parse_count(instructions)? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_functions() {
        let text = "module\tfunction\tfrom\tto\tcount\torigin\tconfidence\n\
                    m\tf\toutside\t0x10\t3\tmeasured\t100\nm\tf\t0x10\thub1\t-\t-\t-\n";
        let edges = parse_edges(text).unwrap();
        assert_eq!((edges[0].from, edges[0].count), (Node::Outside, Some(3)));
        assert_eq!((edges[1].to, edges[1].count), (Node::Hub(1), None));
        let text = "module\tfunction\taddress\tsize\tstate\tentries\tinstructions\treason\n\
                    m\tf\t0x10\t4\tmeasured\t1\t9\t\nm\tg\t0x20\t4\tnot-measured\t-\t-\twhy\n";
        let functions = parse_functions(text).unwrap();
        assert_eq!(functions[0], Function { address: 0x10, instructions: Some(9) });
        assert_eq!(functions[1].instructions, None);
    }
}
