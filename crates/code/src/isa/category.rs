//! What sort of instruction it is, for those who count them.

use super::{Flow, Insn};
use alloc::string::String;
use core::fmt;
use iced_x86::{
    ConditionCode, CpuidFeature, FormatMnemonicOptions, Formatter, IntelFormatter, Mnemonic, OpKind,
};

/// Sorts of instructions. Each instruction is of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Category {
    /// Moves between general registers, memory and numbers.
    Move,
    /// Sums, differences, addresses.
    Arithmetic,
    /// Multiplications and divisions.
    Multiply,
    /// Bits, shifts.
    Logic,
    /// Compares and tests.
    Compare,
    /// Conditional moves and the like.
    Conditional,
    /// Conditional jumps.
    Branch,
    /// Other jumps.
    Jump,
    /// Calls.
    Call,
    /// Returns.
    Return,
    /// Pushes and pops.
    Stack,
    /// Strings.
    String,
    /// Numbers with a fraction, one at a time.
    Float,
    /// Vectors.
    Vector,
    /// What nobody can come in between: `lock`, `xchg` with memory.
    Locked,
    /// Fences, hints, calls of the kernel, what asks the processor.
    System,
    /// What does nothing.
    Nothing,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Move,
        Self::Arithmetic,
        Self::Multiply,
        Self::Logic,
        Self::Compare,
        Self::Conditional,
        Self::Branch,
        Self::Jump,
        Self::Call,
        Self::Return,
        Self::Stack,
        Self::String,
        Self::Float,
        Self::Vector,
        Self::Locked,
        Self::System,
        Self::Nothing,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Arithmetic => "arithmetic",
            Self::Multiply => "multiply, divide",
            Self::Logic => "logic, shift",
            Self::Compare => "compare",
            Self::Conditional => "conditional move",
            Self::Branch => "branch",
            Self::Jump => "jump",
            Self::Call => "call",
            Self::Return => "return",
            Self::Stack => "push, pop",
            Self::String => "string",
            Self::Float => "float",
            Self::Vector => "vector",
            Self::Locked => "locked",
            Self::System => "system",
            Self::Nothing => "nothing",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Insn {
    /// What sort of instruction it is.
    #[must_use]
    pub fn category(&self) -> Category {
        use Mnemonic as M;
        let raw = &self.raw;
        match self.flow() {
            Flow::Branch(_) => return Category::Branch,
            Flow::Jump(_) | Flow::IndirectJump => return Category::Jump,
            Flow::Call(_) | Flow::IndirectCall => return Category::Call,
            Flow::Return => return Category::Return,
            Flow::Stop => return Category::System,
            Flow::Next => {}
        }
        if self.is_locked() {
            return Category::Locked;
        }
        if self.is_padding() || self.is_landing_mark() {
            return Category::Nothing;
        }
        if raw.is_string_instruction() {
            return Category::String;
        }
        if self.uses_vectors() {
            return if self.is_scalar_float() { Category::Float } else { Category::Vector };
        }
        let mnemonic = raw.mnemonic();
        match mnemonic {
            M::Push | M::Pop | M::Pushfq | M::Popfq | M::Pushf | M::Popf | M::Enter | M::Leave => {
                Category::Stack
            }
            M::Mov
            | M::Movzx
            | M::Movsx
            | M::Movsxd
            | M::Movbe
            | M::Movnti
            | M::Xchg
            | M::Bswap
            | M::Xlatb => Category::Move,
            M::Add
            | M::Sub
            | M::Adc
            | M::Sbb
            | M::Adcx
            | M::Adox
            | M::Inc
            | M::Dec
            | M::Neg
            | M::Lea
            | M::Xadd
            | M::Cbw
            | M::Cwde
            | M::Cdqe
            | M::Cwd
            | M::Cdq
            | M::Cqo => Category::Arithmetic,
            M::Mul | M::Imul | M::Mulx | M::Div | M::Idiv => Category::Multiply,
            M::Cmp | M::Test | M::Bt | M::Cmpxchg | M::Cmpxchg8b | M::Cmpxchg16b => Category::Compare,
            M::And
            | M::Or
            | M::Xor
            | M::Not
            | M::Andn
            | M::Shl
            | M::Sal
            | M::Shr
            | M::Sar
            | M::Shld
            | M::Shrd
            | M::Rol
            | M::Ror
            | M::Rcl
            | M::Rcr
            | M::Shlx
            | M::Shrx
            | M::Sarx
            | M::Rorx
            | M::Bts
            | M::Btr
            | M::Btc
            | M::Bsf
            | M::Bsr
            | M::Lzcnt
            | M::Tzcnt
            | M::Popcnt
            | M::Pext
            | M::Pdep
            | M::Bextr
            | M::Bzhi
            | M::Blsi
            | M::Blsr
            | M::Blsmsk
            | M::Crc32
            | M::Stc
            | M::Clc
            | M::Cmc
            | M::Sahf
            | M::Lahf => Category::Logic,
            _ if raw.condition_code() != ConditionCode::None => Category::Conditional,
            _ if is_x87(raw) => Category::Float,
            _ => Category::System,
        }
    }

    /// Its name in assembler, without operands.
    #[must_use]
    pub fn mnemonic(&self) -> String {
        let mut out = String::new();
        IntelFormatter::new().format_mnemonic_options(
            &self.raw,
            &mut out,
            FormatMnemonicOptions::NO_PREFIXES,
        );
        out
    }

    fn uses_vectors(&self) -> bool {
        let raw = &self.raw;
        (0..raw.op_count()).any(|i| {
            raw.op_kind(i) == OpKind::Register && {
                let register = raw.op_register(i);
                register.is_vector_register() || register.is_mm() || register.is_k()
            }
        })
    }

    fn is_scalar_float(&self) -> bool {
        let name = self.mnemonic();
        ["ss", "sd", "sh", "ss2si", "sd2si"].iter().any(|end| name.ends_with(end))
    }
}

fn is_x87(raw: &iced_x86::Instruction) -> bool {
    use CpuidFeature as F;
    raw.cpuid_features().iter().any(|feature| matches!(feature, F::FPU | F::FPU287 | F::FPU387))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;

    #[test]
    fn sorts() {
        let cases: [(&[u8], Category, &str); 19] = [
            (&[0x48, 0x8b, 0x03], Category::Move, "mov"),
            (&[0x48, 0x8d, 0x03], Category::Arithmetic, "lea"),
            (&[0x48, 0x0f, 0xaf, 0xc3], Category::Multiply, "imul"),
            (&[0x48, 0xd3, 0xe8], Category::Logic, "shr"),
            (&[0x48, 0x39, 0xd8], Category::Compare, "cmp"),
            (&[0x48, 0x0f, 0x44, 0x03], Category::Conditional, "cmove"),
            (&[0x0f, 0x94, 0xc0], Category::Conditional, "sete"),
            (&[0x74, 0xfe], Category::Branch, "je"),
            (&[0xff, 0xe0], Category::Jump, "jmp"),
            (&[0xe8, 0, 0, 0, 0], Category::Call, "call"),
            (&[0xc3], Category::Return, "ret"),
            (&[0x55], Category::Stack, "push"),
            (&[0xf3, 0xa4], Category::String, "movsb"),
            (&[0xf2, 0x0f, 0x58, 0xc1], Category::Float, "addsd"),
            (&[0xd8, 0xc1], Category::Float, "fadd"),
            (&[0x66, 0x0f, 0xef, 0xc0], Category::Vector, "pxor"),
            (&[0xf0, 0x0f, 0xb1, 0x0b], Category::Locked, "cmpxchg"),
            (&[0x87, 0x03], Category::Locked, "xchg"),
            (&[0x0f, 0x05], Category::System, "syscall"),
        ];
        for (bytes, category, name) in cases {
            let insn = Insn::decode(bytes, LinkAddr(0)).expect("valid");
            assert_eq!((insn.category(), insn.mnemonic().as_str()), (category, name), "{bytes:x?}");
        }
    }
}
