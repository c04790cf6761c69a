//! Control flow of a profile as other tools have it: without hubs, and with the instruction that a way starts from.

use crate::shares::fit;
use crate::surroundings::Cases;
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

/// All ways of a function that lead to a block, those that were never taken too. Of jumps that meet in a hub it is known only how
/// often each case and each jump was taken; `cases` says, of the jump at an address, which cases are its own, as far as anyone knows.
pub(crate) fn ways(function: &Function, cases: impl Fn(u64) -> Option<Cases>) -> Vec<Way> {
    /// Jumps to a hub and cases of it, each with its count. A case of no block leaves the function.
    #[derive(Default)]
    struct Hub {
        jumps: Vec<(u32, u64)>,
        cases: Vec<(Option<u32>, u64)>,
    }
    let mut hubs: BTreeMap<u32, Hub> = BTreeMap::new();
    for edge in &function.edges {
        let count = edge.count.map_or(0, Count::value);
        if let (Some(from), Some(hub)) = (edge.from.as_block(), edge.to.as_hub()) {
            hubs.entry(hub).or_default().jumps.push((from, count));
        } else if let Some(hub) = edge.from.as_hub() {
            hubs.entry(hub).or_default().cases.push((edge.to.as_block(), count));
        }
    }
    let mut ways: Vec<Way> = direct(function).collect();
    for hub in hubs.values() {
        let own: Vec<Option<Cases>> = hub
            .jumps
            .iter()
            .map(|&(from, _)| {
                let block = function.blocks.get(from as usize)?;
                cases(last_instruction(function, block)?)
            })
            .collect();
        let allowed = |jump: usize, case: usize| {
            own[jump].as_ref().is_none_or(|own| match hub.cases[case].0 {
                Some(to) => function.blocks.get(to as usize).is_some_and(|to| own.lead_to(to.address)),
                None => own.leave,
            })
        };
        let jumped: Vec<u64> = hub.jumps.iter().map(|&(_, count)| count).collect();
        let arrived: Vec<u64> = hub.cases.iter().map(|&(_, count)| count).collect();
        for (jump, case, count) in fit(&jumped, &arrived, allowed) {
            if let (from, Some(to)) = (Some(hub.jumps[jump].0), hub.cases[case].0) {
                ways.push(Way { from, to, kind: EdgeKind::Case, count });
            }
        }
    }
    ways
}

/// Ways that lead to a block without a hub between.
fn direct(function: &Function) -> impl Iterator<Item = Way> {
    function.edges.iter().filter_map(|edge| {
        let (from, to) = (edge.from.as_block(), edge.to.as_block()?);
        (from.is_some() || edge.from == Node::OUTSIDE).then(|| Way {
            from,
            to,
            kind: edge.kind,
            count: edge.count.map_or(0, Count::value),
        })
    })
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
    for way in direct(function) {
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

    /// A block of one byte.
    fn block(address: u64, count: u64) -> Block {
        Block {
            address,
            size: 1,
            insns: 1,
            line: None,
            is_entry: false,
            is_landing_pad: false,
            counter: None,
            count: Some(Count::measured(count)),
        }
    }

    #[test]
    fn stretches_add_up() {
        let mut function = Function::new(TextId::default(), 0x10, 3, State::Measured);
        function.pieces = vec![relive_profile::model::Piece { start: 0x10, len: 3 }];
        function.code = vec![0x90; 3];
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

    /// Two jumps of one byte each, at 1 and 2, share a hub.
    fn with_hub() -> Function {
        let mut function = Function::new(TextId::default(), 0, 5, State::Measured);
        function.pieces = vec![relive_profile::model::Piece { start: 0, len: 5 }];
        function.code = vec![0x90; 5];
        function.blocks = (0..5).map(|address| block(address, 0)).collect();
        let (b, hub) = (Node::block, Node::hub(0));
        function.edges = [
            (Node::OUTSIDE, b(0), 40),
            (b(1), hub, 30),
            (b(2), hub, 10),
            (hub, b(3), 35),
            (hub, b(4), 3),
            (hub, Node::OUTSIDE, 2),
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
        function
    }

    fn found(cases: impl Fn(u64) -> Option<Cases>) -> Vec<(Option<u32>, u32, u64)> {
        ways(&with_hub(), cases).iter().map(|way| (way.from, way.to, way.count)).collect()
    }

    #[test]
    fn jumps_that_may_lead_anywhere_have_their_part_of_each_case() {
        let expected = [(None, 0, 40), (Some(1), 3, 26), (Some(1), 4, 2), (Some(2), 3, 9), (Some(2), 4, 1)];
        assert_eq!(found(|_| None), expected);
    }

    #[test]
    fn jumps_have_no_part_of_cases_that_are_not_theirs() {
        let cases = |at| {
            let (to, leave) = if at == 1 { (vec![3, 4], false) } else { (vec![3], true) };
            Some(Cases { to, leave })
        };
        let expected = [(None, 0, 40), (Some(1), 3, 27), (Some(1), 4, 3), (Some(2), 3, 8)];
        assert_eq!(found(cases), expected);
    }
}
