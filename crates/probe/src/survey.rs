//! Describes a module that is not going to be measured: the shape of its code, for whoever wants to find known code in
//! it or to say what it does without running it.

use crate::describe::{self, Fate, Measured, Subject};
use crate::frequency::Frequencies;
use crate::graph::Flow;
use crate::placement::Plan;
use crate::steady::Steady;
use rayon::prelude::*;
use relive_abi::rprof::SlotLayout;
use relive_code::cfg::{BlockId, Cfg, End};
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::program::{FunctionId, Program};
use relive_image::watch::Watch;
use relive_profile::model as profile;
use std::collections::HashMap;

/// What is known of a program beyond its graphs, function by function.
pub struct Survey<'a, 'd> {
    image: &'a Image<'d>,
    program: &'a Program<'d>,
    fates: Vec<Fate>,
    sites: Vec<(FunctionId, BlockId)>,
}

impl<'a, 'd> Survey<'a, 'd> {
    /// Looks at every function that has been read. Those that are understood have a flow, whether they could be rewritten
    /// or not.
    #[must_use]
    pub fn new(image: &'a Image<'d>, program: &'a Program<'d>) -> Self {
        let calls_kernel: Vec<bool> = program
            .functions
            .par_iter()
            .map(|f| f.cfg.blocks.iter().any(|b| b.has_syscall(&image.elf)))
            .collect();
        let steady = Steady::new(image, program, &calls_kernel);
        let mut fates: Vec<Fate> = program
            .functions
            .par_iter()
            .zip(calls_kernel)
            .map(|(function, calls_kernel)| {
                let cfg = &function.cfg;
                if !function.is_read() {
                    return Fate::Idle;
                }
                if let Some(reason) = function.reason() {
                    return Fate::Left(format!("not understood: {}", reason.explanation()));
                }
                let in_kernel = |block: BlockId| calls_kernel && cfg.block(block).has_syscall(&image.elf);
                let flow = Flow::new(cfg, &steady.calls(cfg, &in_kernel), &|_| true);
                let plan = Plan {
                    blocks: vec![None; flow.blocks],
                    arcs: vec![None; flow.arcs.len()],
                    ..Plan::default()
                };
                Fate::Measured(Box::new(Measured { flow, plan, first_counter: 0, sites: HashMap::new() }))
            })
            .collect();
        let mut sites = Vec::new();
        for ((id, function), fate) in program.numbered().zip(&mut fates) {
            let Fate::Measured(measured) = fate else { continue };
            number_sites(image, id, &function.cfg, &|_| true, &mut measured.sites, &mut sites);
        }
        Self { image, program, fates, sites }
    }

    /// The module as a profile would have it in which nothing has been counted.
    #[must_use]
    pub fn module(&self, lines: Option<&Lines<'d>>, path: &str, watch: &Watch) -> profile::Module {
        describe::module(&Subject {
            image: self.image,
            program: self.program,
            lines,
            fates: &self.fates,
            layout: SlotLayout { sites: self.sites.len() as u32, ..SlotLayout::default() },
            sites: &self.sites,
            path,
            mode: profile::Mode::Edges,
            watch,
        })
    }

    /// How often each edge of the function of that index is taken for one entry, as far as the code says; nothing if
    /// the function is not understood.
    #[must_use]
    pub fn likelihood(&self, function: usize) -> Vec<f64> {
        match &self.fates[function] {
            Fate::Measured(measured) => {
                let cfg = &self.program.functions[function].cfg;
                Frequencies::estimate(cfg, &self.image.elf, &measured.flow).arcs
            }
            Fate::Left(_) | Fate::Idle => Vec::new(),
        }
    }
}

/// Numbers the calls of a function whose targets only a run can tell, as far as anyone asks for the block they are in.
pub fn number_sites(
    image: &Image<'_>,
    function: FunctionId,
    cfg: &Cfg,
    is_asked: &dyn Fn(BlockId) -> bool,
    numbers: &mut HashMap<BlockId, u32>,
    sites: &mut Vec<(FunctionId, BlockId)>,
) {
    for (id, block) in cfg.numbered_blocks().filter(|(_, b)| b.reached) {
        let watched = match block.end {
            End::IndirectCall(None) => true,
            End::IndirectCall(Some(slot)) => image.import_at(slot).is_none(),
            // A jump that leaves the function and does nothing else.
            End::IndirectJump => {
                let slot = block.insns(&image.elf).last().and_then(|insn| insn.fixed_memory_operand());
                slot.is_none_or(|slot| image.import_at(slot).is_none())
                    && cfg.edges_from(id).iter().all(|e| e.inner_target().is_none())
            }
            _ => false,
        };
        if watched && is_asked(id) {
            numbers.insert(id, sites.len() as u32);
            sites.push((function, id));
        }
    }
}
