//! What an instruction does to the general registers, as far as it can be computed from what they held before.
//!
//! Who knows some registers can so know them on: a recorder which of them need not be written down, and who replays a recording what is
//! in them. Both must agree with the processor, every time: where an instruction leaves room for doubt, a register is lost.

use super::{EffectsReader, Flag, Gpr, Insn, Place, RegSet};
use iced_x86::{Code, Mnemonic, OpKind, Register};
use smallvec::SmallVec;

/// What happens to the general registers and the direction flag. What is neither set nor lost stays as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// What can be computed. All are computed before any is put in place; each register is there once.
    pub sets: SmallVec<[Set; 3]>,
    /// What is not known afterwards: registers, and perhaps the direction flag.
    pub loses: RegSet,
    /// What the direction flag is afterwards, if the instruction says so.
    pub backwards: Option<bool>,
}

/// A register and what it holds afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Set {
    /// The register.
    pub to: Gpr,
    /// Which part of it is written.
    pub part: Part,
    /// What is written.
    pub operation: Operation,
}

/// A part of a general register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Its lowest 8 bits.
    Low,
    /// The 8 bits above those (`ah`).
    High,
    /// Its lowest 16 bits.
    Word,
    /// Its lower 32 bits. Who writes them clears the others.
    Half,
    /// All of it.
    Whole,
}

/// What is computed with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Term {
    /// A part of a register, without a sign.
    Register(Gpr, Part),
    /// A number. More of its bits than count may be set.
    Constant(u64),
}

/// How a value is computed. Of the result, so many bits count as the written part has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// It is the same, or with zeros above it.
    Copy(Term),
    /// It is the same with its sign bit above it.
    SignExtend(Gpr, Part),
    /// It is a sum.
    Sum(Place),
    /// It is computed from one.
    Unary(Unary, Term),
    /// It is computed from two.
    Binary(Binary, Term, Term),
    /// It moves on by so many bytes, or back if the direction flag is set; `rcx` times if repeated.
    Advance {
        /// What moves on.
        register: Gpr,
        /// How far each time.
        step: u8,
        /// `rcx` times, not once.
        repeated: bool,
    },
}

/// What is done with one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unary {
    Not,
    Negate,
    SwapBytes,
}

/// What is done with two values. Counts of shifts are cut off as the processor does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Binary {
    Add,
    Subtract,
    And,
    /// And with the first one's complement.
    AndNot,
    Or,
    Xor,
    Multiply,
    /// The upper half of a product without signs.
    MultiplyHigh,
    /// The upper half of a product with signs.
    MultiplyHighSigned,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    RotateLeft,
    RotateRight,
}

impl Part {
    fn of(register: Register) -> Option<Self> {
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => Some(Self::High),
            _ if register.is_gpr8() => Some(Self::Low),
            _ if register.is_gpr16() => Some(Self::Word),
            _ if register.is_gpr32() => Some(Self::Half),
            _ if register.is_gpr64() => Some(Self::Whole),
            _ => None,
        }
    }

    /// How many bits it has.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Self::Low | Self::High => 8,
            Self::Word => 16,
            Self::Half => 32,
            Self::Whole => 64,
        }
    }

    /// The part of a value, without a sign.
    #[must_use]
    pub fn get(self, value: u64) -> u64 {
        match self {
            Self::Low => value & 0xff,
            Self::High => value >> 8 & 0xff,
            Self::Word => value & 0xffff,
            Self::Half => value & 0xffff_ffff,
            Self::Whole => value,
        }
    }

    /// What a register holds after `value` was written to this part of it.
    #[must_use]
    pub fn put(self, old: u64, value: u64) -> u64 {
        match self {
            Self::Low => old & !0xff | value & 0xff,
            Self::High => old & !0xff00 | (value & 0xff) << 8,
            Self::Word => old & !0xffff | value & 0xffff,
            Self::Half => value & 0xffff_ffff,
            Self::Whole => value,
        }
    }

    /// Whether the rest of the register stays as it was.
    #[must_use]
    pub fn keeps_rest(self) -> bool {
        matches!(self, Self::Low | Self::High | Self::Word)
    }
}

impl Term {
    fn needs(self) -> RegSet {
        match self {
            Self::Register(register, _) => RegSet::gpr(register),
            Self::Constant(_) => RegSet::EMPTY,
        }
    }

    fn evaluate(self, registers: &[u64; 16]) -> u64 {
        match self {
            Self::Register(register, part) => part.get(registers[register.number()]),
            Self::Constant(value) => value,
        }
    }
}

fn sign_extend(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)).cast_signed() >> (64 - bits)
}

impl Unary {
    fn evaluate(self, value: u64, bits: u32) -> u64 {
        match self {
            Self::Not => !value,
            Self::Negate => value.wrapping_neg(),
            Self::SwapBytes => value.swap_bytes() >> (64 - bits),
        }
    }
}

impl Binary {
    fn evaluate(self, left: u64, right: u64, bits: u32) -> u64 {
        // Of a shift of less than 64 bits, 5 bits of the count matter, even where that is more than there is to shift.
        let count = right as u32 & if bits == 64 { 63 } else { 31 };
        let turn = count % bits;
        match self {
            Self::Add => left.wrapping_add(right),
            Self::Subtract => left.wrapping_sub(right),
            Self::And => left & right,
            Self::AndNot => !left & right,
            Self::Or => left | right,
            Self::Xor => left ^ right,
            Self::Multiply => left.wrapping_mul(right),
            Self::MultiplyHigh => ((u128::from(left) * u128::from(right)) >> bits) as u64,
            Self::MultiplyHighSigned => {
                let product = i128::from(sign_extend(left, bits)) * i128::from(sign_extend(right, bits));
                (product >> bits) as u64
            }
            Self::ShiftLeft => left << count,
            Self::ShiftRight => left >> count,
            Self::ShiftRightSigned => (sign_extend(left, bits) >> count).cast_unsigned(),
            Self::RotateLeft if turn != 0 => left << turn | left >> (bits - turn),
            Self::RotateRight if turn != 0 => left >> turn | left << (bits - turn),
            Self::RotateLeft | Self::RotateRight => left,
        }
    }
}

impl Operation {
    fn needs(self) -> RegSet {
        match self {
            Self::Copy(term) | Self::Unary(_, term) => term.needs(),
            Self::SignExtend(register, _) => RegSet::gpr(register),
            Self::Sum(place) => place.registers(),
            Self::Binary(_, left, right) => left.needs() | right.needs(),
            Self::Advance { register, repeated, .. } => {
                let count = if repeated { RegSet::gpr(Gpr::RCX) } else { RegSet::EMPTY };
                RegSet::gpr(register) | RegSet::flag(Flag::Df) | count
            }
        }
    }

    fn evaluate(self, registers: &[u64; 16], backwards: bool, bits: u32) -> u64 {
        match self {
            Self::Copy(term) => term.evaluate(registers),
            Self::SignExtend(register, part) => {
                sign_extend(part.get(registers[register.number()]), part.bits()).cast_unsigned()
            }
            Self::Sum(place) => place.evaluate(registers),
            Self::Unary(what, term) => what.evaluate(term.evaluate(registers), bits),
            Self::Binary(what, left, right) => {
                what.evaluate(left.evaluate(registers), right.evaluate(registers), bits)
            }
            Self::Advance { register, step, repeated } => {
                let times = if repeated { registers[Gpr::RCX.number()] } else { 1 };
                let by = times.wrapping_mul(u64::from(step));
                let from = registers[register.number()];
                if backwards { from.wrapping_sub(by) } else { from.wrapping_add(by) }
            }
        }
    }
}

impl Set {
    /// The registers, and perhaps the direction flag, that must be known to compute it.
    #[must_use]
    pub fn needs(&self) -> RegSet {
        let rest = if self.part.keeps_rest() { RegSet::gpr(self.to) } else { RegSet::EMPTY };
        self.operation.needs() | rest
    }

    /// By how much the register moves on, if it is by a number that the instruction says.
    #[must_use]
    pub fn moved_by(&self) -> Option<i64> {
        let itself = Term::Register(self.to, Part::Whole);
        match self.operation {
            _ if self.part != Part::Whole => None,
            Operation::Sum(Place { base: Some(base), index: None, displacement, narrow: false }) => {
                (base == self.to).then_some(displacement)
            }
            Operation::Binary(Binary::Add, left, Term::Constant(by)) if left == itself => {
                Some(by.cast_signed())
            }
            Operation::Binary(Binary::Subtract, left, Term::Constant(by)) if left == itself => {
                Some(by.cast_signed().wrapping_neg())
            }
            _ => None,
        }
    }

    /// What the whole register holds afterwards, from what there was before.
    #[must_use]
    pub fn evaluate(&self, registers: &[u64; 16], backwards: bool) -> u64 {
        let value = self.operation.evaluate(registers, backwards, self.part.bits());
        self.part.put(registers[self.to.number()], value)
    }
}

impl EffectsReader {
    /// What `insn` does to the general registers and the direction flag.
    ///
    /// System calls that return with other registers than they were made with (`rt_sigreturn`, `execve`, `clone` in the child) are not
    /// foreseen, nor are signals.
    pub fn replayed(&mut self, insn: &Insn) -> Replayed {
        let followed = RegSet::GPRS | RegSet::flag(Flag::Df);
        let mut all = Replayed { loses: self.effects(insn).writes & followed, ..Replayed::default() };
        match insn.raw.mnemonic() {
            Mnemonic::Cld => all.backwards = Some(false),
            Mnemonic::Std => all.backwards = Some(true),
            // The kernel gives the flags back as they were.
            Mnemonic::Syscall => all.loses = all.loses - RegSet::flag(Flag::Df),
            // Who knows what their handlers do.
            Mnemonic::Int | Mnemonic::Int1 | Mnemonic::Int3 | Mnemonic::Sysenter => all.loses |= followed,
            // Nor what a hypervisor answers.
            Mnemonic::Vmcall | Mnemonic::Vmmcall | Mnemonic::Vmgexit => all.loses |= followed,
            // What stays of a transaction that was given up.
            Mnemonic::Xbegin => all.loses |= RegSet::gpr(Gpr::RAX),
            // With a prefix that chooses `r8`, some processors exchange it with `rax` and do not pause.
            Mnemonic::Pause if insn.len() > 2 => all.loses |= RegSet::gpr(Gpr::RAX) | RegSet::gpr(Gpr::R8),
            _ => {}
        }
        if all.backwards.is_some() {
            all.loses = all.loses - RegSet::flag(Flag::Df);
        }
        all.sets = sets(insn).unwrap_or_default();
        let set: RegSet = all.sets.iter().map(|set| set.to).collect();
        all.loses = all.loses - set;
        all
    }
}

type Sets = SmallVec<[Set; 3]>;

fn one(to: Gpr, part: Part, operation: Operation) -> Sets {
    Sets::from_iter([Set { to, part, operation }])
}

/// What it sets, if anything can be computed.
fn sets(insn: &Insn) -> Option<Sets> {
    let raw = &insn.raw;
    if raw.is_string_instruction() {
        return strings(insn);
    }
    let stack = |change: i64| one(Gpr::RSP, Part::Whole, Operation::Sum(Place::beside(Gpr::RSP, change)));
    let change = i64::from(raw.stack_pointer_increment());
    match raw.mnemonic() {
        Mnemonic::Pop if destination(insn, 0).is_some_and(|(to, _)| to == Gpr::RSP) => None,
        Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Pop | Mnemonic::Popfq => Some(stack(change)),
        Mnemonic::Call if raw.is_call_near() || raw.is_call_near_indirect() => {
            (change == -8).then(|| stack(change))
        }
        Mnemonic::Ret => matches!(raw.code(), Code::Retnq | Code::Retnq_imm16).then(|| stack(change)),
        Mnemonic::Leave => (raw.code() == Code::Leaveq)
            .then(|| one(Gpr::RSP, Part::Whole, Operation::Sum(Place::beside(Gpr::RBP, 8)))),
        Mnemonic::Enter if raw.code() == Code::Enterq_imm16_imm8 => {
            let mut both = stack(change);
            let frame = Operation::Sum(Place::beside(Gpr::RSP, -8));
            both.push(Set { to: Gpr::RBP, part: Part::Whole, operation: frame });
            Some(both)
        }
        Mnemonic::Loop | Mnemonic::Loope | Mnemonic::Loopne => {
            let part = match raw.code() {
                Code::Loop_rel8_64_RCX | Code::Loope_rel8_64_RCX | Code::Loopne_rel8_64_RCX => Part::Whole,
                _ => Part::Half,
            };
            let operation =
                Operation::Binary(Binary::Subtract, Term::Register(Gpr::RCX, part), Term::Constant(1));
            Some(one(Gpr::RCX, part, operation))
        }
        Mnemonic::Cbw => Some(one(Gpr::RAX, Part::Word, Operation::SignExtend(Gpr::RAX, Part::Low))),
        Mnemonic::Cwde => Some(one(Gpr::RAX, Part::Half, Operation::SignExtend(Gpr::RAX, Part::Word))),
        Mnemonic::Cdqe => Some(one(Gpr::RAX, Part::Whole, Operation::SignExtend(Gpr::RAX, Part::Half))),
        Mnemonic::Cwd => Some(signs(Part::Word)),
        Mnemonic::Cdq => Some(signs(Part::Half)),
        Mnemonic::Cqo => Some(signs(Part::Whole)),
        Mnemonic::Mul | Mnemonic::Imul if raw.op_count() == 1 => products(insn),
        Mnemonic::Mulx => {
            let (high, part) = destination(insn, 0)?;
            let (low, _) = destination(insn, 1)?;
            let (left, right) = (Term::Register(Gpr::RDX, part), term(insn, 2)?);
            let mut all = one(high, part, Operation::Binary(Binary::MultiplyHigh, left, right));
            if low != high {
                let operation = Operation::Binary(Binary::Multiply, left, right);
                all.push(Set { to: low, part, operation });
            }
            Some(all)
        }
        Mnemonic::Xchg | Mnemonic::Xadd => {
            let ((first, part), (second, second_part)) = (destination(insn, 0)?, destination(insn, 1)?);
            let (left, right) = (Term::Register(first, part), Term::Register(second, second_part));
            let result = match raw.mnemonic() {
                Mnemonic::Xadd => Operation::Binary(Binary::Add, left, right),
                _ => Operation::Copy(right),
            };
            // Two parts of one register, or twice the same.
            if first == second {
                return None;
            }
            let mut both = one(first, part, result);
            both.push(Set { to: second, part: second_part, operation: Operation::Copy(left) });
            Some(both)
        }
        _ => {
            let (to, part) = destination(insn, 0)?;
            Some(one(to, part, result(insn, part)?))
        }
    }
}

/// What the first operand of an ordinary instruction becomes, which is this part of a register.
fn result(insn: &Insn, part: Part) -> Option<Operation> {
    let raw = &insn.raw;
    let binary = |what, left, right| Some(Operation::Binary(what, term(insn, left)?, term(insn, right)?));
    let with = |what, constant| Some(Operation::Binary(what, term(insn, 0)?, Term::Constant(constant)));
    let unary = |what| Some(Operation::Unary(what, term(insn, 0)?));
    let itself = raw.op1_kind() == OpKind::Register && raw.op0_register() == raw.op1_register();
    let bit = || match term(insn, 1)? {
        Term::Constant(number) => Some(1 << (number & u64::from(part.bits() - 1))),
        Term::Register(..) => None,
    };
    match raw.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx => Some(Operation::Copy(term(insn, 1)?)),
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            let (from, part) = destination(insn, 1)?;
            Some(Operation::SignExtend(from, part))
        }
        Mnemonic::Lea => Place::of_operand(insn).map(Operation::Sum),
        Mnemonic::Xor | Mnemonic::Sub if itself => Some(Operation::Copy(Term::Constant(0))),
        Mnemonic::Add => binary(Binary::Add, 0, 1),
        Mnemonic::Sub => binary(Binary::Subtract, 0, 1),
        Mnemonic::And => binary(Binary::And, 0, 1),
        Mnemonic::Or => binary(Binary::Or, 0, 1),
        Mnemonic::Xor => binary(Binary::Xor, 0, 1),
        Mnemonic::Inc => with(Binary::Add, 1),
        Mnemonic::Dec => with(Binary::Subtract, 1),
        Mnemonic::Not => unary(Unary::Not),
        Mnemonic::Neg => unary(Unary::Negate),
        // Of 16 bits, it does something that no manual says.
        Mnemonic::Bswap if part != Part::Word => unary(Unary::SwapBytes),
        Mnemonic::Imul if raw.op_count() == 2 => binary(Binary::Multiply, 0, 1),
        Mnemonic::Imul => binary(Binary::Multiply, 1, 2),
        Mnemonic::Shl | Mnemonic::Sal => binary(Binary::ShiftLeft, 0, 1),
        Mnemonic::Shr => binary(Binary::ShiftRight, 0, 1),
        Mnemonic::Sar => binary(Binary::ShiftRightSigned, 0, 1),
        Mnemonic::Rol => binary(Binary::RotateLeft, 0, 1),
        Mnemonic::Ror => binary(Binary::RotateRight, 0, 1),
        Mnemonic::Shlx => binary(Binary::ShiftLeft, 1, 2),
        Mnemonic::Shrx => binary(Binary::ShiftRight, 1, 2),
        Mnemonic::Sarx => binary(Binary::ShiftRightSigned, 1, 2),
        Mnemonic::Rorx => binary(Binary::RotateRight, 1, 2),
        Mnemonic::Andn => binary(Binary::AndNot, 1, 2),
        Mnemonic::Bts => with(Binary::Or, bit()?),
        Mnemonic::Btr => with(Binary::And, !bit()?),
        Mnemonic::Btc => with(Binary::Xor, bit()?),
        _ => None,
    }
}

/// The signs of the accumulator, in the data register.
fn signs(part: Part) -> Sets {
    let last = Term::Constant(u64::from(part.bits() - 1));
    let operation = Operation::Binary(Binary::ShiftRightSigned, Term::Register(Gpr::RAX, part), last);
    one(Gpr::RDX, part, operation)
}

/// A product of twice the size.
fn products(insn: &Insn) -> Option<Sets> {
    let signed = insn.raw.mnemonic() == Mnemonic::Imul;
    let right = term(insn, 0)?;
    let part = match right {
        Term::Register(_, part) => part,
        Term::Constant(_) => return None,
    };
    let product = |part| Operation::Binary(Binary::Multiply, Term::Register(Gpr::RAX, part), right);
    match (part, signed) {
        (Part::Low | Part::High, true) => None,
        (Part::Low | Part::High, false) => Some(one(Gpr::RAX, Part::Word, product(Part::Low))),
        _ => {
            let high = if signed { Binary::MultiplyHighSigned } else { Binary::MultiplyHigh };
            let mut both = one(Gpr::RAX, part, product(part));
            let operation = Operation::Binary(high, Term::Register(Gpr::RAX, part), right);
            both.push(Set { to: Gpr::RDX, part, operation });
            Some(both)
        }
    }
}

fn strings(insn: &Insn) -> Option<Sets> {
    use Mnemonic::{Insb, Insd, Insw, Outsb, Outsd, Outsw};
    let raw = &insn.raw;
    let repeated = insn.repeats();
    let uses = |kind| (0..raw.op_count()).any(|i| raw.op_kind(i) == kind);
    // Addresses of 32 bits: what happens to the upper halves, and when, is not for sure.
    let narrow = uses(OpKind::MemorySegESI) || uses(OpKind::MemoryESEDI);
    let ports = matches!(raw.mnemonic(), Insb | Insw | Insd | Outsb | Outsw | Outsd);
    if narrow || ports || (repeated && insn.compares_strings()) {
        return None;
    }
    let step = raw.memory_size().size() as u8;
    let mut all = Sets::new();
    for (kind, register) in [(OpKind::MemorySegRSI, Gpr::RSI), (OpKind::MemoryESRDI, Gpr::RDI)] {
        if uses(kind) {
            let operation = Operation::Advance { register, step, repeated };
            all.push(Set { to: register, part: Part::Whole, operation });
        }
    }
    if repeated {
        let operation = Operation::Copy(Term::Constant(0));
        all.push(Set { to: Gpr::RCX, part: Part::Whole, operation });
    }
    Some(all)
}

/// An operand that is a register.
fn destination(insn: &Insn, operand: u32) -> Option<(Gpr, Part)> {
    let raw = &insn.raw;
    if operand >= raw.op_count() || raw.op_kind(operand) != OpKind::Register {
        return None;
    }
    let register = raw.op_register(operand);
    Some((Gpr::holding(register)?, Part::of(register)?))
}

/// An operand that is a register or a number.
fn term(insn: &Insn, operand: u32) -> Option<Term> {
    match insn.raw.op_kind(operand) {
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate64
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Some(Term::Constant(insn.raw.immediate(operand))),
        _ => destination(insn, operand).map(|(register, part)| Term::Register(register, part)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;

    fn replayed(bytes: &[u8]) -> Replayed {
        EffectsReader::new().replayed(&Insn::decode(bytes, LinkAddr(0x1000)).expect("valid"))
    }

    /// What registers hold after an instruction, if they held these; nothing for those that are lost.
    fn after<const N: usize>(bytes: &[u8], before: [(Gpr, u64); N], backwards: bool) -> [Option<u64>; N] {
        let mut registers = [0; 16];
        before.iter().for_each(|(register, value)| registers[register.number()] = *value);
        let replayed = replayed(bytes);
        before.map(|(register, old)| match replayed.sets.iter().find(|set| set.to == register) {
            Some(set) => Some(set.evaluate(&registers, backwards)),
            None => (!replayed.loses.contains(RegSet::gpr(register))).then_some(old),
        })
    }

    #[test]
    fn arithmetic() {
        let rax = |bytes: &[u8], value| after(bytes, [(Gpr::RAX, value)], false)[0];
        assert_eq!(rax(&[0x48, 0x83, 0xc0, 0xff], 5), Some(4), "add rax, -1");
        assert_eq!(rax(&[0x83, 0xc0, 0xff], 0x1_0000_0000), Some(0xffff_ffff), "add eax, -1");
        assert_eq!(rax(&[0x66, 0xff, 0xc0], 0x1_ffff), Some(0x1_0000), "inc ax");
        assert_eq!(rax(&[0xb4, 7], 0x1234), Some(0x0734), "mov ah, 7");
        assert_eq!(rax(&[0x0f, 0xb6, 0xc4], 0x1234), Some(0x12), "movzx eax, ah");
        assert_eq!(rax(&[0x48, 0x98], 0x8000_0000), Some(0xffff_ffff_8000_0000), "cdqe");
        assert_eq!(rax(&[0x31, 0xc0], 77), Some(0), "xor eax, eax");
        assert_eq!(rax(&[0xc1, 0xf8, 4], 0x8000_0000), Some(0xf800_0000), "sar eax, 4");
        assert_eq!(rax(&[0x66, 0xc1, 0xe8, 20], 0xffff), Some(0), "shr ax, 20");
        assert_eq!(rax(&[0xc0, 0xc0, 12], 0x12), Some(0x21), "rol al, 12");
        assert_eq!(rax(&[0x48, 0x0f, 0xc8], 1), Some(1 << 56), "bswap rax");
        assert_eq!(rax(&[0x0f, 0xba, 0xe8, 35], 0), Some(8), "bts eax, 35");
        assert_eq!(rax(&[0x0f, 0x94, 0xc0], 5), None, "sete al");
        assert_eq!(rax(&[0x48, 0x0f, 0x44, 0xc1], 5), None, "cmove rax, rcx");
        assert_eq!(rax(&[0x48, 0x8b, 0x00], 5), None, "mov rax, [rax]");
        assert_eq!(rax(&[0x48, 0x83, 0xd0, 1], 5), None, "adc rax, 1");
    }

    #[test]
    fn two_at_once() {
        let both = |bytes: &[u8], rax, rdx| after(bytes, [(Gpr::RAX, rax), (Gpr::RDX, rdx)], false);
        assert_eq!(both(&[0x48, 0x92], 1, 2), [Some(2), Some(1)], "xchg rax, rdx");
        assert_eq!(both(&[0x48, 0xf7, 0xe2], 1 << 63, 6), [Some(0), Some(3)], "mul rdx");
        assert_eq!(both(&[0xf7, 0xea], 0xffff_ffff, 2), [Some(0xffff_fffe), Some(0xffff_ffff)], "imul edx");
        assert_eq!(both(&[0x99], 1 << 31, 9), [Some(1 << 31), Some(0xffff_ffff)], "cdq");
        assert_eq!(both(&[0x86, 0xe0], 1, 2), [None, Some(2)], "xchg al, ah");
    }

    #[test]
    fn the_stack() {
        let stack = |bytes: &[u8]| after(bytes, [(Gpr::RSP, 1000), (Gpr::RBP, 2000)], false);
        assert_eq!(stack(&[0x55]), [Some(992), Some(2000)], "push rbp");
        assert_eq!(stack(&[0x5d]), [Some(1008), None], "pop rbp");
        assert_eq!(stack(&[0x5c]), [None, Some(2000)], "pop rsp");
        assert_eq!(stack(&[0xe8, 0, 0, 0, 0]), [Some(992), Some(2000)], "call");
        assert_eq!(stack(&[0xc2, 16, 0]), [Some(1024), Some(2000)], "ret 16");
        assert_eq!(stack(&[0xc9]), [Some(2008), None], "leave");
        assert_eq!(stack(&[0xc8, 32, 0, 2]), [Some(1000 - 8 - 16 - 32), Some(992)], "enter 32, 2");
    }

    #[test]
    fn strings() {
        let before = [(Gpr::RSI, 1000), (Gpr::RDI, 2000), (Gpr::RCX, 3)];
        let copy = [0xf3, 0x48, 0xa5]; // rep movsq
        assert_eq!(after(&copy, before, false), [Some(1024), Some(2024), Some(0)]);
        assert_eq!(after(&copy, before, true), [Some(976), Some(1976), Some(0)]);
        assert!(replayed(&copy).sets[0].needs().contains(RegSet::gpr(Gpr::RCX) | RegSet::flag(Flag::Df)));
        assert_eq!(after(&[0xaa], before, false), [Some(1000), Some(2001), Some(3)], "stosb");
        assert_eq!(after(&[0xf3, 0xa6], before, false), [None, None, None], "repe cmpsb");
    }

    #[test]
    fn what_others_decide_is_lost() {
        let lost = |bytes: &[u8]| replayed(bytes).loses;
        let of = |registers: &[Gpr]| registers.iter().copied().collect::<RegSet>();
        assert_eq!(lost(&[0x0f, 0x05]), of(&[Gpr::RAX, Gpr::RCX, Gpr::R11]), "syscall");
        assert_eq!(lost(&[0x0f, 0xa2]), of(&[Gpr::RAX, Gpr::RBX, Gpr::RCX, Gpr::RDX]), "cpuid");
        assert!(lost(&[0xcd, 0x80]).contains(RegSet::GPRS), "int 0x80");
        assert_eq!(lost(&[0x9d]), RegSet::flag(Flag::Df), "popfq");
        assert_eq!(replayed(&[0xfd]).backwards, Some(true), "std");
        assert_eq!(lost(&[0xfd]), RegSet::EMPTY);
    }
}
