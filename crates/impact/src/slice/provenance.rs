//! Where the address in a general register comes from: the own frame, an object of the module, or nobody knows.
//!
//! An object whose address goes where it is not followed any more (to memory, to a callee, into arithmetic nobody makes
//! with addresses) escapes: from then on, pointers of unknown origin may lead to it. What has not escaped they do not.

use super::mask;
use super::objects::{Objects, Reached};
use relive_code::isa::{
    Access, AccessKind, Accesses, Binary, Effects, EffectsReader, Gpr, How, Insn, MemoryOperand, Operand,
    Operation, Part, Place, RegSet, RegisterClass, Replayed, Segment, Set, Term, Verb,
};

/// What of the own frame an address is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Frame {
    /// Nothing.
    #[default]
    Not,
    /// The place so far from where the stack pointer was at the entry.
    At(i32),
    /// Somewhere in it.
    Somewhere,
}

/// What a register may hold an address of. A number that is no address has none of these.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Origin {
    /// Anything that pointers of unknown origin may lead to.
    pub(super) anything: bool,
    pub(super) frame: Frame,
    pub(super) objects: Reached,
    /// Too many objects to tell: any.
    pub(super) all: bool,
}

/// More objects than this in one register are all.
const MOST: usize = 8;

impl Frame {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Not, frame) | (frame, Self::Not) => frame,
            (a, b) if a == b => a,
            _ => Self::Somewhere,
        }
    }

    fn moved(self, by: i64) -> Self {
        match self {
            Self::At(at) => match i64::from(at).checked_add(by).map(i32::try_from) {
                Some(Ok(at)) => Self::At(at),
                _ => Self::Somewhere,
            },
            other => other,
        }
    }

    fn anywhere(self) -> Self {
        if self == Self::Not { self } else { Self::Somewhere }
    }
}

impl Origin {
    /// A value of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self { anything: true, ..Self::default() }
    }

    fn framed(at: i32) -> Self {
        Self { frame: Frame::At(at), ..Self::default() }
    }

    fn of_objects(objects: Reached) -> Self {
        Self { objects, ..Self::default() }
    }

    /// Whether it is of the frame or an object.
    pub(super) fn is_specific(&self) -> bool {
        self.frame != Frame::Not || !self.objects.is_empty() || self.all
    }

    /// Whether it is a fixed distance from the stack pointer at the entry, and so the same in each run.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.frame, Frame::At(_)) && !self.anything && self.objects.is_empty() && !self.all
    }

    /// Adds what another value may be; whether anything is new.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let before = (self.anything, self.frame, self.objects.len(), self.all);
        self.anything |= other.anything;
        self.frame = self.frame.join(other.frame);
        self.all |= other.all;
        for object in &other.objects {
            if let Err(at) = self.objects.binary_search(object) {
                self.objects.insert(at, *object);
            }
        }
        if self.objects.len() > MOST || self.all {
            self.all = true;
            self.objects.clear();
        }
        before != (self.anything, self.frame, self.objects.len(), self.all)
    }

    /// It and another that are computed with, in any way.
    fn mixed(mut self, other: &Self) -> Self {
        self.join(other);
        self.frame = self.frame.anywhere();
        self
    }

    /// A sum of two values. Beside an address of something, a number of unknown origin is a distance: if it were one
    /// between this and something else, it would have been computed from both.
    fn plus(self, other: &Self) -> Self {
        let distance = |value: &Self| !value.is_specific();
        match (distance(&self), distance(other)) {
            (true, true) | (false, false) => self.mixed(other),
            (false, true) => Self { frame: self.frame.anywhere(), ..self },
            (true, false) => Self { frame: other.frame.anywhere(), ..other.clone() },
        }
    }

    fn moved(self, by: i64) -> Self {
        Self { frame: self.frame.moved(by), ..self }
    }
}

/// What is known of all general registers at one point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Registers([Origin; 16]);

impl Registers {
    /// At the entry of a function.
    pub(super) fn at_entry() -> Self {
        let mut registers = Self::unknown();
        registers.0[Gpr::RSP.number()] = Origin::framed(0);
        registers
    }

    /// Where control comes out of nowhere: somewhere in the frame is the stack pointer.
    pub(super) fn unknown() -> Self {
        let mut all: [Origin; 16] = std::array::from_fn(|_| Origin::unknown());
        for register in [Gpr::RSP, Gpr::RBP] {
            all[register.number()].frame = Frame::Somewhere;
        }
        all[Gpr::RSP.number()].anything = false;
        Self(all)
    }

    /// Where nothing leads to.
    pub(super) fn nowhere() -> Self {
        Self(std::array::from_fn(|_| Origin::default()))
    }

    pub(super) fn get(&self, register: Gpr) -> &Origin {
        &self.0[register.number()]
    }

    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut new = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            new |= mine.join(theirs);
        }
        new
    }

    /// A callee does what the convention lets it do.
    pub(super) fn call(&mut self) {
        for (register, origin) in self.0.iter_mut().enumerate() {
            if mask::bit(register) & (mask::KEPT | mask::RSP) == 0 {
                *origin = Origin::unknown();
            }
        }
    }
}

/// What an instruction does, with where its addresses come from.
pub(super) struct Step {
    pub(super) effects: Effects,
    /// Accesses to memory, and where they are.
    pub(super) accesses: Accesses,
    pub(super) places: smallvec::SmallVec<[Origin; 3]>,
}

/// Follows registers from instruction to instruction.
pub(super) struct Follower<'o> {
    objects: &'o Objects,
    reader: EffectsReader,
    /// What has escaped.
    pub(super) escaped: Escaped,
}

/// What pointers of unknown origin may lead to.
#[derive(Default)]
pub(super) struct Escaped {
    /// Objects, some more than once.
    pub(super) objects: Vec<u32>,
    /// All objects.
    pub(super) all: bool,
    /// The own frame.
    pub(super) frame: bool,
    /// Addresses in code that are not called or jumped to where they stand.
    pub(super) code: Vec<u64>,
}

impl Escaped {
    /// An address goes where it is not followed.
    pub(super) fn add(&mut self, origin: &Origin) {
        self.all |= origin.all;
        self.frame |= origin.frame != Frame::Not;
        self.objects.extend(&origin.objects);
    }
}

impl<'o> Follower<'o> {
    pub(super) fn new(objects: &'o Objects) -> Self {
        Self { objects, reader: EffectsReader::new(), escaped: Escaped::default() }
    }

    /// Carries what is known over an instruction that is no call of another function.
    pub(super) fn step(&mut self, registers: &mut Registers, insn: &Insn) -> Step {
        let effects = self.reader.effects(insn);
        let accesses = self.reader.accesses(insn);
        let places = accesses.iter().map(|access| self.place_of(registers, access)).collect();
        let replayed = self.reader.replayed(insn);
        self.note_code(insn);
        self.note_escapes(registers, insn, &effects, &accesses, &replayed);
        let before = registers.clone();
        for set in &replayed.sets {
            registers.0[set.to.number()] = self.value(&before, set);
        }
        for register in replayed.loses.gprs() {
            registers.0[register.number()] = Origin::unknown();
        }
        Step { effects, accesses, places }
    }

    /// Where an access is.
    fn place_of(&self, registers: &Registers, access: &Access) -> Origin {
        if access.segment != Segment::None {
            return Origin::unknown();
        }
        let mut origin = self.sum(registers, &access.place);
        if !matches!(access.how, How::Plain) {
            origin.frame = origin.frame.anywhere();
        }
        origin
    }

    fn constant(&self, value: u64) -> Origin {
        if self.objects.absolute && self.objects.holds(value) {
            return Origin::of_objects(self.objects.reached(value));
        }
        Origin::default()
    }

    fn sum(&self, registers: &Registers, place: &Place) -> Origin {
        let displacement = place.displacement.cast_unsigned();
        let own = match (place.base, place.index) {
            // Relative to the instruction, or absolute.
            (None, None) if self.objects.holds(displacement) => {
                Origin::of_objects(self.objects.reached(displacement))
            }
            (None, None) => Origin::default(),
            _ => self.constant(displacement),
        };
        let base = place.base.map(|base| registers.get(base).clone().moved(place.displacement));
        let index = place.index.map(|(index, scale)| {
            let index = registers.get(index).clone();
            // Nobody multiplies addresses; but what was computed from two may be divided before.
            if scale > 1 && !index.is_specific() { Origin::unknown() } else { index }
        });
        let sum = match (base, index) {
            (Some(base), Some(index)) => base.plus(&index),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return own,
        };
        if own.is_specific() { own.plus(&sum) } else { sum }
    }

    fn value(&self, registers: &Registers, set: &Set) -> Origin {
        let term = |term: Term| match term {
            Term::Register(register, _) => registers.get(register).clone(),
            Term::Constant(value) => self.constant(value),
        };
        let value = match set.operation {
            Operation::Copy(of) => term(of),
            Operation::SignExtend(register, _) => registers.get(register).clone(),
            Operation::Sum(place) => self.sum(registers, &place),
            Operation::Unary(_, of) => Origin::default().mixed(&term(of)),
            Operation::Binary(Binary::Add, left, Term::Constant(by)) if !self.constant(by).is_specific() => {
                term(left).moved(by.cast_signed())
            }
            Operation::Binary(Binary::Subtract, left, Term::Constant(by))
                if !self.constant(by).is_specific() =>
            {
                term(left).moved(by.cast_signed().wrapping_neg())
            }
            Operation::Binary(Binary::Add, left, right) => term(left).plus(&term(right)),
            Operation::Binary(_, left, right) => term(left).mixed(&term(right)),
            Operation::Advance { register, .. } => Origin::default().mixed(registers.get(register)),
        };
        match set.part {
            Part::Whole => value,
            // A number, unless addresses fit into half a register.
            Part::Half if !self.objects.absolute && !value.is_specific() => value,
            Part::Half => Origin { frame: value.frame.anywhere(), ..value },
            Part::Low | Part::High | Part::Word => registers.get(set.to).clone().mixed(&value),
        }
    }

    /// Addresses of code that are mentioned other than to go there.
    fn note_code(&mut self, insn: &Insn) {
        if insn.is_lea() || self.objects.absolute {
            self.escaped.code.extend(insn.address_constants(self.objects.absolute).map(|at| at.0));
        }
    }

    /// Addresses that go where they are not followed.
    fn note_escapes(
        &mut self,
        registers: &Registers,
        insn: &Insn,
        effects: &Effects,
        accesses: &[Access],
        replayed: &Replayed,
    ) {
        let stores = accesses.iter().any(|access| access.kind != AccessKind::Read);
        let elsewhere = !(effects.writes - RegSet::GPRS - RegSet::FLAGS).is_empty();
        let lost = replayed.loses.gprs().next().is_some();
        if !(stores || elsewhere || lost) {
            return;
        }
        for operand in insn.operands() {
            if let Operand::Immediate(value) = operand
                && self.objects.absolute
            {
                self.escaped.add(&self.constant(value.cast_unsigned()));
            }
        }
        for register in data_read(insn, effects, accesses).gprs() {
            self.escaped.add(registers.get(register));
        }
    }

    /// What goes to a callee, or back to the caller: whoever takes it may keep it.
    pub(super) fn hand_over(&mut self, registers: &Registers, which: mask::Mask) {
        for register in Gpr::all().filter(|&r| mask::of_gpr(r) & which != 0) {
            self.escaped.add(registers.get(register));
        }
    }
}

/// The general registers that an instruction reads other than to find memory.
fn data_read(insn: &Insn, effects: &Effects, accesses: &[Access]) -> RegSet {
    let loads = accesses.iter().any(|access| access.kind == AccessKind::Read);
    if loads && matches!(insn.verb(), Verb::Mov | Verb::Movzx | Verb::Pop) {
        return RegSet::EMPTY;
    }
    let (mut said, mut found) = (RegSet::EMPTY, RegSet::gpr(Gpr::RSP));
    for access in accesses {
        found |= access.place.registers();
    }
    for operand in insn.operands() {
        match operand {
            Operand::Register(name) if name.class == RegisterClass::General => {
                said |= Gpr::all().nth(name.number.into()).into_iter().collect();
            }
            Operand::Memory(MemoryOperand { base, index, .. }) => {
                for name in [base, index].into_iter().flatten() {
                    if name.class == RegisterClass::General {
                        found |= Gpr::all().nth(name.number.into()).into_iter().collect();
                    }
                }
            }
            _ => {}
        }
    }
    effects.reads & ((RegSet::GPRS - found) | said)
}
