//! Which registers nobody reads once a function has returned.
//!
//! Callers that are compiled apart go by the calling convention; those in the same unit may know better (`-fipa-ra`), and are
//! asked. Whoever has the linked file alone sees all callers too, but not that somebody vouches for those it does not understand.

use super::{Free, Piece};
use crate::image::Image;
use crate::program::needs::{Needs, scratch};
use crate::program::{FunctionId, Program};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg, End};
use relive_code::dominators::DominatorTree;
use relive_code::isa::{EffectsReader, Gpr, RegSet};
use relive_code::liveness::{Convention, Liveness};
use relive_code::loops::LoopForest;
use relive_code::source::CodeSource;

/// Says it of each function that `is_compiled` (by its entry) and in which a counter could use a register. `pieces` are by address.
pub fn state(
    pieces: &mut [Piece],
    image: &Image<'_>,
    program: &Program<'_>,
    is_compiled: &dyn Fn(LinkAddr) -> bool,
) {
    let needs = Needs::new(image, program);
    for (id, function) in program.numbered() {
        let cfg = &function.cfg;
        let returns = || cfg.blocks.iter().filter(|block| block.end == End::Return);
        if returns().next().is_none() || !cfg.is_understood() || !is_compiled(function.entry) {
            continue;
        }
        let registers = free_at_returns(image, &needs, id, cfg);
        if registers.is_empty() {
            continue;
        }
        for block in returns() {
            let behind = pieces.partition_point(|piece| piece.range.start <= block.start);
            if let Some(piece) = pieces[..behind].last_mut().filter(|p| p.range.contains(block.start)) {
                piece.free.push(Free { behind: block.last_insn(), registers });
            }
        }
    }
    pieces.iter_mut().for_each(|piece| piece.free.sort_unstable_by_key(|free| free.behind));
}

/// None if no counter of the function would gain by it.
fn free_at_returns(image: &Image<'_>, needs: &Needs<'_, '_>, id: FunctionId, cfg: &Cfg) -> RegSet {
    let by_convention = Convention {
        read_by_call: Convention::system_v().read_by_call,
        live_at_return: needs.live_at_return(cfg),
        ..Convention::cautious()
    };
    let free = scratch() & !by_convention.live_at_return;
    if free.is_empty() || !(has_quiet_loop(cfg) || needs_flags(image, cfg)) {
        return RegSet::EMPTY;
    }
    let callees = |at| needs.of(at);
    let liveness = Liveness::with_summaries(cfg, &image.elf, &by_convention, &callees, needs.summaries(id));
    // Whoever changes such a register and leaves it changed goes by the convention; `r11` no convention keeps.
    let changed = needs.summaries(id).writes() & scratch() & !RegSet::gpr(Gpr::R11);
    let is_usual = !changed.is_empty() && written_for_callers(image, cfg, &liveness).is_empty();
    if is_usual { free } else { RegSet::EMPTY }
}

/// Whether a loop calls nobody: its counters can be kept in registers.
fn has_quiet_loop(cfg: &Cfg) -> bool {
    let graph = cfg.graph();
    let loops = LoopForest::new(&graph, &DominatorTree::new(&graph, &cfg.roots()));
    let is_quiet = |&block: &u32| !cfg.block(BlockId(block)).end.is_call();
    loops.ids().any(|id| loops.blocks_of(id).iter().all(is_quiet))
}

/// Whether in some block flags matter all along, so that a counter has to go through a register.
fn needs_flags(image: &Image<'_>, cfg: &Cfg) -> bool {
    let liveness = Liveness::new(cfg, &image.elf, &Convention::cautious());
    let is_live = |live: RegSet| live.intersects(RegSet::ARITHMETIC_FLAGS);
    let mut blocks = cfg.numbered_blocks().filter(|&(id, _)| is_live(liveness.live_in(id)));
    blocks.any(|(id, _)| liveness.per_insn(id).into_iter().all(|(_, live)| is_live(live)))
}

/// What the function leaves a value in that it does not read itself: results and saved registers of calling conventions
/// that a programmer asked for (`preserve_most`, `regcall`).
fn written_for_callers<S: CodeSource + ?Sized>(
    image: &Image<'_>,
    cfg: &Cfg,
    liveness: &Liveness<'_, S>,
) -> RegSet {
    let mut reader = EffectsReader::new();
    let mut found = RegSet::EMPTY;
    for (id, block) in cfg.numbered_blocks() {
        let before = liveness.per_insn(id);
        let behind = before.iter().skip(1).map(|&(_, live)| live).chain([liveness.live_out(id)]);
        for (insn, live) in block.insns(&image.elf).zip(behind) {
            found |= reader.effects(&insn).writes & !live;
        }
    }
    found & scratch()
}
