//! What the instructions of a unit do to registers and memory, as short operations that are executed fast.
//!
//! Only what somebody needs later is computed, and constants that are added to a register one after the other, as `push` and
//! `pop` do, are added once, where the unit may be left.

use crate::layout::Layout;
use crate::units::{Kind, Unit};
use relive_code::isa::{
    Access, AccessKind, Accesses, EffectsReader, Gpr, How, Insn, Knowledge, Needed, Operation as Computed,
    Part, Place, RegSet, Replayed, Segment, Set, Term,
};
use std::sync::Arc;

/// Where registers end and what is treated like them begins: always zero.
pub(crate) const ZERO: u8 = 16;
/// The base of `fs`.
pub(crate) const FS: u8 = 17;
/// The base of `gs`.
pub(crate) const GS: u8 = 18;

/// Something short.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// A register holds the next value that was written down.
    Value(u8),
    /// An access to memory at a sum.
    Access {
        base: u8,
        index: u8,
        shift: u8,
        segment: u8,
        kind: AccessKind,
        is_locked: bool,
        step: u16,
        size: u32,
        displacement: i64,
    },
    /// A register becomes a sum.
    Sum { to: u8, base: u8, index: u8, shift: u8, displacement: i64 },
    /// A register becomes a number.
    Constant { to: u8, value: u64 },
    /// A register becomes the lower half of another.
    Half { to: u8, from: u8 },
    /// A register becomes something else: which is in [`Operations::sets`].
    Set(u32),
    /// A whole instruction: see [`Operations::instructions`].
    Instruction(u32),
}

/// An instruction of which not everything is short.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) step: u16,
    pub(crate) accesses: Accesses,
    pub(crate) replayed: Replayed,
    pub(crate) needed: Needed,
}

/// A unit's operations.
#[derive(Default, Debug)]
pub(crate) struct Operations {
    pub(crate) list: Vec<Operation>,
    pub(crate) sets: Vec<Set>,
    pub(crate) instructions: Vec<Instruction>,
    /// By exit.
    pub(crate) ways: Vec<Way>,
    /// The number of the first value, among those of all units.
    pub(crate) slot: u32,
    /// Whether accesses to memory are written down.
    pub(crate) memory: bool,
    /// Whether it is written down when instructions happen that other threads may wait for.
    pub(crate) order: bool,
    /// How the processor's state lies in memory.
    pub(crate) layout: Arc<Layout>,
}

/// What it means that a unit was left by an exit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    /// How many operations are executed.
    pub(crate) operations: u32,
    /// How many values are written down.
    pub(crate) values: u16,
    /// The registers that are known then.
    pub(crate) known: RegSet,
}

impl Operations {
    /// How many values are written down at most.
    pub(crate) fn values(&self) -> u32 {
        self.ways.iter().map(|way| u32::from(way.values)).max().unwrap_or(0)
    }
}

/// An operation, and what it needs and changes.
struct Item {
    operation: Operation,
    uses: RegSet,
    changes: RegSet,
    /// Whether nobody minds if it is left out when what it changes is not used.
    is_pure: bool,
}

/// Turns the instructions of a unit into operations.
pub(crate) fn compile(
    unit: &Unit,
    insns: &[Insn],
    kind: &Kind,
    slot: u32,
    effects: &mut EffectsReader,
) -> Operations {
    let &Kind { memory, order, ref layout } = kind;
    let mut compiler = Compiler {
        items: Vec::new(),
        moved: [0; 16],
        knowledge: Knowledge::of(unit.known, order),
        way: Way::default(),
        all: Operations { slot, memory, order, layout: layout.clone(), ..Operations::default() },
    };
    // Where the unit can be left: behind so many instructions.
    let mut ends: Vec<u32> = unit.exits.iter().map(|exit| exit.steps).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut at_end = Vec::new();
    let mut step = 0;
    for end in ends {
        if memory {
            while step < end as usize {
                compiler.instruction(step as u16, &insns[step], effects);
                step += 1;
            }
            compiler.settle(RegSet::GPRS);
        }
        compiler.way.operations = compiler.items.len() as u32;
        compiler.way.known = compiler.knowledge.known() & RegSet::GPRS;
        at_end.push((end, compiler.way));
    }
    compiler.finish(unit, at_end)
}

struct Compiler {
    items: Vec<Item>,
    /// By register, what has yet to be added to it.
    moved: [i64; 16],
    knowledge: Knowledge,
    way: Way,
    all: Operations,
}

impl Compiler {
    fn push(&mut self, operation: Operation, uses: RegSet, changes: RegSet) {
        let is_pure =
            !matches!(operation, Operation::Value(_) | Operation::Access { .. } | Operation::Instruction(_));
        self.items.push(Item { operation, uses, changes, is_pure });
    }

    /// Adds what has yet to be added to some registers.
    fn settle(&mut self, registers: RegSet) {
        for register in registers.gprs() {
            let number = register.number();
            let displacement = std::mem::take(&mut self.moved[number]);
            if displacement != 0 && self.knowledge.known().contains(RegSet::gpr(register)) {
                let to = number as u8;
                let operation = Operation::Sum { to, base: to, index: ZERO, shift: 0, displacement };
                self.push(operation, RegSet::gpr(register), RegSet::gpr(register));
            }
        }
    }

    fn value(&mut self, register: Gpr) {
        self.push(Operation::Value(register.number() as u8), RegSet::EMPTY, RegSet::gpr(register));
        self.moved[register.number()] = 0;
        self.way.values += 1;
    }

    fn instruction(&mut self, step: u16, insn: &Insn, effects: &mut EffectsReader) {
        let (accesses, replayed) = (effects.accesses(insn), effects.replayed(insn));
        let before = self.knowledge;
        let needed = self.knowledge.step(&accesses, &replayed);
        let known = before.known() | needed.before;
        if !is_short(&accesses, &replayed, &needed) {
            let after = std::mem::replace(&mut self.knowledge, before);
            self.settle(RegSet::GPRS);
            self.knowledge = after;
            self.moved = [0; 16];
            let number = self.all.instructions.len() as u32;
            self.way.values += needed.len() as u16;
            self.all.instructions.push(Instruction { step, accesses, replayed, needed });
            self.push(Operation::Instruction(number), RegSet::GPRS, RegSet::EMPTY);
            return;
        }
        for register in needed.before.gprs() {
            self.value(register);
        }
        for access in &accesses {
            let operation = self.access(access, step);
            self.push(operation, access.place.registers(), RegSet::EMPTY);
        }
        let after = std::mem::replace(&mut self.knowledge, before);
        for set in replayed.sets.iter().filter(|set| known.contains(set.needs())) {
            self.set(set);
        }
        self.knowledge = after;
        for register in needed.after.gprs() {
            self.value(register);
        }
        for register in (RegSet::GPRS - self.knowledge.known()).gprs() {
            self.moved[register.number()] = 0;
        }
    }

    fn access(&self, access: &Access, step: u16) -> Operation {
        let (base, index, shift, displacement) = self.place(&access.place);
        let segment = match access.segment {
            Segment::None => ZERO,
            Segment::Fs => FS,
            Segment::Gs => GS,
        };
        let &Access { kind, size, is_locked, .. } = access;
        Operation::Access { base, index, shift, segment, kind, is_locked, step, size, displacement }
    }

    /// A sum, with what has yet to be added to its registers.
    fn place(&self, place: &Place) -> (u8, u8, u8, i64) {
        let moved = |register: Gpr| self.moved[register.number()];
        let mut displacement = place.displacement.wrapping_add(place.base.map_or(0, moved));
        if let Some((register, scale)) = place.index {
            displacement = displacement.wrapping_add(moved(register).wrapping_mul(scale.into()));
        }
        let number = |register: Gpr| register.number() as u8;
        let base = place.base.map_or(ZERO, number);
        let (index, shift) = place
            .index
            .map_or((ZERO, 0), |(register, scale)| (number(register), scale.trailing_zeros() as u8));
        (base, index, shift, displacement)
    }

    fn set(&mut self, set: &Set) {
        let number = set.to.number();
        if let Some(by) = set.moved_by() {
            self.moved[number] = self.moved[number].wrapping_add(by);
            return;
        }
        let to = number as u8;
        let operation = match set.operation {
            Computed::Sum(place) if set.part == Part::Whole && !place.narrow => {
                let (base, index, shift, displacement) = self.place(&place);
                Operation::Sum { to, base, index, shift, displacement }
            }
            Computed::Copy(Term::Constant(value)) if !set.part.keeps_rest() => {
                Operation::Constant { to, value: set.part.get(value) }
            }
            Computed::Copy(Term::Register(from, Part::Whole)) if set.part == Part::Whole => {
                let displacement = self.moved[from.number()];
                Operation::Sum { to, base: from.number() as u8, index: ZERO, shift: 0, displacement }
            }
            operation => {
                self.settle(set.needs());
                match operation {
                    Computed::Copy(Term::Register(from, Part::Half)) if set.part == Part::Half => {
                        Operation::Half { to, from: from.number() as u8 }
                    }
                    _ => {
                        self.all.sets.push(*set);
                        Operation::Set(self.all.sets.len() as u32 - 1)
                    }
                }
            }
        };
        self.push(operation, set.needs() & RegSet::GPRS, RegSet::gpr(set.to));
        self.moved[number] = 0;
    }

    /// Leaves out what nobody needs.
    fn finish(mut self, unit: &Unit, mut at_end: Vec<(u32, Way)>) -> Operations {
        let mut live = RegSet::EMPTY;
        let mut ends = at_end.len();
        let mut keeps = vec![true; self.items.len()];
        for (at, item) in self.items.iter().enumerate().rev() {
            while ends > 0 && at_end[ends - 1].1.operations as usize > at {
                ends -= 1;
                live |= at_end[ends].1.known;
            }
            keeps[at] = !item.is_pure || live.contains(item.changes);
            if keeps[at] {
                live = (live - item.changes) | item.uses;
            }
        }
        let mut kept = 0;
        let mut next = at_end.iter_mut().peekable();
        for (at, keep) in keeps.iter().enumerate() {
            while let Some((_, way)) = next.next_if(|(_, way)| way.operations as usize == at) {
                way.operations = kept;
            }
            kept += u32::from(*keep);
        }
        next.for_each(|(_, way)| way.operations = kept);
        let items = self.items.iter().zip(&keeps).filter(|(_, keep)| **keep);
        self.all.list = items.map(|(item, _)| item.operation).collect();
        let way =
            |steps: u32| at_end.iter().find(|(end, _)| *end == steps).map_or(Way::default(), |(_, way)| *way);
        self.all.ways = unit.exits.iter().map(|exit| way(exit.steps)).collect();
        self.all
    }
}

/// Whether there is an operation for everything that an instruction does.
fn is_short(accesses: &Accesses, replayed: &Replayed, needed: &Needed) -> bool {
    let is_plain = |access: &Access| access.how == How::Plain && !access.place.narrow;
    accesses.iter().all(is_plain)
        && replayed.sets.len() <= 1
        && replayed.backwards.is_none()
        && !needed.flags
        && !needed.times
}
