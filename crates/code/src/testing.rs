//! Code for tests: a few bytes at a fixed address, written by hand or drawn at random.

use crate::addr::{AddrRange, LinkAddr};
use crate::cfg::{Cfg, Outline, recover};
use crate::source::{CodeSource, Pointer, Returns, Surroundings};
use alloc::vec::Vec;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Where the code of every test lies.
pub(crate) const BASE: LinkAddr = LinkAddr(0x1000);

/// Memory that holds one function. Everything behind it is code of others that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct FlatSource(pub(crate) Vec<u8>);

impl FlatSource {
    /// A function of somebody else.
    pub(crate) const RETURNS: LinkAddr = LinkAddr(0x8000);
    /// One that does not seem to come back.
    pub(crate) const SEEMINGLY_NO_RETURN: LinkAddr = LinkAddr(0x9000);
    /// One that never comes back.
    pub(crate) const NO_RETURN: LinkAddr = LinkAddr(0x10_0000);

    /// The bytes as one function entered at its start.
    pub(crate) fn outline(&self) -> Outline {
        Outline {
            pieces: alloc::vec![AddrRange::sized(BASE, self.0.len() as u64)],
            entries: alloc::vec![BASE],
            ..Outline::default()
        }
    }

    /// The graph of the bytes as one function entered at its start.
    pub(crate) fn cfg(&self) -> Cfg {
        recover(self, &self.outline())
    }
}

impl CodeSource for FlatSource {
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        usize::try_from(at.since(BASE)).ok().and_then(|offset| self.0.get(offset..)).unwrap_or(&[])
    }
}

impl Surroundings for FlatSource {
    fn returns(&self, callee: LinkAddr) -> Returns {
        match callee {
            Self::SEEMINGLY_NO_RETURN => Returns::SeeminglyNot,
            Self::NO_RETURN => Returns::Never,
            _ => Returns::Yes,
        }
    }

    fn returns_through(&self, _: LinkAddr) -> Returns {
        Returns::Yes
    }

    fn is_function_start(&self, at: LinkAddr) -> bool {
        at == BASE || self.bytes(at).is_empty()
    }

    fn is_code(&self, at: LinkAddr) -> bool {
        at >= BASE
    }

    fn pointer(&self, _: LinkAddr) -> Pointer {
        Pointer::None
    }

    fn is_constant(&self, _: LinkAddr) -> bool {
        true
    }

    fn next_reference(&self, _: LinkAddr) -> Option<LinkAddr> {
        None
    }

    fn stated_table_len(&self, _: LinkAddr) -> Option<u64> {
        None
    }

    fn labels(&self, _: AddrRange, _: &mut dyn FnMut(LinkAddr)) {}
}

/// Instructions that move the stack pointer and copies of it about. Few and close together, so that
/// random programs often find their own copies again, or overwrite them.
#[rustfmt::skip]
const STACK: &[&[u8]] = &[
    &[0x48, 0x89, 0xe5],                   // mov rbp, rsp
    &[0x48, 0x89, 0xec],                   // mov rsp, rbp
    &[0x48, 0x89, 0xe0],                   // mov rax, rsp
    &[0x48, 0x89, 0xc4],                   // mov rsp, rax
    &[0x31, 0xc0],                         // xor eax, eax
    &[0x48, 0x83, 0xec, 0x10],             // sub rsp, 16
    &[0x48, 0x83, 0xc4, 0x10],             // add rsp, 16
    &[0x48, 0x29, 0xc4],                   // sub rsp, rax
    &[0x48, 0x83, 0xe4, 0xf0],             // and rsp, -16
    &[0x4c, 0x8d, 0x54, 0x24, 0x08],       // lea r10, [rsp + 8]
    &[0x49, 0x8d, 0x62, 0xf8],             // lea rsp, [r10 - 8]
    &[0x48, 0x8d, 0x65, 0xf8],             // lea rsp, [rbp - 8]
    &[0x55],                               // push rbp
    &[0x5d],                               // pop rbp
    &[0x54],                               // push rsp
    &[0x5c],                               // pop rsp
    &[0x50],                               // push rax
    &[0x58],                               // pop rax
    &[0xc9],                               // leave
    &[0x48, 0x89, 0x04, 0x24],             // mov [rsp], rax
    &[0x48, 0x8b, 0x04, 0x24],             // mov rax, [rsp]
    &[0x48, 0x89, 0x45, 0xf8],             // mov [rbp - 8], rax
    &[0x48, 0x8b, 0x45, 0xf8],             // mov rax, [rbp - 8]
    &[0x48, 0x89, 0x65, 0xf0],             // mov [rbp - 16], rsp
    &[0x48, 0x8b, 0x65, 0xf0],             // mov rsp, [rbp - 16]
    &[0x89, 0x5c, 0x24, 0x04],             // mov [rsp + 4], ebx
    &[0x0f, 0x29, 0x45, 0xf0],             // movaps [rbp - 16], xmm0
    &[0x48, 0x87, 0x04, 0x24],             // xchg [rsp], rax
    &[0x4c, 0x39, 0xd4],                   // cmp rsp, r10
];

/// Some of everything else.
#[rustfmt::skip]
const OTHERS: &[&[u8]] = &[
    &[0x48, 0x89, 0xd8],                   // mov rax, rbx
    &[0x89, 0xe0],                         // mov eax, esp
    &[0xb0, 0x01],                         // mov al, 1
    &[0xb8, 1, 0, 0, 0],                   // mov eax, 1
    &[0x48, 0x01, 0xd8],                   // add rax, rbx
    &[0x48, 0x83, 0xc0, 0x10],             // add rax, 16
    &[0x48, 0x81, 0xec, 0, 1, 0, 0],       // sub rsp, 256
    &[0x48, 0x83, 0xe4, 0xe0],             // and rsp, -32
    &[0x48, 0x8d, 0x6c, 0x24, 0x10],       // lea rbp, [rsp + 16]
    &[0x48, 0x8d, 0x24, 0x04],             // lea rsp, [rsp + rax]
    &[0x41, 0x52],                         // push r10
    &[0x41, 0x5a],                         // pop r10
    &[0x66, 0x50],                         // push ax
    &[0x6a, 0x00],                         // push 0
    &[0xff, 0x75, 0xf8],                   // push qword ptr [rbp - 8]
    &[0xff, 0x34, 0x24],                   // push qword ptr [rsp]
    &[0x8f, 0x04, 0x24],                   // pop qword ptr [rsp]
    &[0x9c],                               // pushfq
    &[0x9d],                               // popfq
    &[0xc8, 0x10, 0, 0],                   // enter 16, 0
    &[0xc8, 0x08, 0, 2],                   // enter 8, 2
    &[0x48, 0x89, 0x03],                   // mov [rbx], rax
    &[0x48, 0x94],                         // xchg rax, rsp
    &[0x48, 0xff, 0xc4],                   // inc rsp
    &[0x48, 0x0f, 0x44, 0xe0],             // cmove rsp, rax
    &[0x48, 0x39, 0xdc],                   // cmp rsp, rbx
    &[0x48, 0x39, 0xc3],                   // cmp rbx, rax
    &[0x85, 0xc0],                         // test eax, eax
    &[0xd3, 0xe0],                         // shl eax, cl
    &[0x48, 0xf7, 0xf3],                   // div rbx
    &[0x0f, 0x94, 0xc0],                   // sete al
    &[0x48, 0x0f, 0x44, 0xc3],             // cmove rax, rbx
    &[0x48, 0x83, 0xd0, 0x00],             // adc rax, 0
    &[0x48, 0xff, 0xc3],                   // inc rbx
    &[0xfc],                               // cld
    &[0xfd],                               // std
    &[0xf3, 0x48, 0xab],                   // rep stosq
    &[0xf3, 0xa6],                         // repe cmpsb
    &[0x0f, 0x28, 0xc1],                   // movaps xmm0, xmm1
    &[0xc5, 0xf8, 0x28, 0xc1],             // vmovaps xmm0, xmm1
    &[0xc5, 0xf8, 0x77],                   // vzeroupper
    &[0xd9, 0xe8],                         // fld1
    &[0x0f, 0xa2],                         // cpuid
    &[0x0f, 0x05],                         // syscall
    &[0x90],                               // nop
];

/// Instructions that end the program, call, or go somewhere only the run shows.
const LEAVING: &[&[u8]] = &[
    &[0xc3],       // ret
    &[0xc2, 8, 0], // ret 8
    &[0x0f, 0x0b], // ud2
    &[0xff, 0xe0], // jmp rax
    &[0xff, 0xd0], // call rax
];

/// Opcodes that are followed by a distance: `je`, `ja` and `jne`, `jmp` and `call`.
const CONDITIONAL: &[&[u8]] = &[&[0x0f, 0x84], &[0x0f, 0x87], &[0x0f, 0x85]];
const JUMP_OR_CALL: &[&[u8]] = &[&[0xe9], &[0xe8]];

const OUTSIDE: &[LinkAddr] = &[FlatSource::RETURNS, FlatSource::SEEMINGLY_NO_RETURN, FlatSource::NO_RETURN];

/// What random programs are made of.
#[derive(Clone, Copy, Debug)]
enum Item {
    Straight(&'static [u8]),
    /// An opcode and the item it leads to, by a number made to fit.
    Inside(&'static [u8], Index),
    /// An opcode and the place it leads to.
    Outside(&'static [u8], LinkAddr),
}

/// Programs of up to 40 instructions of all kinds, in which most code is reached.
pub(crate) fn program() -> impl Strategy<Value = FlatSource> {
    program_of([STACK, OTHERS].concat(), 4)
}

/// Programs that move the stack pointer about more than anything else.
pub(crate) fn stack_program() -> impl Strategy<Value = FlatSource> {
    program_of(STACK.to_vec(), 2)
}

/// Programs of straight instructions, and so many branches for every twelve of them.
fn program_of(straight: Vec<&'static [u8]>, branches: u32) -> impl Strategy<Value = FlatSource> {
    let item = prop_oneof![
        12 => select(straight).prop_map(Item::Straight),
        1 => select(LEAVING).prop_map(Item::Straight),
        branches => (select(CONDITIONAL), any::<Index>()).prop_map(|(opcode, to)| Item::Inside(opcode, to)),
        1 => (select(JUMP_OR_CALL), any::<Index>()).prop_map(|(opcode, to)| Item::Inside(opcode, to)),
        1 => (select(JUMP_OR_CALL), select(OUTSIDE)).prop_map(|(opcode, to)| Item::Outside(opcode, to)),
    ];
    vec(item, 1..40).prop_map(|items| FlatSource(assemble(&items)))
}

fn assemble(items: &[Item]) -> Vec<u8> {
    let len = |item: &Item| match item {
        Item::Straight(bytes) => bytes.len(),
        Item::Inside(opcode, _) | Item::Outside(opcode, _) => opcode.len() + 4,
    };
    let start = |number: usize| items[..number].iter().map(len).sum::<usize>();
    let mut bytes = Vec::new();
    for item in items {
        let (opcode, to) = match *item {
            Item::Straight(plain) => {
                bytes.extend_from_slice(plain);
                continue;
            }
            Item::Inside(opcode, to) => (opcode, BASE.offset(start(to.index(items.len())) as u64)),
            Item::Outside(opcode, to) => (opcode, to),
        };
        let next = BASE.offset((bytes.len() + len(item)) as u64);
        bytes.extend_from_slice(opcode);
        bytes.extend_from_slice(&(to.since(next) as u32).to_le_bytes());
    }
    bytes
}

/// Up to 60 bytes that mean nothing.
pub(crate) fn noise() -> impl Strategy<Value = FlatSource> {
    vec(any::<u8>(), 1..60).prop_map(FlatSource)
}
