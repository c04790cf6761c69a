//! Any bytes as a section `.annotate`, and as the program it describes.
//!
//! Pieces have checksums, so that blind changes hardly ever get past them. Hence a flag in the input that has everything sealed anew
//! when it was read: then it is as if whoever wrote the section had lied.

use crate::stopwatch::timed;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Flow, Insn};
use relive_code::source::{CodeSource, Pointer};
use relive_image::annotations::{Annotations, Memory, Piece, check, checksum, reader, writer};
use std::collections::{HashMap, HashSet};

/// Where the memory of a case lies.
pub const BASE: LinkAddr = LinkAddr(0x1000);

/// A section, and the program it describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Whether pieces get the checksums they should have.
    pub is_sealed: bool,
    /// The section.
    pub section: Vec<u8>,
    /// All memory of the program, which lies at [`BASE`] and is code.
    pub memory: Vec<u8>,
}

impl Case {
    /// The case that `bytes` stand for: a flag, the length of the section, the section, memory.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&flag, rest) = bytes.split_first()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (section, memory) = rest.split_at_checked(u16::from_le_bytes(*len).into())?;
        Some(Self { is_sealed: flag & 1 != 0, section: section.to_vec(), memory: memory.to_vec() })
    }

    /// The opposite of [`Case::decode`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let len = (self.section.len() as u16).to_le_bytes();
        [&[u8::from(self.is_sealed)], &len[..], &self.section, &self.memory].concat()
    }

    /// What is believed of it.
    #[must_use]
    pub fn believed(&self) -> Annotations {
        let world = World { memory: &self.memory };
        let mut found = reader::read(&self.section, &[world.range()]);
        for fault in &found.faults {
            assert!(!fault.to_string().is_empty());
        }
        if self.is_sealed {
            checksum::seal(&mut found.annotations.pieces, &world);
        }
        let before = found.annotations.pieces.len();
        let (believed, refused) = check::sift(found.annotations, &world);
        for refused in &refused {
            assert!(!refused.why.to_string().is_empty());
        }
        assert_eq!(believed.pieces.len() + refused.len(), before, "every piece is believed or not");
        believed
    }
}

struct World<'a> {
    memory: &'a [u8],
}

impl World<'_> {
    fn range(&self) -> AddrRange {
        AddrRange::sized(BASE, self.memory.len() as u64)
    }
}

impl CodeSource for World<'_> {
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        let offset = at.0.checked_sub(BASE.0).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.memory.get(offset..)).unwrap_or_default()
    }
}

impl Memory for World<'_> {
    fn pointer(&self, at: LinkAddr) -> Pointer {
        match self.read_u64(at).map(LinkAddr) {
            Some(to) if self.range().contains(to) => Pointer::Here(to),
            _ => Pointer::None,
        }
    }

    fn is_text(&self, range: AddrRange) -> bool {
        BASE <= range.start && range.end <= self.range().end && !range.is_empty()
    }
}

/// What must hold of every section: it is read or refused with a reason, what is believed of it is true of the code, and
/// it can be written and is believed again.
///
/// # Panics
/// If it does not hold.
pub fn check(bytes: &[u8]) {
    timed("annotations", bytes.len(), || {
        if let Some(case) = Case::decode(bytes) {
            check_case(&case);
        }
    });
}

fn check_case(case: &Case) {
    let world = World { memory: &case.memory };
    let believed = case.believed();
    let mut functions: HashMap<LinkAddr, Vec<&Piece>> = HashMap::new();
    for piece in &believed.pieces {
        functions.entry(piece.function()).or_default().push(piece);
    }
    for pieces in functions.values() {
        check_function(pieces, &world);
    }
    assert!(believed.pieces.is_sorted_by(|a, b| a.range.end <= b.range.start), "pieces overlap");
    let section = writer::write_all(&believed, &[world.range()]).expect("what was read can be written");
    let again = Case { is_sealed: false, section, memory: case.memory.clone() };
    assert_eq!(again.believed().pieces, believed.pieces, "what was written is believed again");
}

/// Goes through a function as the processor would, from wherever control is said to come in, and notes what each byte is.
fn check_function(pieces: &[&Piece], world: &World<'_>) {
    let is_inside = |at: LinkAddr| pieces.iter().any(|piece| piece.range.contains(at));
    let starts: HashSet<LinkAddr> =
        pieces.iter().flat_map(|piece| piece.blocks.iter().map(|block| block.start)).collect();
    let lead = |from: LinkAddr, to: LinkAddr| {
        assert!(
            !is_inside(to) || starts.contains(&to),
            "control gets from {from} to {to}, where no block is"
        );
    };
    for piece in pieces {
        let mut used = vec![false; piece.range.len() as usize];
        let mut mark = |from: LinkAddr, to: LinkAddr| {
            let offset = |at: LinkAddr| at.since(piece.range.start) as usize;
            for byte in &mut used[offset(from)..offset(to)] {
                assert!(!std::mem::replace(byte, true), "two things at {from}");
            }
        };
        piece.data.iter().for_each(|data| mark(data.start, data.end));
        let jumps: HashMap<LinkAddr, _> = piece.jumps.iter().map(|jump| (jump.site, jump)).collect();
        let mut passed = 0;
        for block in &piece.blocks {
            let mut at = block.start;
            while at < block.end {
                let insn = Insn::decode(world.bytes(at), at).expect("an instruction");
                mark(at, insn.next_addr());
                at = insn.next_addr();
                match insn.flow() {
                    Flow::Next => {}
                    Flow::Call(_) | Flow::IndirectCall => {
                        if piece.no_return.contains(&at) {
                            passed += 1;
                            only_padding(world, at, block.end);
                        }
                    }
                    Flow::Jump(to) | Flow::Branch(to) => {
                        lead(insn.addr(), to);
                        only_padding(world, at, block.end);
                    }
                    Flow::IndirectJump => {
                        let said = jumps.get(&insn.addr());
                        for &target in said.iter().flat_map(|jump| jump.targets.iter()) {
                            lead(insn.addr(), target);
                        }
                        only_padding(world, at, block.end);
                    }
                    Flow::Return | Flow::Stop => only_padding(world, at, block.end),
                }
            }
            assert_eq!(at, block.end, "blocks end with an instruction");
        }
        assert!(passed <= piece.no_return.len());
        for at in piece.entries.iter().chain(&piece.landing_pads) {
            lead(*at, *at);
        }
    }
}

fn only_padding(world: &World<'_>, from: LinkAddr, to: LinkAddr) {
    let mut at = from;
    while at < to {
        let insn = Insn::decode(world.bytes(at), at).filter(Insn::is_padding);
        at = insn.unwrap_or_else(|| panic!("a block goes on at {at}")).next_addr();
    }
}
