//! Every access of an instruction to memory, said and implied, as far as general registers tell where it is.
//!
//! What does not look at the contents of memory is no access: `lea`, `nop`, prefetches, flushes of caches.

use super::{EffectsReader, Flag, Gpr, Insn, RegSet};
use iced_x86::{
    CodeSize, InstructionInfoOptions, MemorySize, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};
use smallvec::SmallVec;

/// The accesses of one instruction in the order in which they happen. Only `enter` with nested frames has more than three.
pub type Accesses = SmallVec<[Access; 3]>;

/// One access to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// What the place is relative to.
    pub segment: Segment,
    /// Where it is in that segment.
    pub place: Place,
    /// How many bytes; see [`How`] for which.
    pub size: u32,
    /// Whether it reads or writes.
    pub kind: AccessKind,
    /// What else has to be known.
    pub how: How,
    /// Whether nobody else can come in between (`lock`, and `xchg` with memory).
    pub is_locked: bool,
}

/// What an address is relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Nothing.
    None,
    /// The base of `fs`.
    Fs,
    /// The base of `gs`.
    Gs,
}

/// A number that is computed from registers, as the address of an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// A register.
    pub base: Option<Gpr>,
    /// Another one, times 1, 2, 4 or 8.
    pub index: Option<(Gpr, u8)>,
    /// What is added. What is relative to the program counter is an address here.
    pub displacement: i64,
    /// Only the lower 32 bits of the sum count.
    pub narrow: bool,
}

/// Whether memory is read or written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AccessKind {
    /// Read.
    Read,
    /// Read, then written at the same place. A comparison that fails counts as having written what was there.
    Update,
    /// Written.
    Write,
}

/// What has to be known of an access besides its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Nothing: it happens once.
    Plain,
    /// The lowest byte of `rax` is added to the place (`xlat`).
    Table,
    /// It concerns a bit (`bts [rax], rcx`), whose number is in so much of a register as the access is wide. Bits before the
    /// place have negative numbers.
    Bit(Gpr),
    /// A string instruction that happens `rcx` times (`ecx` if the place is narrow), each time behind the last, or before it if the
    /// direction flag is set. The size is that of one time. With two such accesses, they take turns.
    Repeated {
        /// It may end before `rcx` is zero (`repe cmps` and the like): `rcx` afterwards says how often it happened.
        compares: bool,
    },
    /// A gather or scatter: one access of this size for each lane whose mask is set, at the place plus the lane of a vector register,
    /// as a signed number, times a scale.
    Lanes {
        /// The vector register, by its number.
        vector: u8,
        /// How many bytes of it each lane has.
        width: u8,
        /// What they are multiplied by.
        scale: u8,
        /// How many lanes there are.
        count: u8,
        /// What says which of them count.
        mask: Mask,
    },
    /// Only elements whose mask is set are touched, perhaps none. The size is that of all of them.
    Masked {
        /// How many bytes each element has.
        element: u8,
        /// For how many the mask is. If there are fewer in memory, these are used again and again.
        count: u8,
        /// What says which of them count.
        mask: Mask,
    },
    /// As many elements as the mask has set, one behind the other. The size is that of all of them.
    Packed {
        /// How many bytes each element has.
        element: u8,
        /// What says how many.
        mask: Mask,
    },
    /// State of the processor (`xsave` and the like), of which `edx:eax` and the system decide what it has. The size is that of what is
    /// always there.
    State(Form),
    /// The whole line of memory that the address is in.
    Line,
    /// How much it touches is told by no register: tiles, and what only few processors ever had. The size is zero.
    Opaque,
}

/// What says which elements count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// The bits of a mask register, by its number. Number 0 means all.
    Bits(u8),
    /// The highest bit of each element of a vector register, by its number.
    Signs(u8),
    /// The same for the eight bytes of an MMX register.
    MmxSigns(u8),
}

/// How parts of the processor's state lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Each has its place.
    Standard,
    /// Those that are saved lie one behind the other.
    Compacted,
    /// The word at [`Form::WORD`] says which: its highest bit is set if they lie one behind the other, and the others say which there are.
    Said,
}

impl Form {
    /// Where the word is that says it, from the beginning of the state.
    pub const WORD: u32 = 520;
}

/// A register that is not a general one, or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wide {
    /// The lowest words of a vector register: 2, 4 or 8.
    Vector {
        /// Its number.
        number: u8,
        /// How many.
        words: u8,
    },
    /// A mask register, of which so many bits matter.
    Mask {
        /// Its number.
        number: u8,
        /// How many.
        bits: u8,
    },
    /// An MMX register.
    Mmx(u8),
}

impl Wide {
    /// So many bytes of a vector register. Of those that came last, all is taken: processors may not be able to take less.
    fn vector(number: u8, bytes: usize) -> Self {
        let words = if number < 16 { bytes.next_power_of_two().clamp(16, 64) / 8 } else { 8 };
        Self::Vector { number, words: words as u8 }
    }

    /// How many words it has.
    #[must_use]
    pub fn words(self) -> usize {
        match self {
            Self::Vector { words, .. } => words.into(),
            Self::Mask { .. } | Self::Mmx(_) => 1,
        }
    }
}

impl Mask {
    /// The register with it, for so many elements of so many bytes.
    fn register(self, count: u8, element: usize) -> Option<Wide> {
        match self {
            Self::Bits(0) => None,
            Self::Bits(number) => Some(Wide::Mask { number, bits: count }),
            Self::Signs(number) => Some(Wide::vector(number, usize::from(count) * element)),
            Self::MmxSigns(number) => Some(Wide::Mmx(number)),
        }
    }

    /// A bit for each of so many elements of so many bytes, given what is in the register.
    #[must_use]
    pub fn bits(self, words: &[u64], count: u8, element: usize) -> u64 {
        let all = u64::MAX >> (64 - u32::from(count.clamp(1, 64)));
        match self {
            Self::Bits(0) => all,
            Self::Bits(_) => words.first().map_or(0, |word| word & all),
            Self::Signs(_) | Self::MmxSigns(_) => {
                let sign = |n: usize| lane(words, n, element) >> (8 * element - 1) & 1;
                (0..usize::from(count)).fold(0, |bits, n| bits | sign(n) << n)
            }
        }
    }
}

/// A lane of a vector register, of at most eight bytes.
fn lane(words: &[u64], number: usize, width: usize) -> u64 {
    let at = number * width;
    let word = words.get(at / 8).copied().unwrap_or(0) >> (8 * (at % 8));
    word & u64::MAX >> (64 - 8 * width)
}

/// A lane of a vector register that holds signed numbers of 4 or 8 bytes.
#[must_use]
pub fn signed_lane(words: &[u64], number: u8, width: u8) -> i64 {
    let spare = 64 - 8 * u32::from(width);
    (lane(words, number.into(), width.into()) << spare).cast_signed() >> spare
}

impl Segment {
    fn of(register: Register) -> Self {
        match register {
            Register::FS => Self::Fs,
            Register::GS => Self::Gs,
            _ => Self::None,
        }
    }
}

impl Place {
    /// The operand of an instruction that has one, if general registers tell where it is.
    pub(super) fn of_operand(insn: &Insn) -> Option<Self> {
        let raw = &insn.raw;
        let (base, index) = (raw.memory_base(), raw.memory_index());
        let narrow = [base, index].iter().any(|r| r.is_gpr32() || *r == Register::EIP)
            || (base == Register::None && index == Register::None && raw.memory_displ_size() == 4);
        Some(Self {
            base: Gpr::holding(base),
            index: match index {
                Register::None => None,
                _ => Some((Gpr::holding(index)?, raw.memory_index_scale() as u8)),
            },
            displacement: raw.memory_displacement64().cast_signed(),
            narrow,
        })
    }

    /// A register and a constant.
    pub(super) fn beside(base: Gpr, displacement: i64) -> Self {
        Self { base: Some(base), index: None, displacement, narrow: false }
    }

    /// The registers it is computed from.
    #[must_use]
    pub fn registers(&self) -> RegSet {
        self.base.into_iter().chain(self.index.map(|(register, _)| register)).collect()
    }

    /// The number.
    #[must_use]
    pub fn evaluate(&self, registers: &[u64; 16]) -> u64 {
        let value = |register: Gpr| registers[register.number()];
        let index = self.index.map_or(0, |(register, scale)| value(register).wrapping_mul(u64::from(scale)));
        let sum = self.base.map_or(0, value).wrapping_add(index).wrapping_add_signed(self.displacement);
        if self.narrow { sum & 0xffff_ffff } else { sum }
    }
}

impl Access {
    /// How many bytes a line of memory has.
    const LINE: u64 = 64;

    /// What has to be known of general registers and the direction flag to tell all its addresses.
    #[must_use]
    pub fn needs(&self) -> RegSet {
        self.place.registers()
            | match self.how {
                How::Repeated { .. } => RegSet::gpr(Gpr::RCX) | RegSet::flag(Flag::Df),
                How::Table => RegSet::gpr(Gpr::RAX),
                How::Bit(register) => RegSet::gpr(register),
                How::State(_) => RegSet::gpr(Gpr::RAX) | RegSet::gpr(Gpr::RDX),
                _ => RegSet::EMPTY,
            }
    }

    /// What has to be known of other registers: of the one with indices, and of the one with a mask.
    #[must_use]
    pub fn needs_wide(&self) -> [Option<Wide>; 2] {
        match self.how {
            How::Lanes { vector, width, count, mask, .. } => {
                let index = Wide::vector(vector, usize::from(width) * usize::from(count));
                [Some(index), mask.register(count, self.size as usize)]
            }
            How::Masked { element, count, mask } => [None, mask.register(count, element.into())],
            How::Packed { element, mask } => {
                [None, mask.register((self.size / u32::from(element)) as u8, element.into())]
            }
            _ => [None; 2],
        }
    }

    /// The address, or the first of several; `segment_base` is that of the segment it names, if it names one.
    #[must_use]
    pub fn address(&self, registers: &[u64; 16], segment_base: u64) -> u64 {
        self.address_beyond(registers, segment_base, 0)
    }

    /// The address that is so many bytes further on: of another turn or lane.
    #[must_use]
    pub fn address_beyond(&self, registers: &[u64; 16], segment_base: u64, by: i64) -> u64 {
        let more = match self.how {
            How::Table => (registers[Gpr::RAX.number()] & 0xff).cast_signed(),
            How::Bit(register) => {
                let (bytes, spare) = (i64::from(self.size), 64 - 8 * self.size);
                let bit = (registers[register.number()] << spare).cast_signed() >> spare;
                bit.div_euclid(8 * bytes) * bytes
            }
            _ => by,
        };
        let place = Place { displacement: self.place.displacement.wrapping_add(more), ..self.place };
        let offset = place.evaluate(registers);
        let address = if self.segment == Segment::None { offset } else { segment_base.wrapping_add(offset) };
        if self.how == How::Line { address & !(Self::LINE - 1) } else { address }
    }
}

impl EffectsReader {
    /// Every access of `insn` to memory, in the order in which they happen: first reads, then writes.
    pub fn accesses(&mut self, insn: &Insn) -> Accesses {
        let raw = &insn.raw;
        // Nothing is read that anybody could tell.
        if matches!(
            raw.mnemonic(),
            Mnemonic::Cldemote | Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb
        ) {
            return Accesses::new();
        }
        let info = self.factory.info_options(raw, InstructionInfoOptions::NO_REGISTER_USAGE);
        let mut all: Accesses = info.used_memory().iter().filter_map(|used| access(insn, used)).collect();
        match raw.mnemonic() {
            Mnemonic::Clzero => all.push(Access {
                segment: Segment::of(raw.segment_prefix()),
                place: Place { narrow: raw.code() == iced_x86::Code::Clzerod, ..Place::beside(Gpr::RAX, 0) },
                size: Access::LINE as u32,
                kind: AccessKind::Write,
                how: How::Line,
                is_locked: false,
            }),
            // Copies one pointer to a frame after the other: the decoder says so in the right order.
            Mnemonic::Enter => {}
            Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => {
                all.sort_by_key(|access| access.place.base == Some(Gpr::RDI));
            }
            _ => all.sort_by_key(|access| access.kind),
        }
        all
    }
}

fn access(insn: &Insn, used: &UsedMemory) -> Option<Access> {
    let raw = &insn.raw;
    let kind = match used.access() {
        OpAccess::Read | OpAccess::CondRead => AccessKind::Read,
        OpAccess::Write | OpAccess::CondWrite => AccessKind::Write,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => AccessKind::Update,
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    let how = how(insn, used);
    let size = match how {
        How::Repeated { .. } => raw.memory_size().size(),
        // The old part and the header.
        How::State(_) => 512 + 64,
        _ => used.memory_size().size(),
    };
    let narrow = used.address_size() == CodeSize::Code32;
    Some(Access {
        segment: Segment::of(used.segment()),
        place: Place {
            base: Gpr::holding(used.base()),
            index: Gpr::holding(used.index()).filter(|_| how != How::Table).map(|r| (r, used.scale() as u8)),
            // The decoder cuts it off where only 32 bits count; all bits of the sum are the same to those.
            displacement: used.displacement().cast_signed(),
            narrow,
        },
        size: size as u32,
        kind,
        how,
        is_locked: insn.is_locked(),
    })
}

fn how(insn: &Insn, used: &UsedMemory) -> How {
    let raw = &insn.raw;
    let mask = if raw.has_op_mask() { Mask::Bits(raw.op_mask().number() as u8) } else { Mask::Bits(0) };
    let element = raw.memory_size().element_size() as u8;
    match raw.mnemonic() {
        Mnemonic::Xlatb => How::Table,
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
            if raw.op1_kind() == OpKind::Register =>
        {
            Gpr::holding(raw.op1_register()).map_or(How::Plain, How::Bit)
        }
        _ if raw.is_string_instruction() => match insn.repeats() {
            true => How::Repeated { compares: insn.compares_strings() },
            false => How::Plain,
        },
        Mnemonic::Xsave | Mnemonic::Xsave64 | Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64 => {
            How::State(Form::Standard)
        }
        Mnemonic::Xsavec | Mnemonic::Xsavec64 | Mnemonic::Xsaves | Mnemonic::Xsaves64 => {
            How::State(Form::Compacted)
        }
        Mnemonic::Xrstor | Mnemonic::Xrstor64 | Mnemonic::Xrstors | Mnemonic::Xrstors64 => {
            How::State(Form::Said)
        }
        _ if used.vsib_size() != 0 => lanes(insn, used),
        Mnemonic::Vmaskmovps | Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovd | Mnemonic::Vpmaskmovq => {
            masked(insn, Mask::Signs(raw.op1_register().number() as u8))
        }
        Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
            How::Masked { element: 1, count: 16, mask: Mask::Signs(raw.op2_register().number() as u8) }
        }
        Mnemonic::Maskmovq => {
            How::Masked { element: 1, count: 8, mask: Mask::MmxSigns(raw.op2_register().number() as u8) }
        }
        Mnemonic::Vcompressps
        | Mnemonic::Vcompresspd
        | Mnemonic::Vpcompressb
        | Mnemonic::Vpcompressw
        | Mnemonic::Vpcompressd
        | Mnemonic::Vpcompressq
        | Mnemonic::Vexpandps
        | Mnemonic::Vexpandpd
        | Mnemonic::Vpexpandb
        | Mnemonic::Vpexpandw
        | Mnemonic::Vpexpandd
        | Mnemonic::Vpexpandq
            if raw.has_op_mask() =>
        {
            How::Packed { element, mask }
        }
        _ if raw.has_op_mask() && !reads_all(insn) => masked(insn, mask),
        _ if used.memory_size().size() == 0 => How::Opaque,
        _ => How::Plain,
    }
}

/// An access of which a mask says which elements are touched.
fn masked(insn: &Insn, mask: Mask) -> How {
    use Mnemonic as M;
    let raw = &insn.raw;
    let memory = raw.memory_size();
    let (size, mut element) = (memory.size(), memory.element_size());
    let mut all = size;
    match raw.mnemonic() {
        _ if memory.is_broadcast() => {
            element = size;
            all = match memory {
                // In the order of the decoder, which is that of lengths.
                memory if memory >= MemorySize::Broadcast512_Int16 => 64,
                memory if memory >= MemorySize::Broadcast256_Int16 => 32,
                memory if memory >= MemorySize::Broadcast128_Int16 => 16,
                memory if memory >= MemorySize::Broadcast64_UInt32 => 8,
                _ => 4,
            };
        }
        // Elements of the result, not of what it is computed from.
        M::Vpdpbusd | M::Vpdpbusds | M::Vpdpwssd | M::Vpdpwssds => element = 4,
        M::Vpmuldq | M::Vpmuludq => element = 8,
        M::Vbroadcastss
        | M::Vbroadcastsd
        | M::Vbroadcastf32x2
        | M::Vbroadcastf32x4
        | M::Vbroadcastf32x8
        | M::Vbroadcastf64x2
        | M::Vbroadcastf64x4
        | M::Vbroadcasti32x2
        | M::Vbroadcasti32x4
        | M::Vbroadcasti32x8
        | M::Vbroadcasti64x2
        | M::Vbroadcasti64x4
        | M::Vpbroadcastb
        | M::Vpbroadcastw
        | M::Vpbroadcastd
        | M::Vpbroadcastq => all = raw.op0_register().size(),
        _ => {}
    }
    if element == 0 {
        return How::Opaque;
    }
    How::Masked { element: element as u8, count: (all / element) as u8, mask }
}

/// Whether an instruction with a mask reads all of its operand, whatever the mask says. (In the manuals: those whose exceptions are of a
/// type that ends in NF.)
fn reads_all(insn: &Insn) -> bool {
    use Mnemonic as M;
    let raw = &insn.raw;
    match raw.mnemonic() {
        // By a number in memory.
        M::Vpsllw
        | M::Vpslld
        | M::Vpsllq
        | M::Vpsrlw
        | M::Vpsrld
        | M::Vpsrlq
        | M::Vpsraw
        | M::Vpsrad
        | M::Vpsraq => raw.op2_kind() == OpKind::Memory,
        M::V4fmaddps
        | M::V4fmaddss
        | M::V4fnmaddps
        | M::V4fnmaddss
        | M::Valignd
        | M::Valignq
        | M::Vcvtne2ps2bf16
        | M::Vdbpsadbw
        | M::Vgf2p8affineinvqb
        | M::Vgf2p8affineqb
        | M::Vinsertf128
        | M::Vinsertf32x4
        | M::Vinsertf32x8
        | M::Vinsertf64x2
        | M::Vinsertf64x4
        | M::Vinserti128
        | M::Vinserti32x4
        | M::Vinserti32x8
        | M::Vinserti64x2
        | M::Vinserti64x4
        | M::Vmovddup
        | M::Vmovshdup
        | M::Vmovsldup
        | M::Vp4dpwssd
        | M::Vp4dpwssds
        | M::Vpackssdw
        | M::Vpacksswb
        | M::Vpackusdw
        | M::Vpackuswb
        | M::Vpalignr
        | M::Vpconflictd
        | M::Vpconflictq
        | M::Vpermb
        | M::Vpermd
        | M::Vpermi2b
        | M::Vpermi2d
        | M::Vpermi2pd
        | M::Vpermi2ps
        | M::Vpermi2q
        | M::Vpermi2w
        | M::Vpermilpd
        | M::Vpermilps
        | M::Vpermpd
        | M::Vpermps
        | M::Vpermq
        | M::Vpermt2b
        | M::Vpermt2d
        | M::Vpermt2pd
        | M::Vpermt2ps
        | M::Vpermt2q
        | M::Vpermt2w
        | M::Vpermw
        | M::Vpmaddubsw
        | M::Vpmaddwd
        | M::Vpmultishiftqb
        | M::Vpshufb
        | M::Vpshufd
        | M::Vpshufhw
        | M::Vpshuflw
        | M::Vpunpckhbw
        | M::Vpunpckhdq
        | M::Vpunpckhqdq
        | M::Vpunpckhwd
        | M::Vpunpcklbw
        | M::Vpunpckldq
        | M::Vpunpcklqdq
        | M::Vpunpcklwd
        | M::Vshuff32x4
        | M::Vshuff64x2
        | M::Vshufi32x4
        | M::Vshufi64x2
        | M::Vshufpd
        | M::Vshufps
        | M::Vunpckhpd
        | M::Vunpckhps
        | M::Vunpcklpd
        | M::Vunpcklps => true,
        _ => false,
    }
}

fn lanes(insn: &Insn, used: &UsedMemory) -> How {
    let raw = &insn.raw;
    let width = used.vsib_size() as usize;
    let element = used.memory_size().element_size();
    // The data is in the operand that is not memory and comes first.
    let data = if raw.op0_kind() == OpKind::Memory { raw.op1_register() } else { raw.op0_register() };
    let mask = match raw.op_mask() {
        Register::None => Mask::Signs(raw.op2_register().number() as u8),
        bits => Mask::Bits(bits.number() as u8),
    };
    How::Lanes {
        vector: used.index().number() as u8,
        width: width as u8,
        scale: used.scale() as u8,
        count: (data.size() / element).min(used.index().size() / width) as u8,
        mask,
    }
}

impl Insn {
    /// Whether nobody else can come in between when it reads memory and writes it.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        let raw = &self.raw;
        raw.has_lock_prefix() || (raw.mnemonic() == Mnemonic::Xchg && raw.op0_kind() == OpKind::Memory)
    }

    /// Whether it changes what addresses relative to `fs` or `gs` are relative to.
    #[must_use]
    pub fn changes_base(&self) -> bool {
        let is_segment = |register| matches!(register, Register::FS | Register::GS);
        match self.raw.mnemonic() {
            Mnemonic::Wrfsbase | Mnemonic::Wrgsbase | Mnemonic::Lfs | Mnemonic::Lgs => true,
            Mnemonic::Mov | Mnemonic::Pop => {
                self.raw.op0_kind() == OpKind::Register && is_segment(self.raw.op0_register())
            }
            _ => false,
        }
    }

    /// Whether it is a string instruction with a prefix that repeats it.
    pub(super) fn repeats(&self) -> bool {
        self.raw.is_string_instruction() && (self.raw.has_rep_prefix() || self.raw.has_repne_prefix())
    }

    /// Whether it is a string instruction that compares: repeated, it may end early.
    pub(super) fn compares_strings(&self) -> bool {
        use Mnemonic::{Cmpsb, Cmpsd, Cmpsq, Cmpsw, Scasb, Scasd, Scasq, Scasw};
        self.raw.is_string_instruction()
            && matches!(self.raw.mnemonic(), Cmpsb | Cmpsw | Cmpsd | Cmpsq | Scasb | Scasw | Scasd | Scasq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::LinkAddr;
    use AccessKind::{Read, Update, Write};
    use alloc::vec::Vec;

    fn accesses(bytes: &[u8]) -> Accesses {
        EffectsReader::new().accesses(&Insn::decode(bytes, LinkAddr(0x1000)).expect("valid"))
    }

    fn kinds(bytes: &[u8]) -> Vec<(AccessKind, u32)> {
        accesses(bytes).iter().map(|access| (access.kind, access.size)).collect()
    }

    /// Where the accesses are if each register holds a hundred times its number, and `fs` begins at 7000.
    fn addresses(bytes: &[u8]) -> Vec<u64> {
        let registers = core::array::from_fn(|i| 100 * i as u64);
        accesses(bytes).iter().map(|access| access.address(&registers, 7000)).collect()
    }

    #[test]
    fn what_is_said_and_what_is_implied() {
        assert_eq!(kinds(&[0x48, 0x8b, 0x03]), [(Read, 8)], "mov rax, [rbx]");
        assert_eq!(kinds(&[0x88, 0x03]), [(Write, 1)], "mov [rbx], al");
        assert_eq!(kinds(&[0xff, 0x03]), [(Update, 4)], "inc dword ptr [rbx]");
        assert_eq!(kinds(&[0x48, 0x0f, 0x44, 0x03]), [(Read, 8)], "cmove rax, [rbx]");
        assert_eq!(kinds(&[0xf0, 0x48, 0x0f, 0xc7, 0x0b]), [(Update, 16)], "lock cmpxchg16b [rbx]");
        assert_eq!(kinds(&[0xff, 0x33]), [(Read, 8), (Write, 8)], "push [rbx]");
        assert_eq!(kinds(&[0x8f, 0x03]), [(Read, 8), (Write, 8)], "pop [rbx]");
        assert_eq!(kinds(&[0xff, 0x13]), [(Read, 8), (Write, 8)], "call [rbx]");
        assert_eq!(kinds(&[0xc3]), [(Read, 8)], "ret");
        assert_eq!(kinds(&[0xa4]), [(Read, 1), (Write, 1)], "movsb");
        assert_eq!(kinds(&[0xc8, 16, 0, 2]), [(Write, 8), (Read, 8), (Write, 8), (Write, 8)], "enter 16, 2");
    }

    #[test]
    fn what_touches_nothing() {
        assert_eq!(kinds(&[0x48, 0x8d, 0x03]), [], "lea rax, [rbx]");
        assert_eq!(kinds(&[0x0f, 0x1f, 0x03]), [], "nop [rbx]");
        assert_eq!(kinds(&[0x0f, 0x18, 0x0b]), [], "prefetcht0 [rbx]");
        assert_eq!(kinds(&[0x0f, 0xae, 0x3b]), [], "clflush [rbx]");
    }

    #[test]
    fn addresses_by_registers() {
        assert_eq!(addresses(&[0x48, 0x8b, 0x44, 0x8b, 0xf8]), [300 + 400 - 8], "[rbx+rcx*4-8]");
        assert_eq!(addresses(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]), [0x1017], "relative to the instruction");
        assert_eq!(addresses(&[0x64, 0x48, 0x8b, 0x03]), [7300], "fs:[rbx]");
        assert_eq!(addresses(&[0x67, 0x8b, 0x83, 0x54, 0xfe, 0xff, 0xff]), [0xffff_ff80], "[ebx-428]");
        assert_eq!(addresses(&[0xd7]), [300], "xlat");
        assert_eq!(
            addresses(&[0x8f, 0x44, 0x24, 8]),
            [400, 416],
            "pop [rsp+8], by the stack pointer behind it"
        );
        assert_eq!(addresses(&[0xff, 0x74, 0x24, 8]), [408, 392], "push [rsp+8]");
        assert_eq!(addresses(&[0xa6]), [600, 700], "cmpsb");
        assert_eq!(addresses(&[0xa4]), [600, 700], "movsb");
        assert_eq!(addresses(&[0xc9]), [500], "leave");
    }

    #[test]
    fn bits_are_far_away() {
        let access = accesses(&[0x48, 0x0f, 0xab, 0x4c, 0x73, 2])[0]; // bts [rbx+rsi*2+2], rcx
        assert_eq!((access.kind, access.size, access.how), (Update, 8, How::Bit(Gpr::RCX)));
        let at = |bit: i64| {
            let mut registers = [0; 16];
            registers[1] = bit.cast_unsigned();
            registers[3] = 1000;
            registers[6] = 100;
            access.address(&registers, 0)
        };
        assert_eq!([at(0), at(63), at(64), at(-1), at(-64), at(-65)], [1202, 1202, 1210, 1194, 1194, 1186]);
    }

    #[test]
    fn strings_repeat() {
        let both = accesses(&[0xf3, 0x48, 0xa5]); // rep movsq
        assert!(both.iter().all(|a| a.how == How::Repeated { compares: false } && a.size == 8));
        assert!(
            both[0].needs().contains(RegSet::gpr(Gpr::RCX) | RegSet::gpr(Gpr::RSI) | RegSet::flag(Flag::Df))
        );
        assert_eq!(accesses(&[0xf2, 0xae])[0].how, How::Repeated { compares: true }, "repne scasb");
        assert_eq!(accesses(&[0xf2, 0x0f, 0x10, 0x03])[0].how, How::Plain, "movsd xmm0, [rbx] is no string");
    }

    #[test]
    fn vectors_and_masks() {
        let gather = accesses(&[0xc4, 0xe2, 0xed, 0x90, 0x04, 0x8b]); // vpgatherdq ymm0, [rbx+xmm1*4], ymm2
        let how = How::Lanes { vector: 1, width: 4, scale: 4, count: 4, mask: Mask::Signs(2) };
        assert_eq!((gather[0].kind, gather[0].size, gather[0].how), (Read, 8, how));
        assert_eq!(gather[0].place, Place::beside(Gpr::RBX, 0));
        let scatter = accesses(&[0x62, 0xf2, 0x7d, 0x49, 0xa1, 0x04, 0x8b]); // vpscatterqd [rbx+zmm1*4], k1, ymm0
        let how = How::Lanes { vector: 1, width: 8, scale: 4, count: 8, mask: Mask::Bits(1) };
        assert_eq!((scatter[0].kind, scatter[0].size, scatter[0].how), (Write, 4, how));
        let masked = accesses(&[0x62, 0xf1, 0x7c, 0x4a, 0x11, 0x03]); // vmovups [rbx]{k2}, zmm0
        assert_eq!(
            (masked[0].size, masked[0].how),
            (64, How::Masked { element: 4, count: 16, mask: Mask::Bits(2) })
        );
        let bytes = accesses(&[0x66, 0x0f, 0xf7, 0xc1]); // maskmovdqu xmm0, xmm1
        assert_eq!(bytes[0].place, Place::beside(Gpr::RDI, 0));
        assert_eq!(
            (bytes[0].size, bytes[0].how),
            (16, How::Masked { element: 1, count: 16, mask: Mask::Signs(1) })
        );
        let state = accesses(&[0x0f, 0xc7, 0x64, 0x24, 0x40]); // xsavec [rsp+0x40]
        assert_eq!(state[0].how, How::State(Form::Compacted));
    }
}
