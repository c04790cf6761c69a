//! A profile as `relive dump` and `relive report --json` print it, and whether its counts add up.

use crate::dump::{Block, parse_blocks, parse_count};
use crate::process::output_of;
use crate::relive::rows;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The blocks of a profile, and what is wrong in itself.
pub(crate) struct Profile {
    pub(crate) blocks: Vec<Block>,
    /// Blocks and hubs that are not left as often as they are entered, and functions that relive itself complains of.
    pub(crate) unbalanced: Vec<String>,
}

impl Profile {
    pub(crate) fn read(relive: &Path, profile: &Path) -> Result<Self> {
        let dump = |table: &str| output_of(Command::new(relive).arg("dump").arg(profile).arg(table));
        let blocks = parse_blocks(&dump("--blocks")?)?;
        let mut unbalanced = balance(&blocks, &dump("--edges")?)?;
        let report = output_of(Command::new(relive).arg("report").arg(profile).arg("--json"))?;
        unbalanced.extend(complaints(&report)?);
        Ok(Self { blocks, unbalanced })
    }

    /// Only the counts of blocks.
    pub(crate) fn counts(relive: &Path, profile: &Path) -> Result<BTreeMap<u64, u64>> {
        let text = output_of(Command::new(relive).arg("dump").arg(profile).arg("--blocks"))?;
        Ok(parse_blocks(&text)?.into_iter().filter_map(|block| Some((block.address, block.count?))).collect())
    }
}

/// What enters a block or hub must leave it, and is the count of the block. Nodes with an unknown edge are not judged.
fn balance(blocks: &[Block], edges: &str) -> Result<Vec<String>> {
    #[derive(Default)]
    struct Node {
        entered: u64,
        left: u64,
        unknown: bool,
    }
    let mut nodes: BTreeMap<(String, String), Node> = BTreeMap::new();
    for row in rows(edges, "module\tfunction\tfrom\tto\tcount\torigin\tconfidence")? {
        let [_, function, from, to, count, ..] = row[..] else { bail!("not seven columns: {row:?}") };
        let count = parse_count(count)?;
        for (end, incoming) in [(from, false), (to, true)] {
            if end == "outside" {
                continue;
            }
            let node = nodes.entry((function.to_owned(), end.to_owned())).or_default();
            node.unknown |= count.is_none();
            *(if incoming { &mut node.entered } else { &mut node.left }) += count.unwrap_or(0);
        }
    }
    let mut wrong = Vec::new();
    for ((function, name), node) in &nodes {
        if !node.unknown && node.entered != node.left {
            wrong.push(format!("{function} {name}: entered {}, left {}", node.entered, node.left));
        }
    }
    for block in blocks {
        let key = (block.function.clone(), format!("{:#x}", block.address));
        let entered = nodes.get(&key).filter(|node| !node.unknown).map(|node| node.entered);
        if let (Some(count), Some(entered)) = (block.count, entered)
            && count != entered
        {
            wrong.push(format!("{} {:#x}: count {count}, entered {entered}", block.function, block.address));
        }
    }
    Ok(wrong)
}

/// Names in `modules[].inconsistent`.
fn complaints(report: &str) -> Result<Vec<String>> {
    let json: serde_json::Value = serde_json::from_str(report)?;
    let modules = json["modules"].as_array().context("a report without modules")?;
    let mut names = Vec::new();
    for module in modules {
        let list = module["inconsistent"].as_array().context("a module without `inconsistent`")?;
        names.extend(list.iter().map(|name| format!("{name}: relive says its counts do not add up")));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table: each line as if it were measured.
    fn table(head: &str, lines: &str) -> String {
        let lines = lines.lines().map(|line| format!("{line}\tmeasured\t100\n"));
        format!("{head}\torigin\tconfidence\n{}", lines.collect::<String>())
    }

    #[test]
    fn flow() {
        let lines = "m\tf\t0x10\t4\t3\nm\tf\t0x14\t2\t1\nm\tg\t0x20\t2\t-\n";
        let blocks = parse_blocks(&table("module\tfunction\taddress\tsize\tcount", lines)).unwrap();
        assert_eq!(blocks[2].count, None);
        let edges = |lines: &str| table("module\tfunction\tfrom\tto\tcount", lines);
        let clean = edges(
            "m\tf\toutside\t0x10\t1\nm\tf\t0x10\t0x10\t2\nm\tf\t0x10\t0x14\t1\nm\tf\t0x14\toutside\t1\n",
        );
        assert_eq!(balance(&blocks, &clean).unwrap(), Vec::<String>::new());
        let leak = edges(
            "m\tf\toutside\t0x10\t1\nm\tf\t0x10\t0x10\t2\nm\tf\t0x10\t0x14\t0\nm\tf\t0x14\toutside\t1\n",
        );
        assert_eq!(
            balance(&blocks, &leak).unwrap(),
            ["f 0x10: entered 3, left 2", "f 0x14: entered 0, left 1", "f 0x14: count 1, entered 0"]
        );
        let unknown = edges("m\tf\toutside\t0x10\t-\nm\tf\t0x10\t0x10\t2\n");
        assert!(balance(&blocks, &unknown).unwrap().is_empty());
    }

    #[test]
    fn own_complaints() {
        assert_eq!(complaints(r#"{"modules":[{"inconsistent":["f"]}]}"#).unwrap().len(), 1);
        assert!(complaints("{}").is_err());
    }
}
