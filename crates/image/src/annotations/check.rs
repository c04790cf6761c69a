//! Whether what is said of code is true, as far as the code itself shows.
//!
//! Edges are not annotated: whoever believes a piece still reads them off its instructions. What is checked here is that this will
//! work: blocks are whole instructions from end to end, control enters them at their start and leaves at their end, every
//! byte is in a block, data or fill, and every table leads to blocks. The rest (that a call does not return, that an exception lands
//! here, that a register is free) no code shows. The checksum vouches that it is what was said when the code was made.

use super::checksum::{self, bytes_in, targets};
use super::{Annotations, Jump, Memory, Piece, Table, holding};
use rayon::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Decode, Flow, Insn, fill_len};
use std::collections::HashSet;

/// Why a piece is not believed: the first reason found, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not where code is.
    #[error("{0} is not in the code of the program")]
    NotCode(AddrRange),
    /// There is no function that it was split off from.
    #[error("no function begins at {0}, though a piece of it is said to lie elsewhere")]
    NoParent(LinkAddr),
    /// A block does not consist of whole instructions.
    #[error("the bytes at {0} form no instruction that is inside its block")]
    NoInstruction(LinkAddr),
    /// A block goes on where it cannot.
    #[error("the block goes on behind {0}, where control need not go on")]
    NotAtEnd(LinkAddr),
    /// A branch leads into a block, or between blocks.
    #[error("the branch at {at} leads to {to}, where no block begins")]
    Branch {
        /// The branch.
        at: LinkAddr,
        /// Where it leads.
        to: LinkAddr,
    },
    /// Control runs from a block into data.
    #[error("control runs into data at {0}")]
    RunsIntoData(LinkAddr),
    /// Data is also in a block.
    #[error("data at {0} is also in a block")]
    DataInBlock(LinkAddr),
    /// Bytes that are in no block and not said to be data.
    #[error("the bytes at {0} are neither in a block nor data nor fill")]
    Unexplained(LinkAddr),
    /// An entry or a landing pad, or a target of a jump.
    #[error("no block begins at {0}, though control is said to enter there")]
    NoBlock(LinkAddr),
    /// There is no call.
    #[error("no call that ends a block is before {0}, though it is said not to return")]
    NoCall(LinkAddr),
    /// There is no jump to a computed place.
    #[error("no block ends with a jump to a computed place at {0}")]
    NoJump(LinkAddr),
    /// A jump that leads nowhere.
    #[error("the jump at {0} is said to lead nowhere")]
    JumpToNowhere(LinkAddr),
    /// A table that cannot be read, or leads elsewhere.
    #[error("entry {index} of the jump table at {at} leads to no block")]
    Entry {
        /// The table.
        at: LinkAddr,
        /// The entry.
        index: usize,
    },
    /// Tables that differ, and are in the same place.
    #[error("the jump tables at {0} and {1} overlap")]
    TablesOverlap(LinkAddr, LinkAddr),
    /// No instruction begins there, or one that linkers may replace.
    #[error(
        "no instruction begins at {0} that stays as it is, though registers are said to be free behind it"
    )]
    NoFree(LinkAddr),
    /// The code, or what is said of it, has changed.
    #[error("the checksum is {found:#010x}, not {said:#010x}: the code or its description has changed")]
    Checksum {
        /// What is said.
        said: u32,
        /// What is so.
        found: u32,
    },
    /// Another piece of its function is not believed.
    #[error("another piece of the function at {0} is not believed")]
    Companion(LinkAddr),
}

/// A piece that is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it is.
    pub piece: AddrRange,
    /// The function it belongs to.
    pub function: LinkAddr,
    /// Why.
    pub why: Fault,
}

/// Keeps the pieces of functions all of whose pieces hold, and lists the others.
pub fn sift<M: Memory + ?Sized>(annotations: Annotations, memory: &M) -> (Annotations, Vec<Refused>) {
    let Annotations { units, pieces } = annotations;
    let results: Vec<Result<(), Fault>> =
        pieces.par_iter().map(|piece| check(piece, &pieces, memory)).collect();
    let doubtful: HashSet<LinkAddr> = pieces
        .iter()
        .zip(&results)
        .filter(|(_, result)| result.is_err())
        .map(|(p, _)| p.function())
        .collect();
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for (piece, result) in pieces.into_iter().zip(results) {
        let function = piece.function();
        let why = match result {
            Ok(()) if !doubtful.contains(&function) => {
                kept.push(piece);
                continue;
            }
            Ok(()) => Fault::Companion(function),
            Err(why) => why,
        };
        refused.push(Refused { piece: piece.range, function, why });
    }
    (Annotations { units, pieces: kept }, refused)
}

/// Whether `piece`, one of `all` by address, holds.
///
/// # Errors
/// The first reason why not.
pub fn check<M: Memory + ?Sized>(piece: &Piece, all: &[Piece], memory: &M) -> Result<(), Fault> {
    let check = Check { piece, all, memory };
    if piece.range.is_empty() || !memory.is_text(piece.range) || bytes_in(memory, piece.range).is_none() {
        return Err(Fault::NotCode(piece.range));
    }
    check.parent()?;
    let ends = check.blocks()?;
    check.between(&ends)?;
    check.entered()?;
    check.no_return(&ends)?;
    check.jumps(&ends)?;
    // Last, as it takes for granted that tables can be read.
    let found = checksum::of(piece, all, memory);
    if found != piece.checksum {
        return Err(Fault::Checksum { said: piece.checksum, found });
    }
    Ok(())
}

/// How a block ends: its last instruction that does something, if it has any.
type End = Option<Insn>;

struct Check<'a, M: ?Sized> {
    piece: &'a Piece,
    all: &'a [Piece],
    memory: &'a M,
}

impl<M: Memory + ?Sized> Check<'_, M> {
    /// The piece of the same function that holds `at`.
    fn companion(&self, at: LinkAddr) -> Option<&Piece> {
        if self.piece.range.contains(at) {
            return Some(self.piece);
        }
        holding(self.all, at).filter(|piece| piece.function() == self.piece.function())
    }

    fn parent(&self) -> Result<(), Fault> {
        let Some(parent) = self.piece.parent else { return Ok(()) };
        let begins = |piece: &Piece| piece.range.start == parent && piece.parent.is_none();
        if holding(self.all, parent).is_some_and(begins) { Ok(()) } else { Err(Fault::NoParent(parent)) }
    }

    fn blocks(&self) -> Result<Vec<End>, Fault> {
        let mut free = self.piece.free.iter().peekable();
        let mut ends = Vec::with_capacity(self.piece.blocks.len());
        for block in &self.piece.blocks {
            let bytes = bytes_in(self.memory, *block).ok_or(Fault::NotCode(*block))?;
            let mut end: End = None;
            let mut at = block.start;
            for insn in Decode::new(bytes, block.start) {
                if free.next_if(|free| free.behind == at && insn.is_final()).is_none()
                    && let Some(missed) = free.next_if(|free| free.behind <= at)
                {
                    return Err(Fault::NoFree(missed.behind));
                }
                at = insn.next_addr();
                // A linker may make a jump shorter, and fill the rest.
                if insn.is_padding() {
                    continue;
                }
                if let Some(last) = end.replace(insn).filter(leaves) {
                    return Err(Fault::NotAtEnd(last.addr()));
                }
                if let Flow::Jump(to) | Flow::Branch(to) = insn.flow()
                    && self.companion(to).is_some_and(|piece| !piece.has_block_at(to))
                {
                    return Err(Fault::Branch { at: insn.addr(), to });
                }
            }
            if at != block.end {
                return Err(Fault::NoInstruction(at));
            }
            ends.push(end);
        }
        match free.next() {
            Some(missed) => Err(Fault::NoFree(missed.behind)),
            None => Ok(ends),
        }
    }

    /// What lies between blocks.
    fn between(&self, ends: &[End]) -> Result<(), Fault> {
        let Piece { range, blocks, data, .. } = self.piece;
        let mut data = data.iter().copied().peekable();
        let mut at = range.start;
        let mut runs_on = false;
        let behind = AddrRange::new(range.end, range.end);
        for (index, block) in blocks.iter().chain([&behind]).enumerate() {
            // Control need not go on behind the last block, which may end with a call that nobody knows not to return.
            let is_last = index == blocks.len();
            while let Some(part) = data.next_if(|part| part.start < block.start) {
                if part.start < at || block.start < part.end {
                    return Err(Fault::DataInBlock(part.start));
                }
                if runs_on && !is_last {
                    return Err(Fault::RunsIntoData(part.start));
                }
                self.fill(AddrRange::new(at, part.start))?;
                at = part.end;
            }
            self.fill(AddrRange::new(at, block.start))?;
            at = block.end;
            runs_on = ends.get(index).is_some_and(|end| match end {
                Some(insn) => goes_on(insn) && !self.is_no_return(*block),
                None => true,
            });
        }
        match data.next() {
            Some(part) => Err(Fault::DataInBlock(part.start)),
            None => Ok(()),
        }
    }

    fn is_no_return(&self, block: AddrRange) -> bool {
        let behind = self.piece.no_return.partition_point(|&at| at <= block.start);
        self.piece.no_return.get(behind).is_some_and(|&at| at <= block.end)
    }

    fn fill(&self, range: AddrRange) -> Result<(), Fault> {
        let bytes = bytes_in(self.memory, range).ok_or(Fault::NotCode(range))?;
        match fill_len(bytes, range.start) {
            len if len == bytes.len() => Ok(()),
            len => Err(Fault::Unexplained(range.start.offset(len as u64))),
        }
    }

    fn entered(&self) -> Result<(), Fault> {
        let mut places = self.piece.entries.iter().chain(&self.piece.landing_pads);
        match places.find(|&&at| !self.piece.has_block_at(at)) {
            Some(&at) => Err(Fault::NoBlock(at)),
            None => Ok(()),
        }
    }

    /// How the block ends in which `at` is, or at whose end it is.
    fn end_before(&self, ends: &[End], at: LinkAddr) -> End {
        let index = self.piece.blocks.partition_point(|block| block.end < at);
        ends.get(index).copied().flatten()
    }

    fn no_return(&self, ends: &[End]) -> Result<(), Fault> {
        for &at in &self.piece.no_return {
            let is_call = |insn: &Insn| {
                matches!(insn.flow(), Flow::Call(_) | Flow::IndirectCall) && insn.next_addr() <= at
            };
            if !self.end_before(ends, at).as_ref().is_some_and(is_call) {
                return Err(Fault::NoCall(at));
            }
        }
        Ok(())
    }

    fn jumps(&self, ends: &[End]) -> Result<(), Fault> {
        let mut before: Option<&Jump> = None;
        let mut tables: Vec<Table> = Vec::new();
        for jump in &self.piece.jumps {
            // A linker that knows what a slot will hold makes a direct jump of one through it.
            let only_leaves = jump.leaves && jump.tables.is_empty() && jump.targets.is_empty();
            let is_jump = |flow| flow == Flow::IndirectJump || only_leaves && matches!(flow, Flow::Jump(_));
            let is_site = |insn: &Insn| insn.addr() == jump.site && is_jump(insn.flow());
            if !self.end_before(ends, jump.site.offset(1)).as_ref().is_some_and(is_site) {
                return Err(Fault::NoJump(jump.site));
            }
            if jump.tables.is_empty() && jump.targets.is_empty() && !jump.leaves {
                return Err(Fault::JumpToNowhere(jump.site));
            }
            if before.is_none_or(|before| before.targets != jump.targets)
                && let Some(&target) = jump.targets.iter().find(|&&target| !self.leads(target))
            {
                return Err(Fault::NoBlock(target));
            }
            tables.extend(&jump.tables);
            before = Some(jump);
        }
        self.tables(tables)
    }

    fn tables(&self, mut tables: Vec<Table>) -> Result<(), Fault> {
        tables.sort_unstable_by_key(|table| (table.at, table.base, table.entry_size, table.count));
        tables.dedup();
        for pair in tables.windows(2) {
            let size = u64::from(pair[0].entry_size) * u64::from(pair[0].count);
            if pair[1].at.since(pair[0].at) < size {
                return Err(Fault::TablesOverlap(pair[0].at, pair[1].at));
            }
        }
        for table in tables {
            let leads = |to: LinkAddr| self.leads(to) || self.is_end(to);
            if let Some(index) = targets(&table, self.memory).position(|to| !to.is_some_and(leads)) {
                return Err(Fault::Entry { at: table.at, index });
            }
        }
        Ok(())
    }

    /// Whether a jump can lead to `at`: to a block of the function, or out of it.
    fn leads(&self, at: LinkAddr) -> bool {
        match self.companion(at) {
            Some(piece) => piece.has_block_at(at),
            None => self.memory.is_text(AddrRange::sized(at, 1)),
        }
    }

    /// The end of a piece of the function: what compilers write into a table for cases that cannot happen.
    fn is_end(&self, at: LinkAddr) -> bool {
        self.companion(LinkAddr(at.0.wrapping_sub(1))).is_some_and(|piece| piece.range.end == at)
    }
}

/// Whether nothing can follow it in its block.
fn leaves(insn: &Insn) -> bool {
    !matches!(insn.flow(), Flow::Next | Flow::Call(_) | Flow::IndirectCall)
}

/// Whether control may go on behind it.
fn goes_on(insn: &Insn) -> bool {
    matches!(insn.flow(), Flow::Next | Flow::Branch(_) | Flow::Call(_) | Flow::IndirectCall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::{Free, checksum::seal};
    use relive_code::isa::RegSet;
    use relive_code::source::{CodeSource, Pointer};

    /// Memory at 0x1000.
    struct Flat(Vec<u8>);

    impl CodeSource for Flat {
        fn bytes(&self, at: LinkAddr) -> &[u8] {
            at.0.checked_sub(0x1000).and_then(|offset| self.0.get(offset as usize..)).unwrap_or_default()
        }
    }

    impl Memory for Flat {
        fn pointer(&self, at: LinkAddr) -> Pointer {
            self.read_u64(at).map_or(Pointer::None, |to| Pointer::Here(LinkAddr(to)))
        }

        /// All but the last 16 bytes.
        fn is_text(&self, range: AddrRange) -> bool {
            LinkAddr(0x1000) <= range.start && range.end.0 + 16 <= 0x1000 + self.0.len() as u64
        }
    }

    fn at(offset: u64) -> LinkAddr {
        LinkAddr(0x1000 + offset)
    }

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange::new(at(start), at(end))
    }

    /// A function that jumps through a table of two entries right behind it, and a piece of it that lies apart.
    ///
    /// ```text
    /// 00 test eax, eax      06 call 0x1100      10 nop            20 call 0x1100
    /// 02 je 0x1012          0b ret              12 jmp rax        25 nop
    /// 04 xor eax, eax       0c data             14 jmp 0x1020     26 end
    /// ```
    fn program() -> (Flat, Vec<Piece>) {
        let code = [
            &[0x85, 0xc0, 0x74, 0x0e, 0x31, 0xc0][..],
            &[0xe8, 0xf5, 0, 0, 0, 0xc3, 1, 2, 3, 4, 0x66, 0x90],
            &[0xff, 0xe0, 0xe9, 7, 0, 0, 0],
            &[0xcc; 7],
            &[0xe8, 0xdb, 0, 0, 0, 0x90],
            &[0xcc; 10],
            &0x1004u64.to_le_bytes(),
            &0x1020u64.to_le_bytes(),
        ];
        let jump = Jump {
            site: at(0x12),
            tables: vec![Table { at: at(0x30), entry_size: 8, base: None, count: 2 }],
            targets: [at(0x14)].into(),
            leaves: false,
        };
        let free = Free { behind: at(4), registers: RegSet::GPRS };
        let function = Piece {
            range: range(0, 0x19),
            parent: None,
            checksum: 0,
            blocks: vec![range(0, 4), range(4, 0xc), range(0x12, 0x14), range(0x14, 0x19)],
            entries: vec![at(0x14)],
            landing_pads: vec![at(4)],
            no_return: vec![],
            data: vec![range(0xc, 0x10)],
            jumps: vec![jump],
            free: vec![free],
        };
        let apart = Piece {
            range: range(0x20, 0x26),
            parent: Some(at(0)),
            blocks: vec![range(0x20, 0x26)],
            entries: vec![],
            landing_pads: vec![],
            no_return: vec![at(0x25)],
            data: vec![],
            jumps: vec![],
            free: vec![],
            ..function.clone()
        };
        (Flat(code.concat()), vec![function, apart])
    }

    /// What is wrong with the first piece that something is wrong with, when everything is sealed after a change.
    fn after(change: impl FnOnce(&mut Vec<u8>, &mut Vec<Piece>)) -> Result<(), Fault> {
        let (mut memory, mut pieces) = program();
        change(&mut memory.0, &mut pieces);
        seal(&mut pieces, &memory);
        pieces.iter().try_for_each(|piece| check(piece, &pieces, &memory))
    }

    /// The same, for a change of the first piece.
    fn when(change: impl FnOnce(&mut Piece)) -> Result<(), Fault> {
        after(|_, pieces| change(&mut pieces[0]))
    }

    #[test]
    fn what_is_true_holds() {
        assert_eq!(after(|_, _| {}), Ok(()));
    }

    #[test]
    fn lies_about_blocks() {
        assert_eq!(when(|p| p.blocks[0].end = at(5)), Err(Fault::NoInstruction(at(4))));
        assert_eq!(when(|p| p.blocks[0].end = at(3)), Err(Fault::NoInstruction(at(2))));
        let joined = |p: &mut Piece| {
            p.blocks.remove(1);
            p.blocks[0].end = at(0xc);
        };
        assert_eq!(when(joined), Err(Fault::NotAtEnd(at(2))));
        let cut = |p: &mut Piece| {
            p.blocks[2] = range(0x10, 0x14);
        };
        assert_eq!(when(cut), Err(Fault::Branch { at: at(2), to: at(0x12) }));
        let missing = |p: &mut Piece| {
            p.blocks.remove(3);
        };
        assert_eq!(when(missing), Err(Fault::Unexplained(at(0x14))));
        assert_eq!(
            after(|_, pieces| pieces[1].blocks = vec![range(0x25, 0x26)]),
            Err(Fault::Branch { at: at(0x14), to: at(0x20) }),
            "into another piece"
        );
    }

    #[test]
    fn lies_about_data() {
        assert_eq!(when(|p| p.data[0].end = at(0x13)), Err(Fault::DataInBlock(at(0xc))));
        assert_eq!(when(|p| p.data[0].start = at(0xb)), Err(Fault::DataInBlock(at(0xb))));
        assert_eq!(when(|p| p.data.clear()), Err(Fault::Unexplained(at(0xc))));
        assert_eq!(after(|memory, _| memory[0xb] = 0x90), Err(Fault::RunsIntoData(at(0xc))));
    }

    #[test]
    fn lies_about_entries() {
        assert_eq!(when(|p| p.entries[0] = at(6)), Err(Fault::NoBlock(at(6))));
        assert_eq!(when(|p| p.landing_pads[0] = at(2)), Err(Fault::NoBlock(at(2))));
        assert_eq!(after(|_, pieces| pieces[1].parent = Some(at(4))), Err(Fault::NoParent(at(4))));
        assert_eq!(after(|_, pieces| pieces[1].parent = Some(at(0x20))), Err(Fault::NoParent(at(0x20))));
    }

    #[test]
    fn lies_about_calls() {
        assert_eq!(when(|p| p.no_return.push(at(4))), Err(Fault::NoCall(at(4))));
        assert_eq!(when(|p| p.no_return.push(at(0xb))), Err(Fault::NoCall(at(0xb))), "its block goes on");
        assert_eq!(
            after(|_, pieces| pieces[1].no_return[0] = at(0x26)),
            Ok(()),
            "a linker may put a nop there"
        );
    }

    #[test]
    fn lies_about_jumps() {
        assert_eq!(when(|p| p.jumps[0].site = at(0x14)), Err(Fault::NoJump(at(0x14))));
        assert_eq!(when(|p| p.jumps[0].targets = [at(6)].into()), Err(Fault::NoBlock(at(6))));
        assert_eq!(when(|p| p.jumps[0].tables[0].count = 3), Err(Fault::Entry { at: at(0x30), index: 2 }));
        assert_eq!(
            when(|p| p.jumps[0].tables[0].at = at(0x2f)),
            Err(Fault::Entry { at: at(0x2f), index: 0 })
        );
        assert_eq!(after(|memory, _| memory[0x30] = 6), Err(Fault::Entry { at: at(0x30), index: 0 }));
        assert_eq!(after(|memory, _| memory[0x30] = 0x19), Ok(()), "the end of the function");
        let two = |p: &mut Piece| {
            let table = Table { at: at(0x38), count: 1, ..p.jumps[0].tables[0] };
            p.jumps[0].tables.push(table);
        };
        assert_eq!(when(two), Err(Fault::TablesOverlap(at(0x30), at(0x38))));
        let nowhere = |p: &mut Piece| {
            p.jumps[0].tables.clear();
            p.jumps[0].targets = [].into();
        };
        assert_eq!(when(nowhere), Err(Fault::JumpToNowhere(at(0x12))));
    }

    #[test]
    fn lies_about_registers() {
        assert_eq!(when(|p| p.free[0].behind = at(5)), Err(Fault::NoFree(at(5))));
        assert_eq!(when(|p| p.free[0].behind = at(0xc)), Err(Fault::NoFree(at(0xc))));
        assert_eq!(when(|p| p.free[0].behind = at(6)), Err(Fault::NoFree(at(6))), "linkers replace calls");
        assert_eq!(when(|p| p.free[0].behind = at(0x19)), Err(Fault::NoFree(at(0x19))));
    }

    #[test]
    fn lies_about_where_it_is() {
        let beyond = range(0x20, 0x40);
        assert_eq!(after(|_, pieces| pieces[1].range = beyond), Err(Fault::NotCode(beyond)));
        let lost = |_: &mut Vec<u8>, pieces: &mut Vec<Piece>| {
            pieces.remove(0);
        };
        assert_eq!(after(lost), Err(Fault::NoParent(at(0))));
    }

    /// What the code does not show: only the checksum tells.
    #[test]
    fn changes_after_the_seal() {
        let (memory, mut pieces) = program();
        seal(&mut pieces, &memory);
        type Change = fn(&mut Piece);
        let changes: [Change; 8] = [
            |p| p.entries.clear(),
            |p| p.landing_pads.clear(),
            |p| p.landing_pads[0] = at(0x14),
            |p| p.jumps.clear(),
            |p| p.jumps[0].leaves = true,
            |p| p.jumps[0].targets = [at(0x12)].into(),
            |p| p.jumps[0].tables[0].count = 1,
            |p| p.free[0].registers = RegSet::FLAGS,
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut changed = pieces.clone();
            change(&mut changed[0]);
            let why = check(&changed[0], &changed, &memory);
            assert!(matches!(why, Err(Fault::Checksum { .. })), "{index}: {why:?}");
            // The piece that was split off is not believed either.
            let (kept, refused) = sift(Annotations { units: vec![], pieces: changed }, &memory);
            assert!(kept.pieces.is_empty());
            assert_eq!(refused[1].why, Fault::Companion(at(0)));
        }
        let mut changed = pieces.clone();
        changed[1].no_return.clear();
        assert!(matches!(check(&changed[1], &changed, &memory), Err(Fault::Checksum { .. })));
    }

    #[test]
    fn what_linkers_fill_in_is_not_in_the_checksum() {
        let (mut memory, mut pieces) = program();
        seal(&mut pieces, &memory);
        // Where the call leads.
        memory.0[7] ^= 0x40;
        assert_eq!(check(&pieces[0], &pieces, &memory), Ok(()));
        // `xor eax, eax`.
        memory.0[5] ^= 1;
        assert!(matches!(check(&pieces[0], &pieces, &memory), Err(Fault::Checksum { .. })));
    }
}
