//! Control flow of a profile as other tools have it: without hubs, and with the instruction that a way starts from.

use relive_code::addr::LinkAddr;
use relive_code::isa::Decode;
use relive_profile::model::{Block, Count, EdgeKind, Function, Node};
use std::collections::BTreeMap;

/// A way that control took inside of a function, or into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The block it starts from; `None` if that is outside.
    pub(crate) from: Option<u32>,
    /// The block it leads to.
    pub(crate) to: u32,
    pub(crate) kind: EdgeKind,
    pub(crate) count: u64,
}

/// All ways of a function that lead to a block, those that were never taken too. Of jumps that share a table it is known only how
/// often each case and each jump was taken: every jump is given its part of every case.
pub(crate) fn ways(function: &Function) -> Vec<Way> {
    /// Jumps to a table and cases of it, each with its count.
    #[derive(Default)]
    struct Hub {
        jumps: Vec<(u32, u64)>,
        cases: Vec<(u32, u64)>,
    }
    let mut ways = Vec::with_capacity(function.edges.len());
    let mut hubs: BTreeMap<u32, Hub> = BTreeMap::new();
    for edge in &function.edges {
        let count = edge.count.map_or(0, Count::value);
        let (from, to) = (edge.from.as_block(), edge.to.as_block());
        match (from, edge.from.as_hub(), to, edge.to.as_hub()) {
            (Some(from), _, _, Some(hub)) => hubs.entry(hub).or_default().jumps.push((from, count)),
            (_, Some(hub), Some(to), _) => hubs.entry(hub).or_default().cases.push((to, count)),
            (_, None, Some(to), _) if from.is_some() || edge.from == Node::OUTSIDE => {
                ways.push(Way { from, to, kind: edge.kind, count });
            }
            _ => {}
        }
    }
    for Hub { jumps, cases } in hubs.values() {
        let whole: u128 = jumps.iter().map(|&(_, count)| u128::from(count)).sum();
        for &(from, jumped) in jumps {
            for &(to, count) in cases {
                let part = (u128::from(jumped) * u128::from(count) + whole / 2).checked_div(whole);
                let count = u64::try_from(part.unwrap_or(0)).unwrap_or(u64::MAX);
                ways.push(Way { from: Some(from), to, kind: EdgeKind::Case, count });
            }
        }
    }
    ways
}

/// The address of the last instruction of a block that is no padding; `None` if the profile does not hold its code.
pub(crate) fn last_instruction(function: &Function, block: &Block) -> Option<u64> {
    let bytes = function.bytes_at(block.address, block.size.into())?;
    let mut last = None;
    for insn in Decode::new(bytes, LinkAddr(block.address)) {
        if last.is_none() || !insn.is_padding() {
            last = Some(insn.addr().0);
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Edge, State, TextId};

    #[test]
    fn shared_tables_are_divided() {
        let mut function = Function::new(TextId::default(), 0, 4, State::Measured);
        let (b, hub) = (Node::block, Node::hub(0));
        function.edges = [
            (Node::OUTSIDE, b(0), 40),
            (b(1), hub, 30),
            (b(2), hub, 10),
            (hub, b(3), 36),
            (hub, b(4), 4),
            (b(4), Node::OUTSIDE, 40),
        ]
        .map(|(from, to, count)| Edge {
            from,
            to,
            counter: None,
            kind: EdgeKind::Jump,
            count: Some(Count::measured(count)),
        })
        .to_vec();
        let found: Vec<_> = ways(&function).iter().map(|way| (way.from, way.to, way.count)).collect();
        let expected = [(None, 0, 40), (Some(1), 3, 27), (Some(1), 4, 3), (Some(2), 3, 9), (Some(2), 4, 1)];
        assert_eq!(found, expected);
    }
}
