//! What really differs between two builds, and whether the slice foresaw it.

use crate::build::describe;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Insn, Operand};
use relive_impact::analyses::Slicing;
use relive_impact::slice::{Seeds, Slice};
use relive_impact::{Analysis as _, Blocks, Builds, Changes};
use relive_matching::blocks::Found;
use relive_matching::{Fingerprint, Matching, match_builds};
use relive_profile::model::{Callee, Count, DataKind, Edge, Function, Module, Node};
use relive_testkit::compile::compile;
use relive_testkit::steps::Stepper;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How two versions compare.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Pairs of blocks that do the same.
    pub same: usize,
    /// Pairs among them that ran a different number of times.
    pub differ: usize,
    /// Pairs among them that no slice holds.
    pub free: usize,
    /// Pairs among them of which some slice says that they may run more or less often.
    pub runs: usize,
    /// Pairs that no slice holds that is made for the runs on one input, over all inputs: of blocks that ran, and of all.
    pub held: [usize; 2],
    /// What ran differently although no slice said so.
    pub missed: Vec<String>,
}

/// Compiles both versions, runs them on some inputs, and compares with the slices from what changed, on both sides.
pub(crate) fn compare(
    stepper: &Stepper,
    (old, new): (&str, &str),
    flags: &[&str],
    inputs: &[&[&str]],
) -> Comparison {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let binaries = [old, new].map(|text| compile("gcc", flags, ("program.c", text)));
    let [old, new] = [0, 1].map(|side: usize| describe(&binaries[side]));
    let (old_print, new_print) =
        (Fingerprint::new(&old).expect("code"), Fingerprint::new(&new).expect("code"));
    let sides = Sides::new(&old, &new, &match_builds(&old_print, &new_print));
    let same = sides.same();
    let seeds = sides.seeds(&same);
    let slices = [Slice::forward(&old, &seeds[0]), Slice::forward(&new, &seeds[1])];
    let all = [slices[0].all(&old), slices[1].all(&new)];
    let mut comparison = Comparison { same: same.len(), ..Comparison::default() };
    let mut differ = HashSet::new();
    let matching = match_builds(&old_print, &new_print);
    for input in inputs {
        let ran = [0, 1].map(|side: usize| stepper.run(folder.path(), &binaries[side], input).counts);
        for &((f, a), (g, b)) in &same {
            let count = |side: usize, module: &Module, f: u32, b: u32| {
                let at = module.functions[f as usize].blocks[b as usize].address;
                ran[side].get(&at).copied().unwrap_or(0)
            };
            let counts = (count(0, &old, f, a), count(1, &new, g, b));
            if counts.0 == counts.1 || !differ.insert((f, a)) {
                continue;
            }
            if !slices[0].runs.contains(f, a) && !slices[1].runs.contains(g, b) {
                let name = old.name(&old.functions[f as usize]);
                let at = old.functions[f as usize].blocks[a as usize].address;
                comparison.missed.push(format!("{name} bb{a} at {at:x}: {counts:?}, input {input:?}"));
            }
        }
        measured((&old, &new), &matching, &ran, &mut comparison);
    }
    comparison.differ = differ.len();
    let free = |&&((f, a), (g, b)): &&(At, At)| !all[0].contains(f, a) && !all[1].contains(g, b);
    comparison.free = same.iter().filter(free).count();
    let runs =
        |&&((f, a), (g, b)): &&(At, At)| slices[0].runs.contains(f, a) || slices[1].runs.contains(g, b);
    comparison.runs = same.iter().filter(runs).count();
    comparison
}

/// The same for the slice of one run: what the old build did is known, and what did not run is nothing to go by.
fn measured(
    (old, new): (&Module, &Module),
    matching: &Matching,
    ran: &[BTreeMap<u64, u64>; 2],
    comparison: &mut Comparison,
) {
    let count = |side: usize, at: u64| ran[side].get(&at).copied().unwrap_or(0);
    let mut known = old.clone();
    for function in &mut known.functions {
        for block in &mut function.blocks {
            block.count = Some(Count::measured(count(0, block.address)));
        }
    }
    let builds = Builds::new(&known, new, matching);
    let changes = Changes::of_builds(&builds);
    let affected = Slicing { values: false, measured: true }.affected(&builds, &changes);
    for pair in &matching.procedures {
        let (f, g) = (pair.pair.old, pair.pair.new);
        let (before, after) = (&old.functions[f as usize], &new.functions[g as usize]);
        for blocks in pair.blocks.iter().filter(|blocks| blocks.found != Found::ControlFlow) {
            if affected.old.contains(f, blocks.old) || affected.new.contains(g, blocks.new) {
                continue;
            }
            let at = [before.blocks[blocks.old as usize].address, after.blocks[blocks.new as usize].address];
            let counts = (count(0, at[0]), count(1, at[1]));
            comparison.held[0] += usize::from(counts.0 > 0);
            comparison.held[1] += 1;
            if counts.0 != counts.1 {
                let name = old.name(before);
                comparison.missed.push(format!("{name} at {:x}: {counts:?}, by what was measured", at[0]));
            }
        }
    }
}

/// A function and a block.
type At = (u32, u32);

/// Two builds and what belongs together.
pub(crate) struct Sides<'m> {
    old: &'m Module,
    new: &'m Module,
    functions: HashMap<u32, u32>,
    blocks: HashMap<At, At>,
    data: HashMap<u32, u32>,
}

impl<'m> Sides<'m> {
    pub(crate) fn new(old: &'m Module, new: &'m Module, matching: &Matching) -> Self {
        let mut sides = Self {
            old,
            new,
            functions: HashMap::new(),
            blocks: HashMap::new(),
            data: matching.data.iter().map(|pair| (pair.old, pair.new)).collect(),
        };
        for procedures in &matching.procedures {
            let (f, g) = (procedures.pair.old, procedures.pair.new);
            sides.functions.insert(f, g);
            for pair in &procedures.blocks {
                sides.blocks.insert((f, pair.old), (g, pair.new));
            }
        }
        sides
    }

    /// Blocks that do the same and lead to the same.
    pub(crate) fn same(&self) -> Vec<(At, At)> {
        let mut same: Vec<_> =
            self.blocks.iter().map(|(&a, &b)| (a, b)).filter(|&(a, b)| self.is_same(a, b)).collect();
        same.sort_unstable();
        same
    }

    /// All other blocks, and data that begins with something else.
    pub(crate) fn seeds(&self, same: &[(At, At)]) -> [Seeds; 2] {
        let same: [HashSet<At>; 2] =
            [same.iter().map(|pair| pair.0).collect(), same.iter().map(|pair| pair.1).collect()];
        let others = |module: &Module, same: &HashSet<At>| {
            let mut blocks = Blocks::none(module);
            for (function, f) in module.functions.iter().zip(0..) {
                for b in (0..function.blocks.len() as u32).filter(|&b| !same.contains(&(f, b))) {
                    blocks.insert(f, b);
                }
            }
            blocks
        };
        let mut data: [Vec<u32>; 2] = Default::default();
        let changed = |(a, b): (u32, u32)| !self.same_data(a, b);
        for (&a, &b) in self.data.iter().filter(|&(&a, &b)| changed((a, b))) {
            data[0].push(a);
            data[1].push(b);
        }
        let [old, new] = data;
        [
            Seeds { blocks: others(self.old, &same[0]), data: old, idle: Blocks::none(self.old) },
            Seeds { blocks: others(self.new, &same[1]), data: new, idle: Blocks::none(self.new) },
        ]
    }

    fn same_data(&self, a: u32, b: u32) -> bool {
        let (old, new) = (&self.old.data[a as usize], &self.new.data[b as usize]);
        let pointers = |module: &'m Module, at: u64, size: u64| {
            module.pointers.iter().filter(move |p| p.at >= at && p.at < at + size)
        };
        let olds: Vec<_> = pointers(self.old, old.address, old.size).collect();
        let news: Vec<_> = pointers(self.new, new.address, new.size).collect();
        let lead_alike = olds.len() == news.len()
            && olds
                .iter()
                .zip(&news)
                .all(|(p, q)| p.at - old.address == q.at - new.address && self.same_address(p.to, q.to));
        let tables = old.kind == DataKind::JumpTable && new.kind == DataKind::JumpTable;
        tables || old.hash == new.hash && lead_alike && (old.kind == new.kind)
    }

    /// Whether two addresses are of the same function or data.
    fn same_address(&self, a: u64, b: u64) -> bool {
        let function = |module: &Module, at: u64| {
            let i = module.functions.partition_point(|f| f.address <= at).checked_sub(1)?;
            let f = &module.functions[i];
            (at - f.address < f.size.max(1)).then(|| (i as u32, at - f.address))
        };
        if let (Some((f, o)), Some((g, p))) = (function(self.old, a), function(self.new, b)) {
            // Labels move with the code.
            return self.functions.get(&f) == Some(&g) && (o == 0) == (p == 0);
        }
        let data = |module: &Module, at: u64| {
            let i = module.data.partition_point(|d| d.address <= at).checked_sub(1)?;
            Some((i as u32, at - module.data[i].address))
        };
        match (data(self.old, a), data(self.new, b)) {
            (Some((i, o)), Some((j, p))) => self.data.get(&i) == Some(&j) && o == p,
            _ => false,
        }
    }

    fn is_same(&self, (f, a): At, (g, b): At) -> bool {
        let (old, new) = (&self.old.functions[f as usize], &self.new.functions[g as usize]);
        let insns = |function: &Function, block: u32| -> Vec<Insn> {
            let block = &function.blocks[block as usize];
            let bytes = function.bytes_at(block.address, block.size.into()).unwrap_or_default();
            Decode::new(bytes, LinkAddr(block.address)).filter(|insn| !insn.is_padding()).collect()
        };
        let (olds, news) = (insns(old, a), insns(new, b));
        olds.len() == news.len()
            && olds.iter().zip(&news).all(|(x, y)| self.same_insn((f, x), (g, y)))
            && self.same_calls((f, a), (g, b))
            && self.same_ways((f, a), (g, b))
    }

    fn same_insn(&self, (f, x): (u32, &Insn), (g, y): (u32, &Insn)) -> bool {
        let operands = (x.operands().collect::<Vec<_>>(), y.operands().collect::<Vec<_>>());
        x.opcode() == y.opcode()
            && operands.0.len() == operands.1.len()
            && operands.0.iter().zip(&operands.1).all(|pair| match pair {
                (Operand::Memory(p), Operand::Memory(q)) if p.fixed && q.fixed && !p.thread_local => {
                    let (at, to) = (p.displacement.cast_unsigned(), q.displacement.cast_unsigned());
                    p.width == q.width && self.same_address(at, to)
                }
                (Operand::Target(to), Operand::Target(other)) => {
                    let inner =
                        |module: &Module, f: u32, at: LinkAddr| module.functions[f as usize].block_at(at.0);
                    match (inner(self.old, f, *to), inner(self.new, g, *other)) {
                        (Some(a), Some(b)) => self.blocks.get(&(f, a)) == Some(&(g, b)),
                        // Whom it calls is compared by name.
                        (None, None) => true,
                        _ => false,
                    }
                }
                (p, q) => p == q,
            })
    }

    fn same_calls(&self, (f, a): At, (g, b): At) -> bool {
        use relive_profile::model::CalledBy;
        let calls = |module: &Module, f: u32, b: u32| -> Vec<(Option<String>, u64)> {
            let function = &module.functions[f as usize];
            let from = |call: &relive_profile::model::Call| match call.by {
                CalledBy::Block(block) => Some(block),
                CalledBy::Edge(edge) => function.edges[edge as usize].from.as_block(),
            };
            let own = function.calls.iter().filter(|call| from(call) == Some(b));
            own.map(|call| match call.callee {
                Callee::Direct { address, .. } => (None, address),
                other => (module.callee_name(other).map(ToString::to_string), 0),
            })
            .collect()
        };
        let (olds, news) = (calls(self.old, f, a), calls(self.new, g, b));
        olds.len() == news.len()
            && olds.iter().zip(&news).all(|(x, y)| match (x, y) {
                ((None, a), (None, b)) if *a != 0 && *b != 0 => self.same_address(*a, *b),
                _ => x == y,
            })
    }

    fn same_ways(&self, (f, a): At, (g, b): At) -> bool {
        let ways = |module: &'m Module, f: u32, b: u32| -> Vec<&'m Edge> {
            module.functions[f as usize].edges.iter().filter(|e| e.from == Node::block(b)).collect()
        };
        let (olds, news) = (ways(self.old, f, a), ways(self.new, g, b));
        let lead_alike = |x: &Edge, y: &Edge| match (x.to.as_block(), y.to.as_block()) {
            (Some(to), Some(other)) => self.blocks.get(&(f, to)) == Some(&(g, other)),
            (None, None) => true,
            _ => false,
        };
        olds.len() == news.len()
            && olds.iter().all(|x| news.iter().any(|y| x.kind == y.kind && lead_alike(x, y)))
    }
}
