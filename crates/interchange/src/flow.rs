//! Control flow of a profile as other tools have it: without hubs, and with the instruction that a way starts from.

use relive_code::addr::LinkAddr;
use relive_code::isa::Decode;
use relive_profile::model::{Block, Count, EdgeKind, Function, Node};
use std::collections::{BTreeMap, HashMap, VecDeque};

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

/// The address of the last instruction of a block; `None` if the profile does not hold its code.
pub(crate) fn last_instruction(function: &Function, block: &Block) -> Option<u64> {
    let bytes = function.bytes_at(block.address, block.size.into())?;
    Decode::new(bytes, LinkAddr(block.address)).last().map(|insn| insn.addr().0)
}

/// What ran between two branches: from the first instruction to the last, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stretch {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Whether a call came back to where it begins.
    pub(crate) is_behind_call: bool,
}

/// Stretches that add up to the counts of a function, and how often each ran. Which way into a stretch goes with which way out of it
/// is not known: what came in first goes out first.
pub(crate) fn stretches(function: &Function) -> Vec<(Stretch, u64)> {
    let mut order: Vec<u32> = (0..function.blocks.len() as u32).collect();
    order.sort_unstable_by_key(|&block| function.blocks[block as usize].address);
    let (mut on, mut returned) = (HashMap::new(), HashMap::<u32, u64>::new());
    for way in ways(function) {
        match (way.kind, way.from) {
            (EdgeKind::FallThrough, Some(from)) => drop(on.insert(from, (way.to, way.count))),
            (EdgeKind::CallReturn, _) => *returned.entry(way.to).or_default() += way.count,
            _ => {}
        }
    }
    let mut found = Vec::new();
    // Where what is under way began, the earliest first, and how often.
    let mut open: VecDeque<(u64, bool, u64)> = VecDeque::new();
    for (i, &number) in order.iter().enumerate() {
        let block = &function.blocks[number as usize];
        let count = block.count.map_or(0, Count::value);
        let came_on: u64 = open.iter().map(|&(.., count)| count).sum();
        let begin = count.saturating_sub(came_on);
        let behind_call = returned.get(&number).map_or(0, |&returned| begin.min(returned));
        for (is_behind_call, count) in [(true, behind_call), (false, begin - behind_call)] {
            if count > 0 {
                open.push_back((block.address, is_behind_call, count));
            }
        }
        let next = order
            .get(i + 1)
            .filter(|&&next| function.blocks[next as usize].address == block.address + u64::from(block.size));
        let goes_on = on.get(&number).filter(|(to, _)| Some(to) == next).map_or(0, |&(_, count)| count);
        let mut ends = count.max(came_on).saturating_sub(goes_on);
        let Some(last) = last_instruction(function, block) else {
            open.clear();
            continue;
        };
        while ends > 0
            && let Some((first, is_behind_call, left)) = open.front_mut()
        {
            let part = ends.min(*left);
            found.push((Stretch { first: *first, last, is_behind_call: *is_behind_call }, part));
            *left -= part;
            ends -= part;
            if *left == 0 {
                open.pop_front();
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use relive_profile::model::{Edge, State, TextId};

    #[test]
    fn stretches_add_up() {
        let mut function = Function::new(TextId::default(), 0x10, 3, State::Measured);
        function.pieces = vec![relive_profile::model::Piece { start: 0x10, len: 3 }];
        function.code = vec![0x90; 3];
        let block = |address, count| Block {
            address,
            size: 1,
            insns: 1,
            line: None,
            is_entry: false,
            is_landing_pad: false,
            counter: None,
            count: Some(Count::measured(count)),
        };
        function.blocks = vec![block(0x10, 5), block(0x11, 100), block(0x12, 7)];
        let edge = |from, to, count| Edge {
            from: Node::block(from),
            to: Node::block(to),
            counter: None,
            kind: EdgeKind::FallThrough,
            count: Some(Count::measured(count)),
        };
        // The middle one is a loop of its own; two come to the last from elsewhere.
        function.edges = vec![edge(0, 1, 5), edge(1, 2, 5)];
        let found: Vec<_> = stretches(&function).iter().map(|(s, count)| (s.first, s.last, *count)).collect();
        assert_eq!(found, [(0x10, 0x11, 5), (0x11, 0x11, 90), (0x11, 0x12, 5), (0x12, 0x12, 2)]);
    }

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
