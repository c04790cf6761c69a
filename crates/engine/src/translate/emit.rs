//! Machine code, byte by byte.
//!
//! What the engine adds to a program's code reaches its own memory through `gs` and touches neither flags nor the
//! stack, unless it says so.

use crate::message::fatal;
use alloc::vec::Vec;
use relive_code::isa::{Gpr, Wide};

/// Code that will lie at a known address.
pub struct Buffer {
    /// Where the first byte will lie.
    pub at: u64,
    /// The bytes so far.
    pub bytes: Vec<u8>,
}

/// Four bytes that can be written at once while other threads execute them lie within a block of this size.
const PATCH_BLOCK: u64 = 16;

impl Buffer {
    /// Nothing yet.
    pub fn new(at: u64) -> Self {
        Self { at, bytes: Vec::with_capacity(512) }
    }

    /// The address of the next byte.
    pub fn here(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// How much there is.
    pub fn size(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// An instruction: so many of the bytes. Copied as a whole, which is faster than a few of them.
    #[inline(always)]
    pub fn insn(&mut self, bytes: &[u8; 16], len: usize) {
        let end = self.bytes.len() + len;
        self.bytes.extend_from_slice(bytes);
        self.bytes.truncate(end);
    }

    /// Bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    /// The distance to an address, in the last four bytes of an instruction that ends `behind` bytes later.
    pub fn distance(&mut self, to: u64, behind: u64) {
        let from = self.here() + 4 + behind;
        self.u32(near(from, to));
    }

    /// Fills up so that the four bytes that come `before` bytes from here can be patched.
    pub fn align_patch(&mut self, before: u64) {
        let offset = (self.here() + before) % PATCH_BLOCK;
        if offset > PATCH_BLOCK - 4 {
            const NOPS: [&[u8]; 4] = [&[], &[0x90], &[0x66, 0x90], &[0x0f, 0x1f, 0x00]];
            self.raw(NOPS[(PATCH_BLOCK - offset) as usize]);
        }
    }

    /// A jump whose target can be changed later; says where the distance is.
    pub fn jump(&mut self, to: u64) -> u64 {
        self.align_patch(1);
        self.raw(&[0xe9]);
        let field = self.here();
        self.distance(to, 0);
        field
    }

    /// The same with a call. Nothing may be filled in behind it.
    pub fn call(&mut self, to: u64) -> u64 {
        self.align_patch(1);
        self.raw(&[0xe8]);
        let field = self.here();
        self.distance(to, 0);
        field
    }

    /// The same on a condition, numbered as in opcodes.
    pub fn branch(&mut self, condition: u8, to: u64) -> u64 {
        self.align_patch(2);
        self.raw(&[0x0f, 0x80 | condition]);
        let field = self.here();
        self.distance(to, 0);
        field
    }

    /// `op r64, gs:[offset]` or the other way round.
    fn gs(&mut self, opcode: u8, register: Gpr, offset: u32) {
        let number = register.number() as u8;
        self.raw(&[0x65, 0x48 | (number >> 3) << 2, opcode, (number & 7) << 3 | 4, 0x25]);
        self.u32(offset);
    }

    /// Loads a register from the thread's memory.
    pub fn load(&mut self, register: Gpr, offset: u32) {
        self.gs(0x8b, register, offset);
    }

    /// Loads a register from the thread's memory, or only 32 bits of it; the rest becomes zero.
    pub fn load_part(&mut self, register: Gpr, offset: u32, wide: bool) {
        if wide {
            return self.load(register, offset);
        }
        let number = register.number() as u8;
        self.raw(&[0x65, 0x40 | (number >> 3) << 2, 0x8b, (number & 7) << 3 | 4, 0x25]);
        self.u32(offset);
    }

    /// Stores the lower half of a register to the thread's memory.
    pub fn store_half(&mut self, offset: u32, register: Gpr) {
        let number = register.number() as u8;
        self.raw(&[0x65, 0x40 | (number >> 3) << 2, 0x89, (number & 7) << 3 | 4, 0x25]);
        self.u32(offset);
    }

    /// Stores a register to the thread's memory.
    pub fn store(&mut self, offset: u32, register: Gpr) {
        self.gs(0x89, register, offset);
    }

    /// Stores a number to the thread's memory, as 32 bits.
    pub fn store_number(&mut self, offset: u32, number: u32) {
        self.raw(&[0x65, 0xc7, 0x04, 0x25]);
        self.u32(offset);
        self.u32(number);
    }

    /// Jumps to where a word of the thread's memory says.
    pub fn jump_through(&mut self, offset: u32) {
        self.raw(&[0x65, 0xff, 0x24, 0x25]);
        self.u32(offset);
    }

    /// `push gs:[rcx*8 + offset]`
    pub fn push_from_table(&mut self, offset: u32) {
        self.raw(&[0x65, 0xff, 0x34, 0xcd]);
        self.u32(offset);
    }

    /// `jmp gs:[rcx*8 + offset]`
    pub fn jump_from_table(&mut self, offset: u32) {
        self.raw(&[0x65, 0xff, 0x24, 0xcd]);
        self.u32(offset);
    }

    /// Adds one to a word of the thread's memory. Changes all arithmetic flags but carry.
    pub fn increment(&mut self, offset: u32) {
        self.raw(&[0x65, 0x48, 0xff, 0x04, 0x25]);
        self.u32(offset);
    }

    /// The same through a register, without flags. Neither `rsp` nor `r12` will do.
    pub fn increment_through(&mut self, register: Gpr, offset: u32) {
        self.load(register, offset);
        let number = register.number() as u8;
        self.raw(&[0x48 | number >> 3 | (number >> 3) << 2, 0x8d, 0x40 | (number & 7) << 3 | number & 7, 1]);
        self.store(offset, register);
    }

    /// `mov to, from`
    pub fn copy(&mut self, to: Gpr, from: Gpr) {
        let (to, from) = (to.number() as u8, from.number() as u8);
        self.raw(&[0x48 | (from >> 3) << 2 | to >> 3, 0x89, 0xc0 | (from & 7) << 3 | to & 7]);
    }

    /// `[base + distance]` as an operand, the other being `register`.
    fn operand(&mut self, register: u8, base: Gpr, distance: u32) {
        let base = base.number() as u8 & 7;
        let is_short = distance < 0x80;
        self.raw(&[if is_short { 0x40 } else { 0x80 } | (register & 7) << 3 | base]);
        if base == 4 {
            self.raw(&[0x24]);
        }
        if is_short { self.raw(&[distance as u8]) } else { self.u32(distance) }
    }

    /// The same with four bytes for the distance.
    fn far_operand(&mut self, register: u8, base: Gpr, distance: u32) {
        let base = base.number() as u8 & 7;
        self.raw(&[0x80 | (register & 7) << 3 | base]);
        if base == 4 {
            self.raw(&[0x24]);
        }
        self.u32(distance);
    }

    /// `mov dword [base + distance], number`
    pub fn store_at(&mut self, base: Gpr, distance: u32, number: u32) {
        self.raw(&[0x40 | base.number() as u8 >> 3, 0xc7]);
        self.operand(0, base, distance);
        self.u32(number);
    }

    /// `mov [base + distance], register`
    pub fn store_register_at(&mut self, base: Gpr, distance: u32, register: Gpr) {
        let number = register.number() as u8;
        self.raw(&[0x48 | (number >> 3) << 2 | base.number() as u8 >> 3, 0x89]);
        self.operand(number, base, distance);
    }

    /// `mov [base + distance], register`, of its lower half.
    pub fn store_half_at(&mut self, base: Gpr, distance: u32, register: Gpr) {
        let number = register.number() as u8;
        self.raw(&[0x40 | (number >> 3) << 2 | base.number() as u8 >> 3, 0x89]);
        self.operand(number, base, distance);
    }

    /// Stores words of a register that is not a general one. Changes nothing else, not even what is in upper halves.
    pub fn store_wide_at(&mut self, base: Gpr, distance: u32, wide: Wide) {
        let number = match wide {
            Wide::Vector { number, .. } | Wide::Mask { number, .. } | Wide::Mmx(number) => number,
        };
        // Where prefixes have bits of registers, these mean zero.
        let (register, low_base) = (!number >> 3 & 1, !(base.number() as u8) >> 3 & 1);
        let vex = register << 7 | 1 << 6 | low_base << 5 | 1;
        match wide {
            // movq
            Wide::Mmx(_) => self.raw(&[0x40 | base.number() as u8 >> 3, 0x0f, 0x7f]),
            // movdqu
            Wide::Vector { words: 2, .. } => {
                self.raw(&[0xf3, 0x40 | (number >> 3) << 2 | base.number() as u8 >> 3, 0x0f, 0x7f]);
            }
            // vmovdqu of a ymm register
            Wide::Vector { words: 4, .. } => self.raw(&[0xc4, vex, 0x7e, 0x7f]),
            // vmovdqu64 of a zmm register, with its whole distance, as shorter ones are counted in vectors
            Wide::Vector { .. } => {
                let fifth = !number >> 4 & 1;
                self.raw(&[0x62, vex | fifth << 4, 0xfe, 0x48, 0x7f]);
                return self.far_operand(number, base, distance);
            }
            // kmovw writes two bytes, as kmovq is not everywhere. That there is room for the others has to be noticed too.
            Wide::Mask { bits: ..=16, .. } => {
                self.store_at(base, distance + 4, 0);
                self.raw(&[0xc4, vex, 0x78, 0x91]);
            }
            Wide::Mask { .. } => self.raw(&[0xc4, vex, 0xf8, 0x91]),
        }
        self.operand(number, base, distance);
    }

    /// `lea to, [from + distance]`
    pub fn advance(&mut self, to: Gpr, from: Gpr, distance: u32) {
        let number = to.number() as u8;
        self.raw(&[0x48 | (number >> 3) << 2 | from.number() as u8 >> 3, 0x8d]);
        self.operand(number, from, distance);
    }

    /// Loads an address: `lea register, [rip + …]`, or the whole of it if it is far away.
    pub fn address(&mut self, register: Gpr, of: u64) {
        let number = register.number() as u8;
        if !reaches(self.here(), of) {
            self.raw(&[0x48 | number >> 3, 0xb8 | number & 7]);
            self.raw(&of.to_le_bytes());
            return;
        }
        self.raw(&[0x48 | (number >> 3) << 2, 0x8d, (number & 7) << 3 | 5]);
        self.distance(of, 0);
    }
}

/// The distance between two addresses, which must be less than 2 GiB.
pub fn near(from: u64, to: u64) -> u32 {
    let distance = to.wrapping_sub(from) as i64;
    if i32::try_from(distance).is_err() {
        fatal(format_args!("{to:#x} is out of reach of code at {from:#x}"));
    }
    distance as u32
}

/// Whether a distance fits into four bytes, with room for what lies around both ends.
pub fn reaches(from: u64, to: u64) -> bool {
    (to.wrapping_sub(from) as i64).unsigned_abs() < (1 << 31) - (1 << 20)
}
