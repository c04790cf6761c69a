//! What the code of one function says about the others: all that is asked of it once it is read.

use relive_code::addr::LinkAddr;
use relive_code::cfg::{Cfg, EdgeKind, End, Target};

/// The ways from one function to others.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    /// What it calls, sorted.
    pub(super) calls: Vec<LinkAddr>,
    /// Where control leaves it without a call, and why; sorted.
    pub(super) exits: Vec<(LinkAddr, EdgeKind)>,
    /// Whether it comes back by itself, as far as anyone can tell.
    pub(super) returns: bool,
    /// It also comes back if one of these does.
    pub(super) returns_if: Vec<LinkAddr>,
}

impl Links {
    pub(super) fn of(cfg: &Cfg) -> Self {
        let mut calls: Vec<LinkAddr> = cfg
            .blocks
            .iter()
            .filter_map(|block| match block.end {
                // `call next` only reads the program counter.
                End::Call(target) if target != block.end_addr() => Some(target),
                _ => None,
            })
            .collect();
        calls.sort_unstable();
        calls.dedup();
        let mut exits: Vec<(LinkAddr, EdgeKind)> = cfg
            .edges
            .iter()
            .filter_map(|edge| match edge.to {
                Target::Outside(to) => Some((to, edge.kind)),
                Target::Block(_) | Target::Elsewhere => None,
            })
            .collect();
        exits.sort_unstable();
        exits.dedup();
        let mut returns_if = Vec::new();
        let returns = !cfg.is_understood()
            || cfg.may_return(|target| {
                returns_if.push(target);
                false
            });
        Self { calls, exits, returns, returns_if }
    }
}
