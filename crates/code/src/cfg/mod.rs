//! Control-flow graphs of functions: the model. [`recover`] builds it.
//!
//! The graph may show too much (an edge that is never taken), never too little: whoever counts edges
//! survives one that stays at zero, not one that is missing.

mod changes;
mod explore;
mod recover;
mod remainder;

pub use recover::{Outline, recover};

use crate::addr::{AddrRange, LinkAddr};
use crate::graph::Graph;
use crate::isa::{Decode, Insn};
use crate::jump_table::JumpTable;
use crate::source::CodeSource;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A basic block of one function; blocks are numbered by address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The index into [`Cfg::blocks`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bb{}", self.0)
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Another block begins behind it.
    FallThrough,
    /// A conditional branch.
    Branch,
    /// A jump to a fixed place.
    Jump,
    /// A jump to a computed place.
    IndirectJump,
    /// A call of a fixed place.
    Call(LinkAddr),
    /// A call of a computed place; the slot it reads the address from, if that is fixed.
    IndirectCall(Option<LinkAddr>),
    /// A return.
    Return,
    /// An instruction that never goes on.
    Stop,
}

impl End {
    /// Whether it is a call of any kind.
    #[must_use]
    pub fn is_call(self) -> bool {
        matches!(self, Self::Call(_) | Self::IndirectCall(_))
    }
}

/// A basic block: entered only at its start, left only at its end. Every call ends one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub start: LinkAddr,
    /// Length in bytes.
    pub len: u32,
    /// Number of instructions.
    pub insns: u32,
    /// Offset of the last instruction from the start.
    pub last: u32,
    /// How it ends.
    pub end: End,
    /// Whether some path from an entry leads here; otherwise it is dead code that only decodes.
    pub reached: bool,
}

impl Block {
    /// The bytes it covers.
    #[must_use]
    pub fn range(&self) -> AddrRange {
        AddrRange::sized(self.start, u64::from(self.len))
    }

    /// The address behind it.
    #[must_use]
    pub fn end_addr(&self) -> LinkAddr {
        self.start.offset(u64::from(self.len))
    }

    /// The address of its last instruction.
    #[must_use]
    pub fn last_insn(&self) -> LinkAddr {
        self.start.offset(u64::from(self.last))
    }

    /// Its instructions in order. Fewer than [`Block::insns`] says if not all its bytes can be read.
    #[must_use]
    pub fn insns<'s, S: CodeSource + ?Sized>(&self, source: &'s S) -> Decode<'s> {
        Decode::new(self.bytes(source), self.start)
    }

    /// Whether one of its instructions calls the kernel.
    #[must_use]
    pub fn has_syscall<S: CodeSource + ?Sized>(&self, source: &S) -> bool {
        Insn::may_hold_syscall(self.bytes(source)) && self.insns(source).any(|insn| insn.is_syscall())
    }

    /// Its bytes, as far as they can be read.
    #[must_use]
    pub fn bytes<'s, S: CodeSource + ?Sized>(&self, source: &'s S) -> &'s [u8] {
        let bytes = source.bytes(self.start);
        &bytes[..bytes.len().min(self.len as usize)]
    }
}

/// Why control goes along an edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EdgeKind {
    /// The next block follows, or the branch was not taken.
    FallThrough,
    /// The branch was taken.
    Taken,
    /// A jump.
    Jump,
    /// An indirect jump through a table, or a computed goto.
    Case,
    /// The callee came back.
    CallReturn,
    /// A jump to another function, direct or not.
    TailCall,
    /// An exception was caught.
    LandingPad,
    /// Back to the caller.
    Return,
    /// An indirect jump that nobody could resolve.
    Unknown,
}

impl EdgeKind {
    /// A short name for tables and pictures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FallThrough => "fall-through",
            Self::Taken => "taken",
            Self::Jump => "jump",
            Self::Case => "case",
            Self::CallReturn => "call-return",
            Self::TailCall => "tail-call",
            Self::LandingPad => "landing-pad",
            Self::Return => "return",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where an edge leads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// A block of the same function.
    Block(BlockId),
    /// A place outside the function.
    Outside(LinkAddr),
    /// A place only the run shows: a caller, a function pointer.
    Elsewhere,
}

/// One way out of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Edge {
    /// The block it leaves.
    pub from: BlockId,
    /// Where it leads.
    pub to: Target,
    /// Why.
    pub kind: EdgeKind,
}

impl Edge {
    /// The block of the same function it leads to, if it does.
    #[must_use]
    pub fn inner_target(&self) -> Option<BlockId> {
        match self.to {
            Target::Block(to) => Some(to),
            Target::Outside(_) | Target::Elsewhere => None,
        }
    }
}

/// Why a function, or a place in it, is not understood.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// Bytes on a path that form no instruction.
    Undecodable,
    /// A jump into the middle of an instruction that is also executed from its start.
    OverlappingInstructions,
    /// The last instruction goes on behind the end of the function, where no function begins.
    RunsOffTheEnd,
    /// An indirect jump whose targets nobody could tell.
    UnresolvedJump,
    /// Bytes nothing leads to that are neither padding nor sound code.
    UnexplainedBytes,
    /// Code nothing leads to, while the size of a jump table in the same function is only a guess.
    UnreachedBesideGuessedTable,
    /// A jump to a place outside that is no code.
    JumpToNowhere,
    /// The code is not in the file.
    NotInFile,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Undecodable,
        Self::OverlappingInstructions,
        Self::RunsOffTheEnd,
        Self::UnresolvedJump,
        Self::UnexplainedBytes,
        Self::UnreachedBesideGuessedTable,
        Self::JumpToNowhere,
        Self::NotInFile,
    ];

    /// A short name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::OverlappingInstructions => "overlapping-instructions",
            Self::RunsOffTheEnd => "runs-off-the-end",
            Self::UnresolvedJump => "unresolved-jump",
            Self::UnexplainedBytes => "unexplained-bytes",
            Self::UnreachedBesideGuessedTable => "unreached-beside-guessed-table",
            Self::JumpToNowhere => "jump-to-nowhere",
            Self::NotInFile => "not-in-file",
        }
    }

    /// A sentence for people.
    #[must_use]
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Undecodable => "control reaches bytes that form no instruction",
            Self::OverlappingInstructions => "control enters the middle of an instruction",
            Self::RunsOffTheEnd => "control runs off the end of the function",
            Self::UnresolvedJump => "an indirect jump has unknown targets",
            Self::UnexplainedBytes => "some bytes are neither reached, nor padding, nor sound code",
            Self::UnreachedBesideGuessedTable => "unreached code beside a jump table of guessed size",
            Self::JumpToNowhere => "a jump leads outside all code",
            Self::NotInFile => "its bytes are not in the file",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that is not understood, and where.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// What.
    pub reason: Reason,
    /// Where it shows.
    pub at: LinkAddr,
}

/// What the bytes between blocks are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GapKind {
    /// Fill between blocks or behind the last.
    Padding,
    /// Data among code: a jump table, or an object the symbol table names.
    Data,
    /// Nobody knows.
    Unexplained,
}

/// A stretch of a function that is not in any block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Gap {
    /// Where.
    pub range: AddrRange,
    /// What.
    pub kind: GapKind,
}

/// The control-flow graph of one function.
#[derive(Clone, Debug, Default)]
pub struct Cfg {
    /// The pieces of the function, by address.
    pub pieces: Vec<AddrRange>,
    /// Blocks by address.
    pub blocks: Vec<Block>,
    /// Edges, sorted by the block they leave.
    pub edges: Vec<Edge>,
    /// Blocks where control comes in from outside: the entry first, then secondary entries.
    pub entries: Vec<BlockId>,
    /// Blocks where exceptions land.
    pub landing_pads: Vec<BlockId>,
    /// Jump tables and computed gotos.
    pub tables: Vec<JumpTable>,
    /// What lies between the blocks.
    pub gaps: Vec<Gap>,
    /// What is not understood; empty if all is.
    pub problems: Vec<Problem>,
}

impl Cfg {
    /// Whether every byte is explained and every jump resolved.
    #[must_use]
    pub fn is_understood(&self) -> bool {
        self.problems.is_empty()
    }

    /// The block with that number.
    #[must_use]
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.index()]
    }

    /// All blocks with their numbers.
    pub fn numbered_blocks(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        (0..).map(BlockId).zip(&self.blocks)
    }

    /// The block that starts at `at`.
    #[must_use]
    pub fn block_starting(&self, at: LinkAddr) -> Option<BlockId> {
        self.blocks.binary_search_by_key(&at, |b| b.start).ok().map(|i| BlockId(i as u32))
    }

    /// The block that covers `at`.
    #[must_use]
    pub fn block_holding(&self, at: LinkAddr) -> Option<BlockId> {
        let behind = self.blocks.partition_point(|b| b.start <= at);
        let candidate = behind.checked_sub(1)?;
        self.blocks[candidate].range().contains(at).then_some(BlockId(candidate as u32))
    }

    /// The edges out of `block`.
    #[must_use]
    pub fn edges_from(&self, block: BlockId) -> &[Edge] {
        let first = self.edges.partition_point(|e| e.from < block);
        let behind = first + self.edges[first..].partition_point(|e| e.from == block);
        &self.edges[first..behind]
    }

    /// The graph of edges inside the function.
    #[must_use]
    pub fn graph(&self) -> Graph {
        let inner: Vec<(u32, u32)> = self
            .edges
            .iter()
            .filter_map(|e| match e.to {
                Target::Block(to) => Some((e.from.0, to.0)),
                _ => None,
            })
            .collect();
        Graph::from_edges(self.blocks.len(), &inner)
    }

    /// Blocks where a walk over the function may begin: entries, landing pads nobody is known to throw
    /// to, and dead code nothing leads to.
    #[must_use]
    pub fn roots(&self) -> Vec<u32> {
        let mut entered = alloc::vec![false; self.blocks.len()];
        for edge in &self.edges {
            if let Target::Block(to) = edge.to {
                entered[to.index()] = true;
            }
        }
        let mut roots: Vec<u32> = self.entries.iter().map(|b| b.0).collect();
        for (id, _) in self.numbered_blocks() {
            if !entered[id.index()] && !self.entries.contains(&id) {
                roots.push(id.0);
            }
        }
        roots
    }

    /// Whether control can come back to the caller from here: by a return, or through a tail call to
    /// something that `returns`.
    pub fn may_return(&self, mut returns: impl FnMut(LinkAddr) -> bool) -> bool {
        self.edges.iter().any(|edge| {
            self.block(edge.from).reached
                && match (edge.kind, edge.to) {
                    (EdgeKind::Return | EdgeKind::Unknown, _) => true,
                    (_, Target::Elsewhere) => true,
                    (_, Target::Outside(to)) => returns(to),
                    (_, Target::Block(_)) => false,
                }
        })
    }

    /// A text form for golden files and bug reports: one line a block, one a problem.
    #[must_use]
    pub fn dump(&self) -> String {
        use fmt::Write as _;
        let mut out = String::new();
        for (id, block) in self.numbered_blocks() {
            let _ = write!(out, "{id} {} +{} {} insns", block.start, block.len, block.insns);
            if self.entries.contains(&id) {
                out.push_str(" entry");
            }
            if self.landing_pads.contains(&id) {
                out.push_str(" pad");
            }
            if !block.reached {
                out.push_str(" unreached");
            }
            for edge in self.edges_from(id) {
                let _ = match edge.to {
                    Target::Block(to) => write!(out, " {}:{to}", edge.kind),
                    Target::Outside(to) => write!(out, " {}:{to}", edge.kind),
                    Target::Elsewhere => write!(out, " {}", edge.kind),
                };
            }
            out.push('\n');
        }
        for table in &self.tables {
            let _ = writeln!(out, "{table}");
        }
        for problem in &self.problems {
            let _ = writeln!(out, "problem {} at {}", problem.reason, problem.at);
        }
        out
    }
}
