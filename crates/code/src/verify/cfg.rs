//! What must hold of every control-flow graph, however it was built.
//!
//! One pass over the blocks, so O(edges + instructions), but for functions of many pieces.
//!
//! A function that is not understood has less to live up to. Its jumps may lead to bytes that are in no
//! block, and where instructions overlap, blocks cannot show both readings: there only the layout is
//! checked.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::addr::{AddrRange, LinkAddr};
use crate::cfg::{Block, BlockId, Cfg, Edge, EdgeKind, End, GapKind, Reason, Target};
use crate::isa::{Flow, Insn, fill_len};
use crate::source::CodeSource;

/// Checks the graph against itself and the code in `source`.
///
/// # Errors
///
/// Says what does not hold, and where.
pub fn check<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S) -> Result<(), String> {
    check_layout(cfg)?;
    check_ids(cfg)?;
    if cfg.problems.iter().any(|problem| problem.reason == Reason::OverlappingInstructions) {
        return Ok(());
    }
    for (id, block) in cfg.numbered_blocks() {
        let last = check_insns(block, source).map_err(|why| format!("{id}: {why}"))?;
        check_edges(cfg, source, id, &last).map_err(|why| format!("{id}: {why}"))?;
    }
    check_tables(cfg)?;
    check_reached(cfg)
}

/// Blocks and gaps, sorted, must tile the pieces exactly.
fn check_layout(cfg: &Cfg) -> Result<(), String> {
    if let Some(pair) = cfg.pieces.windows(2).find(|pair| pair[0].end > pair[1].start) {
        return Err(format!("the pieces {} and {} overlap, or are out of order", pair[0], pair[1]));
    }
    for ranges in [
        cfg.blocks.iter().map(Block::range).collect::<Vec<_>>(),
        cfg.gaps.iter().map(|gap| gap.range).collect(),
    ] {
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].end > pair[1].start) {
            return Err(format!("{} and {} overlap, or are out of order", pair[0], pair[1]));
        }
    }
    let mut parts: Vec<AddrRange> =
        cfg.blocks.iter().map(Block::range).chain(cfg.gaps.iter().map(|gap| gap.range)).collect();
    parts.sort_unstable();
    let mut parts = parts.into_iter().peekable();
    for piece in &cfg.pieces {
        let mut at = piece.start;
        while let Some(part) =
            parts.next_if(|part| part.start == at && part.end <= piece.end && !part.is_empty())
        {
            at = part.end;
        }
        if at != piece.end {
            return Err(format!("no block and no gap, or two of them, at {at}"));
        }
    }
    if let Some(part) = parts.next() {
        return Err(format!("{part} is outside the pieces, or not in one of them alone"));
    }
    match cfg.gaps.iter().find(|gap| gap.kind == GapKind::Unexplained) {
        Some(gap) if cfg.is_understood() => Err(format!("the gap {} is unexplained", gap.range)),
        _ => Ok(()),
    }
}

/// Every number of a block must be that of a block, and edges must be sorted, each there once.
fn check_ids(cfg: &Cfg) -> Result<(), String> {
    let targets = cfg.edges.iter().filter_map(|edge| match edge.to {
        Target::Block(to) => Some(to),
        _ => None,
    });
    let sources = cfg.edges.iter().map(|edge| edge.from);
    let named = cfg.entries.iter().chain(&cfg.landing_pads).copied();
    if let Some(id) = named.chain(sources).chain(targets).find(|id| id.index() >= cfg.blocks.len()) {
        return Err(format!("there is no {id}"));
    }
    if let Some(pair) = cfg.edges.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(format!("{:?} and {:?} are out of order, or the same", pair[0], pair[1]));
    }
    if cfg.entries.is_empty() && cfg.is_understood() {
        return Err("there is no entry".into());
    }
    Ok(())
}

/// The block must decode as it says, and only its last instruction may change the flow.
fn check_insns<S: CodeSource + ?Sized>(block: &Block, source: &S) -> Result<Insn, String> {
    let mut at = block.start;
    let mut count = 0;
    loop {
        let Some(insn) = Insn::decode(source.bytes(at), at) else {
            return Err(format!("{at} does not decode"));
        };
        count += 1;
        if at == block.last_insn() {
            if insn.next_addr() != block.end_addr() {
                return Err(format!("its last instruction ends at {}", insn.next_addr()));
            }
            if count != block.insns {
                return Err(format!("it has {count} instructions, not {}", block.insns));
            }
            return Ok(insn);
        }
        if at > block.last_insn() {
            return Err(format!("its last instruction does not start at {}", block.last_insn()));
        }
        if insn.flow() != Flow::Next {
            return Err(format!("the flow changes at {at}, before its end"));
        }
        at = insn.next_addr();
    }
}

/// The edges must be those that the last instruction allows, and lead where it leads.
fn check_edges<S: CodeSource + ?Sized>(
    cfg: &Cfg,
    source: &S,
    id: BlockId,
    last: &Insn,
) -> Result<(), String> {
    let block = cfg.block(id);
    let edges = cfg.edges_from(id);
    let (end, next) = (block.end, last.next_addr());
    for edge in edges {
        check_place(cfg, edge)?;
    }

    // Each way on must be there once, and no other.
    let ways = |ways: &[(EdgeKind, LinkAddr)]| {
        let found = |&(kind, to): &(EdgeKind, LinkAddr)| {
            edges.iter().any(|edge| is_kind(edge, kind) && place(cfg, edge) == Some(to))
        };
        edges.len() == ways.len() && ways.iter().all(found)
    };
    let fits = match last.flow() {
        // A breakpoint with nothing but fill behind it stands for the end of everything.
        Flow::Next if end == End::Stop => {
            last.is_breakpoint() && edges.is_empty() && is_only_fill_behind(cfg, source, next)
        }
        Flow::Next => end == End::FallThrough && ways(&[(EdgeKind::FallThrough, next)]),
        Flow::Jump(to) => end == End::Jump && ways(&[(EdgeKind::Jump, to)]),
        Flow::Branch(to) => {
            end == End::Branch && ways(&[(EdgeKind::Taken, to), (EdgeKind::FallThrough, next)])
        }
        Flow::Call(to) => end == End::Call(to) && is_after_call(cfg, edges, next),
        Flow::IndirectCall => {
            end == End::IndirectCall(last.fixed_memory_operand()) && is_after_call(cfg, edges, next)
        }
        Flow::Return => {
            let back = |edge: &Edge| match edge.to {
                Target::Elsewhere => edge.kind == EdgeKind::Return,
                // To an address that was pushed right before.
                Target::Block(_) => edge.kind == EdgeKind::Jump,
                Target::Outside(_) => edge.kind == EdgeKind::TailCall,
            };
            end == End::Return && edges.len() == 1 && edges.iter().all(back)
        }
        Flow::Stop => end == End::Stop && edges.is_empty(),
        Flow::IndirectJump => end == End::IndirectJump && is_after_indirect_jump(cfg, edges),
    };
    if fits { Ok(()) } else { Err(format!("{:?} ends as {end:?} with {edges:?}", last.flow())) }
}

/// Whether nothing but fill lies between `at` and the end of its piece.
fn is_only_fill_behind<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S, at: LinkAddr) -> bool {
    let Some(piece) = cfg.pieces.iter().find(|piece| piece.contains(at)) else { return true };
    let bytes = source.bytes(at).get(..piece.end.since(at) as usize);
    bytes.is_some_and(|bytes| fill_len(bytes, at) == bytes.len())
}

/// Whether `edge` is of that kind, or what that kind is called where it leads out of the function.
fn is_kind(edge: &Edge, kind: EdgeKind) -> bool {
    match edge.to {
        Target::Block(_) => edge.kind == kind,
        _ if kind == EdgeKind::FallThrough => edge.kind == kind,
        _ => edge.kind == EdgeKind::TailCall,
    }
}

/// The address an edge leads to, if it is known.
fn place(cfg: &Cfg, edge: &Edge) -> Option<LinkAddr> {
    match edge.to {
        Target::Block(to) => Some(cfg.block(to).start),
        Target::Outside(to) => Some(to),
        Target::Elsewhere => None,
    }
}

/// What is called outside must be outside. Only in a function that is not understood it may be inside,
/// but even there it must not be where a block starts.
fn check_place(cfg: &Cfg, edge: &Edge) -> Result<(), String> {
    let Target::Outside(to) = edge.to else { return Ok(()) };
    match cfg.block_holding(to) {
        Some(id) if cfg.is_understood() || cfg.block(id).start == to => {
            return Err(format!("{edge:?} leads into {id}"));
        }
        _ => {}
    }
    if cfg.is_understood() && cfg.pieces.iter().any(|piece| piece.contains(to)) {
        return Err(format!("{edge:?} leads to no block"));
    }
    Ok(())
}

/// A call comes back to the instruction behind it, and throws to one landing pad; or neither.
fn is_after_call(cfg: &Cfg, edges: &[Edge], next: LinkAddr) -> bool {
    let fits = |edge: &Edge| match (edge.kind, edge.to) {
        (EdgeKind::CallReturn, _) => place(cfg, edge) == Some(next),
        (EdgeKind::LandingPad, Target::Block(pad)) => cfg.landing_pads.contains(&pad),
        (EdgeKind::LandingPad, Target::Outside(_)) => true,
        _ => false,
    };
    let once = |kind| edges.iter().filter(|edge| edge.kind == kind).count() <= 1;
    edges.iter().all(fits) && once(EdgeKind::CallReturn) && once(EdgeKind::LandingPad)
}

/// An indirect jump has cases, or leaves the function, or is not understood.
fn is_after_indirect_jump(cfg: &Cfg, edges: &[Edge]) -> bool {
    match edges {
        [Edge { kind: EdgeKind::Unknown, to: Target::Elsewhere, .. }] => !cfg.is_understood(),
        _ => {
            let fits = |edge: &Edge| match edge.to {
                Target::Block(_) => edge.kind == EdgeKind::Case,
                Target::Outside(_) | Target::Elsewhere => edge.kind == EdgeKind::TailCall,
            };
            !edges.is_empty() && edges.iter().all(fits)
        }
    }
}

/// Every table belongs to an indirect jump that has an edge for each of its targets.
fn check_tables(cfg: &Cfg) -> Result<(), String> {
    for table in &cfg.tables {
        let site = cfg.block_holding(table.site).filter(|&id| {
            let block = cfg.block(id);
            block.last_insn() == table.site && block.end == End::IndirectJump
        });
        let Some(site) = site else {
            return Err(format!("no indirect jump at {} for its table", table.site));
        };
        for &target in &table.targets {
            // Cases that cannot happen lead to the very end of the function.
            let is_end = cfg.pieces.iter().any(|piece| piece.end == target)
                && !cfg.pieces.iter().any(|piece| piece.contains(target));
            if !is_end && !cfg.edges_from(site).iter().any(|edge| place(cfg, edge) == Some(target)) {
                return Err(format!("{site}: no edge to {target}, which is in its table"));
            }
        }
    }
    Ok(())
}

/// Entries and landing pads are reached, and so is everything behind what is reached. Other blocks may
/// be as well, if whoever asked for the graph vouched for them.
fn check_reached(cfg: &Cfg) -> Result<(), String> {
    if let Some(id) = cfg.entries.iter().chain(&cfg.landing_pads).find(|&&id| !cfg.block(id).reached) {
        return Err(format!("{id} is an entry or a landing pad, but not reached"));
    }
    for edge in cfg.edges.iter().filter(|edge| cfg.block(edge.from).reached) {
        if let Target::Block(to) = edge.to
            && !cfg.block(to).reached
        {
            return Err(format!("{} is reached, but not {to} behind it", edge.from));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfg::Gap;
    use crate::testing::{self, BASE, FlatSource};
    use crate::verify::random::fail;
    use proptest::test_runner::TestRunner;

    /// test edi, edi; je 1f; mov eax, 1; ret; nop; 1: call outside; ret
    fn source() -> FlatSource {
        FlatSource(alloc::vec![
            0x85, 0xff, 0x74, 7, 0xb8, 1, 0, 0, 0, 0xc3, 0x90, 0xe8, 0xf0, 0x6f, 0, 0, 0xc3
        ])
    }

    /// What is said of the graph once `change` has been at it.
    fn complaint(change: impl Fn(&mut Cfg)) -> String {
        let mut cfg = source().cfg();
        assert_eq!(cfg.problems, []);
        assert_eq!(check(&cfg, &source()), Ok(()));
        change(&mut cfg);
        check(&cfg, &source()).unwrap_err()
    }

    #[test]
    fn notices_a_wrong_layout() {
        assert_eq!(complaint(|cfg| cfg.gaps.clear()), "no block and no gap, or two of them, at 0x100a");
        assert!(complaint(|cfg| cfg.gaps[0].kind = GapKind::Unexplained).contains("unexplained"));
        assert!(complaint(|cfg| cfg.blocks.swap(0, 1)).contains("out of order"));
        assert!(complaint(|cfg| cfg.pieces[0].end = BASE.offset(16)).contains("outside the pieces"));
        assert!(complaint(|cfg| cfg.pieces[0].end = BASE.offset(18)).contains("at 0x1011"));
        let beyond = AddrRange::sized(BASE.offset(17), 1);
        assert!(
            complaint(|cfg| cfg.gaps.push(Gap { range: beyond, kind: GapKind::Padding }))
                .contains("outside the pieces")
        );
    }

    #[test]
    fn notices_blocks_that_decode_otherwise() {
        assert_eq!(complaint(|cfg| cfg.blocks[1].insns = 1), "bb1: it has 2 instructions, not 1");
        assert!(complaint(|cfg| cfg.blocks[0].last = 1).contains("does not start at 0x1001"));
        assert!(complaint(|cfg| cfg.blocks[1].end = End::Stop).contains("Return ends as Stop"));
        // One block that holds the branch in its middle.
        let joined = complaint(|cfg| {
            let second = cfg.blocks.remove(1);
            cfg.blocks[0].len += second.len;
            cfg.blocks[0].last = 9;
            cfg.edges.retain(|edge| edge.from.0 == 0 && edge.to != Target::Block(BlockId(2)));
            cfg.entries = alloc::vec![BlockId(0)];
        });
        assert_eq!(joined, "bb0: the flow changes at 0x1002, before its end");
    }

    #[test]
    fn notices_wrong_edges() {
        for index in 0..source().cfg().edges.len() - 2 {
            assert!(complaint(|cfg| _ = cfg.edges.remove(index)).contains(" ends as "), "{index}");
        }
        assert!(complaint(|cfg| cfg.edges[0].kind = EdgeKind::Taken).contains(" ends as "));
        assert!(complaint(|cfg| cfg.edges[0].kind = EdgeKind::Case).contains(" ends as "));
        assert!(complaint(|cfg| cfg.edges[0].to = Target::Block(BlockId(0))).contains(" ends as "));
        assert!(complaint(|cfg| cfg.edges[0].to = Target::Block(BlockId(9))).contains("there is no bb9"));
        assert!(
            complaint(|cfg| cfg.edges[1].to = Target::Outside(BASE.offset(5))).contains("leads into bb1")
        );
        assert!(complaint(|cfg| cfg.edges[1].to = Target::Outside(BASE.offset(10))).contains("no block"));
        assert!(complaint(|cfg| cfg.edges.reverse()).contains("out of order"));
    }

    #[test]
    fn notices_a_breakpoint_that_goes_on() {
        // int3; nop; nop, and int3; nop; ret as if the same had been made of it.
        let cfg = FlatSource(alloc::vec![0xcc, 0x90, 0x90]).cfg();
        assert_eq!(cfg.blocks[0].end, End::Stop);
        assert_eq!(check(&cfg, &FlatSource(alloc::vec![0xcc, 0x90, 0x90])), Ok(()));
        let wrong = check(&cfg, &FlatSource(alloc::vec![0xcc, 0x90, 0xc3])).unwrap_err();
        assert!(wrong.contains(" ends as Stop"), "{wrong}");
    }

    #[test]
    fn notices_what_is_not_reached() {
        assert!(complaint(|cfg| cfg.blocks[0].reached = false).contains("but not reached"));
        assert!(complaint(|cfg| cfg.blocks[1].reached = false).contains("not bb1 behind it"));
        assert_eq!(complaint(|cfg| cfg.entries.clear()), "there is no entry");
    }

    #[test]
    fn holds_of_every_recovered_graph() {
        let holds = |source: FlatSource| check(&source.cfg(), &source).map_err(fail);
        TestRunner::default().run(&testing::program(), holds).unwrap();
        TestRunner::default().run(&testing::noise(), holds).unwrap();
    }
}
