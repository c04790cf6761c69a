//! Liveness by its definition: something is live at a point if a path leads from there to a read of it
//! on which nothing overwrites it.
//!
//! One flood over single instructions for each register and flag, so O(64 · instructions). What an
//! instruction reads and overwrites comes from [`EffectsReader`]: on that there is no second opinion.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::reached;
use crate::addr::LinkAddr;
use crate::cfg::{Block, BlockId, Cfg, Edge, EdgeKind, End, Target};
use crate::graph::Graph;
use crate::isa::{EffectsReader, Insn, RegSet};
use crate::liveness::{Convention, Liveness};
use crate::source::CodeSource;

/// Checks every answer of a liveness made for `cfg`.
///
/// # Errors
///
/// Says which answer is wrong.
pub fn check<S: CodeSource + ?Sized>(
    cfg: &Cfg,
    source: &S,
    convention: &Convention,
    liveness: &Liveness<'_, S>,
) -> Result<(), String> {
    let points = Points::new(cfg, source, convention);
    let live = points.live();
    for (id, _) in cfg.numbered_blocks() {
        let range = points.first[id.index()]..points.first[id.index() + 1];
        let said = |what: &str, said: RegSet, truth: RegSet| {
            if said == truth { Ok(()) } else { Err(format!("{truth:?} is live {what} {id}, not {said:?}")) }
        };
        said("into", liveness.live_in(id), live[range.start])?;
        said("out of", liveness.live_out(id), live[range.end - 1])?;
        let insns: Vec<(LinkAddr, RegSet)> =
            range.filter_map(|point| Some((points.points[point].insn?, live[point]))).collect();
        let per_insn = liveness.per_insn(id);
        if per_insn != insns {
            return Err(format!("before the instructions of {id}, {insns:?} is live, not {per_insn:?}"));
        }
    }
    Ok(())
}

/// A place in the function where something is read and overwritten, in this order.
struct Point {
    /// The instruction it stands for, if any.
    insn: Option<LinkAddr>,
    reads: RegSet,
    kills: RegSet,
}

/// Every block as a chain of points: its instructions, what a callee does, and its end, where whatever
/// is outside the function does its reading.
struct Points {
    points: Vec<Point>,
    /// The first point of each block, and behind the last block, the number of points.
    first: Vec<usize>,
    edges: Vec<(u32, u32)>,
}

impl Points {
    fn new<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S, convention: &Convention) -> Self {
        let mut this = Self { points: Vec::new(), first: vec![0], edges: Vec::new() };
        for (id, block) in cfg.numbered_blocks() {
            this.add_insns(block, source);
            if block.end.is_call() && block.end != End::Call(block.end_addr()) {
                this.add(None, convention.read_by_call, convention.written_by_call);
            }
            this.add(None, read_outside(block, cfg.edges_from(id), convention), RegSet::EMPTY);
            let first = this.first[id.index()]..this.points.len() - 1;
            this.edges.extend(first.map(|point| (point as u32, point as u32 + 1)));
            this.first.push(this.points.len());
        }
        let end = |block: BlockId| this.first[block.index() + 1] - 1;
        for edge in &cfg.edges {
            if let Target::Block(to) = edge.to {
                this.edges.push((end(edge.from) as u32, this.first[to.index()] as u32));
            }
        }
        this
    }

    fn add(&mut self, insn: Option<LinkAddr>, reads: RegSet, kills: RegSet) {
        self.points.push(Point { insn, reads, kills });
    }

    fn add_insns<S: CodeSource + ?Sized>(&mut self, block: &Block, source: &S) {
        let insns: Vec<Insn> = block.insns(source).collect();
        let readable = insns.len() == block.insns as usize;
        let mut reader = EffectsReader::new();
        for insn in insns {
            let effects = reader.effects(&insn);
            let (reads, kills) =
                if readable { (effects.reads, effects.kills) } else { (RegSet::ALL, RegSet::EMPTY) };
            self.add(Some(insn.addr()), reads, kills);
        }
        if !readable {
            self.add(None, RegSet::ALL, RegSet::EMPTY);
        }
    }

    /// What is live at each point.
    fn live(&self) -> Vec<RegSet> {
        let backwards = Graph::from_edges(self.points.len(), &self.edges).reversed();
        let mut live = vec![RegSet::EMPTY; self.points.len()];
        for wanted in RegSet::ALL.singles() {
            let readers = (0u32..).zip(&self.points).filter(|(_, point)| point.reads.contains(wanted));
            let survives = |_, at: u32| !self.points[at as usize].kills.contains(wanted);
            let at = reached(&backwards, readers.map(|(point, _)| point), survives);
            for (live, _) in live.iter_mut().zip(at).filter(|(_, reached)| *reached) {
                *live |= wanted;
            }
        }
        live
    }
}

/// What is read outside the function by whoever control goes to from the end of `block`.
fn read_outside(block: &Block, edges: &[Edge], convention: &Convention) -> RegSet {
    if edges.is_empty() {
        return match block.end {
            End::Stop => RegSet::EMPTY,
            end if end.is_call() => convention.live_at_no_return,
            _ => convention.live_at_unknown,
        };
    }
    let mut read = RegSet::EMPTY;
    for edge in edges.iter().filter(|edge| !matches!(edge.to, Target::Block(_))) {
        read |= match (edge.kind, edge.to) {
            (EdgeKind::Return, _) => convention.live_at_return,
            (EdgeKind::TailCall, _) => convention.live_at_tail_call,
            // Another function lies right behind this one.
            (EdgeKind::FallThrough, Target::Outside(to)) if to == block.end_addr() => {
                convention.live_at_tail_call
            }
            _ => convention.live_at_unknown,
        };
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FlatSource;

    /// A liveness made under another convention, or for other code, must be noticed.
    #[test]
    fn notices_wrong_answers() {
        // mov eax, 1; ret
        let source = FlatSource(vec![0xb8, 1, 0, 0, 0, 0xc3]);
        let cfg = source.cfg();
        let (cautious, system_v) = (Convention::cautious(), Convention::system_v());
        let liveness = Liveness::new(&cfg, &source, &cautious);
        assert_eq!(check(&cfg, &source, &cautious, &liveness), Ok(()));
        assert!(check(&cfg, &source, &system_v, &liveness).unwrap_err().contains("is live into bb0"));

        // add eax, 1 (of the same length); ret
        let other = FlatSource(vec![0x05, 1, 0, 0, 0, 0xc3]);
        let liveness = Liveness::new(&cfg, &other, &cautious);
        assert!(check(&cfg, &source, &cautious, &liveness).unwrap_err().contains("is live into bb0"));

        // nop; mov ax, 1; ret: the same is live into and out of the block as with `mov eax, 1; nop`.
        let source = FlatSource(vec![0xb8, 1, 0, 0, 0, 0x90, 0xc3]);
        let other = FlatSource(vec![0x90, 0xb8, 1, 0, 0, 0, 0xc3]);
        let cfg = source.cfg();
        let liveness = Liveness::new(&cfg, &other, &cautious);
        assert!(check(&cfg, &source, &cautious, &liveness).unwrap_err().contains("before the instructions"));
    }
}
