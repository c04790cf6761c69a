//! Stack heights by running the code: a small machine follows every edge, on a stack at a made-up
//! address, and the heights must be the ones it sees.
//!
//! Whatever the machine does not know (registers at the entry, memory, results it does not compute) it
//! makes up. Two machines that make up different things walk side by side: a height is known if both
//! see the same one. Every way is taken, whatever its condition, but for the one condition that tells a
//! height. Each block is run a few times, so the
//! cost is O(edges + instructions) with a large factor.
//!
//! This finds heights that are wrong, and conflicts that are none or were passed over; not heights that
//! could have been known.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use iced_x86::{Mnemonic, OpKind, Register};

use crate::cfg::{BlockId, Cfg, EdgeKind, Target};
use crate::isa::{EffectsReader, Flow, Gpr, Insn};
use crate::source::CodeSource;
use crate::stack_height::StackHeights;

/// How often a block is run with the same stack addresses in the same registers.
const RUNS: u32 = 2;
/// With how many different ones a block is run: a loop that pushes has no end of them.
const PASTS: usize = 50;

/// Checks every answer of the heights made for `cfg`.
///
/// # Errors
///
/// Says which answer is wrong.
pub fn check<S: CodeSource + ?Sized>(
    cfg: &Cfg,
    source: &S,
    heights: &StackHeights<'_, S>,
) -> Result<(), String> {
    let (seen, trusted) = (BTreeMap::new(), BTreeMap::new());
    let mut walk = Walk {
        cfg,
        source,
        heights,
        runs: vec![BTreeMap::new(); cfg.blocks.len()],
        seen,
        trusted,
        pruned: false,
    };
    walk.start()?;
    for (id, _) in cfg.numbered_blocks() {
        if walk.runs[id.index()].is_empty() && !walk.pruned && heights.at_block(id).is_some() {
            return Err(format!("{id} has a height, but no way leads there"));
        }
        let differs = |heights: Option<&BTreeSet<i64>>| heights.is_some_and(|heights| heights.len() > 1);
        let said = heights.conflicts().contains(&id);
        if said && !differs(walk.seen.get(&id)) {
            return Err(format!("no two ways to {id} differ in height"));
        }
        if !said && differs(walk.trusted.get(&id)) {
            return Err(format!("{id} is entered at {:?}", walk.trusted[&id]));
        }
    }
    if !heights.conflicts().is_sorted_by(|a, b| a < b) {
        return Err("the conflicts are out of order".into());
    }
    Ok(())
}

/// A walk over all edges.
struct Walk<'a, S: ?Sized> {
    cfg: &'a Cfg,
    source: &'a S,
    heights: &'a StackHeights<'a, S>,
    /// How often each block was run with which stack addresses in registers.
    runs: Vec<BTreeMap<Vec<Option<i64>>, u32>>,
    /// All known heights at which each block was entered.
    seen: BTreeMap<BlockId, BTreeSet<i64>>,
    /// Those that came from an entry, or from a block whose own height is known.
    trusted: BTreeMap<BlockId, BTreeSet<i64>>,
    /// Whether some edge was not taken, because it cannot be.
    pruned: bool,
}

impl<S: CodeSource + ?Sized> Walk<'_, S> {
    fn start(&mut self) -> Result<(), String> {
        let mut pending: VecDeque<(BlockId, [Machine; 2])> = VecDeque::new();
        for root in self.cfg.roots().into_iter().map(BlockId) {
            let mut pair = [Machine::new(1, 0x7000_0000_0008), Machine::new(2, 0x7100_0000_0030)];
            if self.cfg.entries.contains(&root) {
                self.trusted.entry(root).or_default().insert(0);
            } else {
                pair.iter_mut().for_each(|machine| machine.make_up(Gpr::RSP));
            }
            if self.cfg.block(root).reached {
                pending.push_back((root, pair));
            }
        }
        // The shortest ways first: loops must not use up the runs of a block before they are gone.
        while let Some((block, mut pair)) = pending.pop_front() {
            self.seen.entry(block).or_default().extend(height(&pair));
            agrees(self.heights.at_block(block), &pair).map_err(|why| format!("{block}: {why}"))?;
            if !self.is_due(block, &pair) {
                continue;
            }
            let trusted = self.run(block, &mut pair)?;
            for edge in self.cfg.edges_from(block) {
                let Target::Block(to) = edge.to else { continue };
                let mut pair = pair.clone();
                match awaited(&pair, edge.kind) {
                    Some(awaited) if !trusted => pair.iter_mut().for_each(|machine| machine.rise_to(awaited)),
                    Some(awaited) if height(&pair) != Some(awaited) => {
                        self.pruned = true;
                        continue;
                    }
                    _ => {}
                }
                if trusted && edge.kind != EdgeKind::LandingPad {
                    self.trusted.entry(to).or_default().extend(height(&pair));
                }
                pending.push_back((to, pair));
            }
        }
        Ok(())
    }

    /// Whether to run a block, once more, with the stack addresses that are in registers.
    fn is_due(&mut self, block: BlockId, pair: &[Machine; 2]) -> bool {
        let runs = &mut self.runs[block.index()];
        let past: Vec<Option<i64>> = Gpr::all().map(|register| distance(pair, register)).collect();
        if runs.len() == PASTS && !runs.contains_key(&past) {
            return false;
        }
        let count = runs.entry(past).or_default();
        *count += 1;
        *count <= RUNS
    }

    /// Runs one block, and holds its instructions' heights against what the machines see. Whether the
    /// height at its end is said to be known: it is before a last instruction that does not change it.
    fn run(&self, block: BlockId, pair: &mut [Machine; 2]) -> Result<bool, String> {
        let insns: Vec<Insn> = self.cfg.block(block).insns(self.source).collect();
        let said = self.heights.per_insn(block);
        if !said.iter().map(|(at, _)| *at).eq(insns.iter().map(Insn::addr)) {
            return Err(format!("these are not the instructions of {block}: {said:?}"));
        }
        pair.iter_mut().for_each(|machine| machine.compared = None);
        for (insn, (at, said)) in insns.iter().zip(&said) {
            agrees(*said, pair).map_err(|why| format!("{at}: {why}"))?;
            pair.iter_mut().for_each(|machine| machine.step(insn));
        }
        let jumps = insns.last().is_some_and(|last| last.flow() != Flow::Next);
        Ok(jumps && said.last().is_some_and(|(_, height)| height.is_some()))
    }
}

/// How far what is in a register is from the stack pointer at the entry, if both machines see the same.
fn distance(pair: &[Machine; 2], register: Gpr) -> Option<i64> {
    let [one, other] = pair.each_ref().map(|machine| machine.get(register).wrapping_sub(machine.entry));
    (one == other).then_some(one as i64)
}

/// The height, if both machines see the same.
fn height(pair: &[Machine; 2]) -> Option<i64> {
    distance(pair, Gpr::RSP)
}

/// The height that the stack pointer must have for control to go along an edge of that kind, if that
/// is known. A loop may have to run many times before; that is taken as done.
fn awaited(pair: &[Machine; 2], kind: EdgeKind) -> Option<i64> {
    match pair[0].awaits {
        Some((register, edge)) if edge == kind => distance(pair, register),
        _ => None,
    }
}

fn agrees(said: Option<i64>, pair: &[Machine; 2]) -> Result<(), String> {
    match said {
        Some(said) if height(pair) != Some(said) => {
            Err(format!("the height is {:?}, not {said}", height(pair)))
        }
        _ => Ok(()),
    }
}

/// Registers and memory, as far as stack addresses pass through them.
#[derive(Clone)]
struct Machine {
    regs: [u64; 16],
    memory: BTreeMap<u64, u8>,
    /// Where the stack pointer was at the entry.
    entry: u64,
    /// What was made up last.
    fresh: u64,
    /// The register that the last instruction of the same block compared with the stack pointer.
    compared: Option<Gpr>,
    /// That register, if the last instruction is a branch, and the edge on which both are equal.
    awaits: Option<(Gpr, EdgeKind)>,
}

impl Machine {
    fn new(seed: u64, entry: u64) -> Self {
        let memory = BTreeMap::new();
        let mut machine = Self { regs: [0; 16], memory, entry, fresh: seed, compared: None, awaits: None };
        Gpr::all().for_each(|register| machine.make_up(register));
        machine.set(Gpr::RSP, entry);
        machine
    }

    fn rise_to(&mut self, height: i64) {
        self.set(Gpr::RSP, self.entry.wrapping_add(height as u64));
    }

    /// A number that nothing else is near to (Steele et al., "SplitMix", 2014).
    fn invent(&mut self) -> u64 {
        self.fresh = self.fresh.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.fresh ^ (self.fresh >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn make_up(&mut self, register: Gpr) {
        let invented = self.invent();
        self.set(register, invented);
    }

    fn get(&self, register: Gpr) -> u64 {
        self.regs[register.number()]
    }

    fn set(&mut self, register: Gpr, value: u64) {
        self.regs[register.number()] = value;
    }

    fn load(&mut self, at: u64) -> u64 {
        for offset in 0..8 {
            let invented = self.invent() as u8;
            self.memory.entry(at.wrapping_add(offset)).or_insert(invented);
        }
        (0..8).rev().fold(0, |value, offset| value << 8 | u64::from(self.memory[&at.wrapping_add(offset)]))
    }

    fn store(&mut self, at: u64, value: u64) {
        for offset in 0..8 {
            self.memory.insert(at.wrapping_add(offset), (value >> (8 * offset)) as u8);
        }
    }

    /// Memory becomes something else.
    fn spoil(&mut self, at: u64, bytes: u64) {
        // `enter` can spoil 64 KiB at once, of which hardly any was written.
        self.memory.retain(|place, _| place.wrapping_sub(at) >= bytes);
    }

    fn push(&mut self, value: u64) {
        self.set(Gpr::RSP, self.get(Gpr::RSP).wrapping_sub(8));
        self.store(self.get(Gpr::RSP), value);
    }

    fn pop(&mut self) -> u64 {
        let value = self.load(self.get(Gpr::RSP));
        self.set(Gpr::RSP, self.get(Gpr::RSP).wrapping_add(8));
        value
    }

    /// Executes one instruction. Those that move stack addresses about are done as the manual says, for
    /// operands of eight bytes; of all others only what they spoil is of interest.
    fn step(&mut self, insn: &Insn) {
        let raw = &insn.raw;
        let wide = (0..raw.op_count()).all(|operand| is_wide(insn, operand));
        let compared = self.compared.take();
        self.awaits = match raw.mnemonic() {
            Mnemonic::Je => compared.map(|register| (register, EdgeKind::Taken)),
            Mnemonic::Jne => compared.map(|register| (register, EdgeKind::FallThrough)),
            _ => None,
        };
        match raw.mnemonic() {
            Mnemonic::Mov if wide => {
                let value = self.operand(insn, 1);
                self.write(insn, 0, value);
            }
            Mnemonic::Lea if is_wide(insn, 0) => {
                let address = self.address(insn);
                self.write(insn, 0, address);
            }
            Mnemonic::Cmp if wide => {
                self.compared = match (raw.op0_register(), raw.op1_register()) {
                    (Register::RSP, other) | (other, Register::RSP) => Gpr::holding(other),
                    _ => None,
                };
            }
            // Room of unknown size, but not of negative size.
            Mnemonic::Sub if raw.op0_register() == Register::RSP && raw.op1_register() != Register::None => {
                let size = self.invent() % 0x10_0000 * 8;
                self.set(Gpr::RSP, self.get(Gpr::RSP).wrapping_sub(size));
            }
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::And if wide => {
                let (left, right) = (self.operand(insn, 0), self.operand(insn, 1));
                let value = match raw.mnemonic() {
                    Mnemonic::Add => left.wrapping_add(right),
                    Mnemonic::Sub => left.wrapping_sub(right),
                    _ => left & right,
                };
                self.write(insn, 0, value);
            }
            Mnemonic::Xchg if wide => {
                let (left, right) = (self.operand(insn, 0), self.operand(insn, 1));
                self.write(insn, 0, right);
                self.write(insn, 1, left);
            }
            Mnemonic::Push if wide => {
                let value = self.operand(insn, 0);
                self.push(value);
            }
            Mnemonic::Pop if wide => {
                let value = self.pop();
                self.write(insn, 0, value);
            }
            Mnemonic::Leave if raw.stack_pointer_increment() == 0 => {
                self.set(Gpr::RSP, self.get(Gpr::RBP));
                let outer = self.pop();
                self.set(Gpr::RBP, outer);
            }
            Mnemonic::Call if insn.flow() == Flow::Call(insn.next_addr()) => self.push(insn.next_addr().0),
            Mnemonic::Call => self.call(),
            _ => self.spoil_results(insn),
        }
    }

    /// Control comes back from a callee that did all it is allowed to.
    fn call(&mut self) {
        self.memory = self.memory.split_off(&self.get(Gpr::RSP));
        for register in Gpr::all() {
            let kept = [Gpr::RBX, Gpr::RSP, Gpr::RBP, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];
            if !kept.contains(&register) {
                self.make_up(register);
            }
        }
    }

    /// All that the instruction writes becomes something else, but for the stack pointer, if it moves by
    /// a fixed number of bytes, and the frame pointer, if a frame is entered.
    fn spoil_results(&mut self, insn: &Insn) {
        let (old, frame) = (self.get(Gpr::RSP), self.get(Gpr::RBP));
        let moved = i64::from(insn.raw.stack_pointer_increment());
        if insn.raw.op0_kind() == OpKind::Memory {
            self.spoil(self.address(insn), insn.raw.memory_size().size() as u64);
        }
        for register in EffectsReader::new().effects(insn).writes.gprs() {
            self.make_up(register);
        }
        if moved != 0 {
            self.set(Gpr::RSP, old.wrapping_add(moved as u64));
            self.spoil(self.get(Gpr::RSP), (-moved).max(0) as u64);
        }
        if insn.raw.mnemonic() == Mnemonic::Enter {
            self.set(Gpr::RBP, old.wrapping_sub(8));
            self.store(self.get(Gpr::RBP), frame);
        }
    }

    fn address(&self, insn: &Insn) -> u64 {
        let raw = &insn.raw;
        // Never on the stack: relative to the instruction or a segment, or cut to 32 bits.
        let register = |register| Gpr::holding(register).map_or(0, |gpr| self.get(gpr));
        let index = register(raw.memory_index()).wrapping_mul(u64::from(raw.memory_index_scale()));
        raw.memory_displacement64().wrapping_add(register(raw.memory_base())).wrapping_add(index)
    }

    fn operand(&mut self, insn: &Insn, operand: u32) -> u64 {
        match insn.raw.op_kind(operand) {
            OpKind::Register => Gpr::holding(insn.raw.op_register(operand)).map_or(0, |gpr| self.get(gpr)),
            OpKind::Memory => self.load(self.address(insn)),
            _ => insn.raw.immediate(operand),
        }
    }

    fn write(&mut self, insn: &Insn, operand: u32, value: u64) {
        match insn.raw.op_kind(operand) {
            OpKind::Memory => self.store(self.address(insn), value),
            _ => Gpr::holding(insn.raw.op_register(operand)).into_iter().for_each(|gpr| self.set(gpr, value)),
        }
    }
}

/// Whether the operand has eight bytes, or is extended to so many.
fn is_wide(insn: &Insn, operand: u32) -> bool {
    let raw = &insn.raw;
    match raw.op_kind(operand) {
        OpKind::Register => raw.op_register(operand).is_gpr64(),
        OpKind::Memory => {
            let segment = matches!(raw.memory_segment(), Register::FS | Register::GS);
            raw.memory_size().size() == 8 && !segment && !raw.memory_base().is_gpr32()
        }
        OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate64 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FlatSource;

    /// Heights made for other code of the same layout must be noticed.
    fn complaint(code: &[u8], other: &[u8]) -> String {
        let (source, other) = (FlatSource(code.to_vec()), FlatSource(other.to_vec()));
        let cfg = source.cfg();
        assert_eq!(check(&cfg, &source, &StackHeights::new(&cfg, &source)), Ok(()));
        check(&cfg, &source, &StackHeights::new(&cfg, &other)).unwrap_err()
    }

    #[test]
    fn notices_wrong_heights() {
        // push rax; jmp 1f; 1: ret, against pop rax; jmp 1f; 1: ret
        assert_eq!(
            complaint(&[0x50, 0xeb, 0, 0xc3], &[0x58, 0xeb, 0, 0xc3]),
            "0x1001: the height is Some(-8), not 8"
        );
        // and rsp, -16; ret, against sub rsp, 16; ret
        assert_eq!(
            complaint(&[0x48, 0x83, 0xe4, 0xf0, 0xc3], &[0x48, 0x83, 0xec, 0x10, 0xc3]),
            "0x1004: the height is None, not -16"
        );
    }

    #[test]
    fn notices_wrong_conflicts() {
        // je 1f; push rax; jmp 1f; 1: ret, against nop instead of the push
        let (conflict, none) = ([0x74, 3, 0x50, 0xeb, 0, 0xc3], [0x74, 3, 0x90, 0xeb, 0, 0xc3]);
        assert_eq!(complaint(&none, &conflict), "0x1003: the height is Some(0), not -8");
        let source = FlatSource(conflict.to_vec());
        let cfg = source.cfg();
        assert_eq!(StackHeights::new(&cfg, &source).conflicts(), [BlockId(2)]);
        assert_eq!(check(&cfg, &source, &StackHeights::new(&cfg, &source)), Ok(()));
    }
}
