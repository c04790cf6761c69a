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
