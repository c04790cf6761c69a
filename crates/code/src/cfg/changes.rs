//! What more code changes: where no new code leads to, everything is as it was.

use super::{BlockId, Cfg, Edge, EdgeKind, Target};
use crate::addr::LinkAddr;
use alloc::vec;
use alloc::vec::Vec;

/// For each block of `now`, whether something on some way to it is not as it was `before`.
pub(super) fn affected(before: &Cfg, now: &Cfg) -> Vec<bool> {
    let mut work = Vec::new();
    for (id, block) in now.numbered_blocks() {
        let Some(old) = before.block_starting(block.start).filter(|&old| before.block(old) == block) else {
            work.push(id);
            continue;
        };
        let (was, is) = (before.edges_from(old), now.edges_from(id));
        let same = was.len() == is.len()
            && was.iter().zip(is).all(|(was, is)| kind_and_place(before, was) == kind_and_place(now, is));
        if !same {
            work.extend(is.iter().filter_map(Edge::inner_target));
            work.extend(was.iter().filter_map(|edge| now.block_starting(kind_and_place(before, edge).1?)));
        }
    }
    let is_entry = |cfg: &Cfg, at| cfg.block_starting(at).is_some_and(|id| cfg.entries.contains(&id));
    for &entry in &now.entries {
        if !is_entry(before, now.block(entry).start) {
            work.push(entry);
        }
    }
    let mut affected = vec![false; now.blocks.len()];
    while let Some(id) = work.pop() {
        if !core::mem::replace(&mut affected[id.index()], true) {
            work.extend(now.edges_from(id).iter().filter_map(Edge::inner_target));
        }
    }
    affected
}

/// What an edge is, whatever the numbers of blocks are.
fn kind_and_place(cfg: &Cfg, edge: &Edge) -> (EdgeKind, Option<LinkAddr>) {
    let place = match edge.to {
        Target::Block(BlockId(to)) => Some(cfg.blocks[to as usize].start),
        Target::Outside(to) => Some(to),
        Target::Elsewhere => None,
    };
    (edge.kind, place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::{Block, End};

    /// Blocks of four bytes, and edges between them.
    fn graph(starts: &[u64], edges: &[(u32, u32)]) -> Cfg {
        let block = |&start: &u64| Block {
            start: LinkAddr(start),
            len: 4,
            insns: 1,
            last: 0,
            end: End::Branch,
            reached: true,
        };
        let edge = |&(from, to): &(u32, u32)| Edge {
            from: BlockId(from),
            to: Target::Block(BlockId(to)),
            kind: EdgeKind::Jump,
        };
        Cfg {
            blocks: starts.iter().map(block).collect(),
            edges: edges.iter().map(edge).collect(),
            entries: vec![BlockId(0)],
            ..Cfg::default()
        }
    }

    #[test]
    fn what_new_code_leads_to_is_affected() {
        let before = graph(&[0, 8, 12, 16], &[(0, 1), (0, 3), (1, 2)]);
        assert_eq!(affected(&before, &before), [false; 4]);
        // A new block at 4 leads to the one at 12.
        let now = graph(&[0, 4, 8, 12, 16], &[(0, 2), (0, 4), (1, 3), (2, 3)]);
        assert_eq!(affected(&before, &now), [false, true, false, true, false]);
    }

    #[test]
    fn where_an_edge_is_new_or_gone_the_rest_is_affected() {
        let before = graph(&[0, 4, 8, 12], &[(0, 1), (1, 2)]);
        let now = graph(&[0, 4, 8, 12], &[(0, 1), (1, 3), (3, 3)]);
        assert_eq!(affected(&before, &now), [false, false, true, true]);
        let entered = Cfg { entries: vec![BlockId(0), BlockId(1)], ..before.clone() };
        assert_eq!(affected(&before, &entered), [false, true, true, false]);
    }
}
