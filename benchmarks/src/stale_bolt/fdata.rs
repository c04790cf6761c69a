//! A profile of relive in the form BOLT reads: every edge as a branch from the last instruction of a block.
//!
//! A line is `1 function offset 1 function offset mispredictions count`, in hexadecimal but for the counts. BOLT's blocks
//! are not relive's: it goes on behind calls, and takes a jump behind a conditional jump into the same block. So the
//! edges that lead to no block of BOLT's are left out; the others are found by the offset of the jump.

use super::graph::Graph;
use crate::dump::{Block, Edge, Node};
use crate::oracle::listing::Listing;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Makes the text. The listing is of the same binary as the profile and the graph.
pub(crate) fn of(blocks: &[Block], edges: &[Edge], graph: &Graph, listing: &Listing) -> String {
    let ends: HashMap<u64, u64> =
        blocks.iter().map(|block| (block.address, block.address + block.size)).collect();
    let last_instruction = |block: u64| {
        let end = *ends.get(&block)?;
        listing.before(end).map(|instruction| instruction.address).filter(|&at| at >= block)
    };
    let mut text = String::new();
    for (from, to, count) in without_hubs(edges) {
        let Some(function) = graph.around(to).filter(|function| function.starts_block(to)) else { continue };
        let (name, target) = (&function.name, to - function.address);
        // nothing fails to be written to a string
        let _ = match from {
            None if target == 0 => writeln!(text, "0 [unknown] 0 1 {name} 0 0 {count}"),
            None => Ok(()),
            Some(from) => {
                let same = graph.around(from).is_some_and(|own| own.address == function.address);
                match last_instruction(from).filter(|_| same) {
                    Some(at) => {
                        writeln!(text, "1 {name} {:x} 1 {name} {target:x} 0 {count}", at - function.address)
                    }
                    None => Ok(()),
                }
            }
        };
    }
    text
}

/// Taken edges between blocks, or from outside. A table that several jumps share says only how often each case and
/// each jump was taken; every jump is given its part of every case.
fn without_hubs(edges: &[Edge]) -> Vec<(Option<u64>, u64, u64)> {
    /// Jumps to a table and cases of it, each with its count.
    #[derive(Default)]
    struct Hub {
        jumps: Vec<(u64, u64)>,
        cases: Vec<(u64, u64)>,
    }
    let mut plain = Vec::new();
    let mut hubs: BTreeMap<(&str, u32), Hub> = BTreeMap::new();
    for edge in edges {
        let Some(count) = edge.count.filter(|&count| count > 0) else { continue };
        match (edge.from, edge.to) {
            (Node::Outside, Node::Block(to)) => plain.push((None, to, count)),
            (Node::Block(from), Node::Block(to)) => plain.push((Some(from), to, count)),
            (Node::Block(from), Node::Hub(hub)) => {
                hubs.entry((&edge.function, hub)).or_default().jumps.push((from, count));
            }
            (Node::Hub(hub), Node::Block(to)) => {
                hubs.entry((&edge.function, hub)).or_default().cases.push((to, count));
            }
            _ => {}
        }
    }
    for Hub { jumps, cases } in hubs.values() {
        let whole: u128 = jumps.iter().map(|&(_, count)| u128::from(count)).sum();
        for &(from, jumped) in jumps {
            for &(to, count) in cases {
                let part = (u128::from(jumped) * u128::from(count) + whole / 2) / whole;
                if let Ok(part @ 1..) = u64::try_from(part) {
                    plain.push((Some(from), to, part));
                }
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: Node, to: Node, count: u64) -> Edge {
        Edge { function: "f".to_owned(), from, to, count: Some(count) }
    }

    #[test]
    fn lines() {
        let listing = Listing::parse(
            "    10: 90 90\tcmpl\t%eax, %eax\n    12: 75 02\tjne\t0x16\n    14: e8 00\tcallq\t0x40\n    16: c3\tretq\n",
        );
        let graph = Graph::parse(
            "Binary Function \"f/1(*2)\" after building cfg {\n  Address     : 0x10\n  Size        : 0x7\n  IsSimple    : 1\n}\n\
             .L (2 instructions)\n  Input offset: 0x0\n  Input offset: 0x4\n",
        )
        .unwrap();
        let block = |address, size| Block { function: "f".to_owned(), address, size, count: Some(1) };
        let blocks = [block(0x10, 4), block(0x14, 2), block(0x16, 1)];
        let edges = [
            edge(Node::Outside, Node::Block(0x10), 5),
            edge(Node::Block(0x10), Node::Block(0x14), 3),
            edge(Node::Block(0x14), Node::Block(0x16), 3), // behind a call: no block of BOLT's
            edge(Node::Block(0x16), Node::Outside, 5),
        ];
        assert_eq!(of(&blocks, &edges, &graph, &listing), "0 [unknown] 0 1 f/1 0 0 5\n1 f/1 2 1 f/1 4 0 3\n");
    }

    #[test]
    fn shared_tables_are_divided() {
        let edges = [
            edge(Node::Block(1), Node::Hub(0), 30),
            edge(Node::Block(2), Node::Hub(0), 10),
            edge(Node::Hub(0), Node::Block(3), 36),
            edge(Node::Hub(0), Node::Block(4), 4),
        ];
        assert_eq!(
            without_hubs(&edges),
            [(Some(1), 3, 27), (Some(1), 4, 3), (Some(2), 3, 9), (Some(2), 4, 1)]
        );
    }
}
