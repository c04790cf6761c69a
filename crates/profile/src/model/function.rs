//! Functions: blocks, edges, loops, calls.

use super::count::{Count, Counter};
use super::site::SiteId;
use super::text::TextId;
use std::num::NonZeroU32;

/// How well a function was measured, the best last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not at all.
    NotMeasured {
        /// Why.
        reason: TextId,
    },
    /// How often it was entered, nothing more.
    EntryOnly {
        /// Why.
        reason: TextId,
    },
    /// As the mode of the module says.
    Measured,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, as in the symbol table.
    pub name: TextId,
    /// Where it is entered, as linked.
    pub address: u64,
    /// How many bytes of code it has, over all pieces.
    pub size: u64,
    /// Where its code is; the piece that it is entered in is the first.
    pub pieces: Vec<Piece>,
    /// Its code: the bytes of all pieces, one after the other. Empty if nobody kept them.
    pub code: Vec<u8>,
    /// How well it was measured.
    pub state: State,
    /// Why its counts may be off.
    pub approximate: Option<TextId>,
    /// By address within a piece; the entry is the first.
    pub blocks: Vec<Block>,
    /// In any order that is the same each time.
    pub edges: Vec<Edge>,
    /// Of edges that are cases of computed jumps: which edge, and the first entry of the table that leads there; behind a hub, also which
    /// jump's table it is ([`super::case_of`]). By edge.
    pub cases: Vec<(u32, u32)>,
    /// An outer loop before those inside it.
    pub loops: Vec<Loop>,
    /// By block.
    pub calls: Vec<Call>,
    /// How many hubs there are: see [`Node::hub`].
    pub hubs: u32,
    /// Whether the counter of the edge it is entered by leaves out calls from measured functions of the module.
    pub called: bool,
}

/// Code of a function that lies together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first address, as linked.
    pub start: u64,
    /// Its length.
    pub len: u64,
}

/// A line of source. `Option<Line>` takes eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// One more than the index.
    file: NonZeroU32,
    /// The line, counted from one; zero if the code comes from no line in particular.
    pub line: u32,
}

impl Line {
    /// A line of the file of that index in [`super::Module::files`].
    #[must_use]
    pub const fn new(file: u32, line: u32) -> Self {
        Self { file: NonZeroU32::MIN.saturating_add(file), line }
    }

    /// The index in [`super::Module::files`].
    #[must_use]
    pub const fn file(self) -> u32 {
        self.file.get() - 1
    }
}

/// A basic block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first address, as linked.
    pub address: u64,
    /// Its length.
    pub size: u32,
    /// How many instructions it has.
    pub insns: u32,
    /// The line it begins in.
    pub line: Option<Line>,
    /// The function is entered here.
    pub is_entry: bool,
    /// Exceptions are caught here.
    pub is_landing_pad: bool,
    /// The counter of the block itself.
    pub counter: Option<Counter>,
    /// How often it ran, if that is known.
    pub count: Option<Count>,
}

/// What edges lead from and to. Takes four bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u32);

const HUB: u32 = 1 << 31;

impl Node {
    /// Wherever the function is entered from and left to.
    pub const OUTSIDE: Self = Self(u32::MAX);

    /// A block of the function, of fewer than 2³¹.
    #[must_use]
    pub const fn block(index: u32) -> Self {
        Self(index & !HUB)
    }

    /// A hub: several indirect jumps share one table, and which of them took which entry is not known.
    /// Edges lead from each jump to the hub and from the hub to each entry. Fewer than 2³¹-1.
    #[must_use]
    pub const fn hub(index: u32) -> Self {
        Self(index | HUB)
    }

    /// The index of the block, if it is one.
    #[must_use]
    pub const fn as_block(self) -> Option<u32> {
        if self.0 & HUB == 0 { Some(self.0) } else { None }
    }

    /// The index of the hub, if it is one.
    #[must_use]
    pub const fn as_hub(self) -> Option<u32> {
        if self.0 & HUB != 0 && self.0 != u32::MAX { Some(self.0 & !HUB) } else { None }
    }

    /// Whether it is outside.
    #[must_use]
    pub const fn is_outside(self) -> bool {
        self.0 == u32::MAX
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.as_block(), self.as_hub()) {
            (Some(block), _) => write!(f, "bb{block}"),
            (_, Some(hub)) => write!(f, "hub{hub}"),
            _ => f.write_str("outside"),
        }
    }
}

/// Why control goes along an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// The function is entered.
    Enter,
    /// The next block follows.
    FallThrough,
    /// A conditional jump is taken.
    Taken,
    /// An unconditional jump.
    Jump,
    /// An indirect jump.
    Case,
    /// A call came back.
    CallReturn,
    /// An exception is caught.
    LandingPad,
    /// A jump to another function.
    TailCall,
    /// The function returns.
    Return,
    /// A call that did not come back: it ended the program, or threw.
    NoReturn,
}

impl EdgeKind {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::FallThrough => "fall-through",
            Self::Taken => "taken",
            Self::Jump => "jump",
            Self::Case => "case",
            Self::CallReturn => "call-return",
            Self::LandingPad => "landing-pad",
            Self::TailCall => "tail-call",
            Self::Return => "return",
            Self::NoReturn => "no-return",
        }
    }
}

/// An edge of the control-flow graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where from.
    pub from: Node,
    /// Where to.
    pub to: Node,
    /// The counter of the edge.
    pub counter: Option<Counter>,
    /// Why.
    pub kind: EdgeKind,
    /// How often it was taken, if that is known.
    pub count: Option<Count>,
}

/// A call, or a jump to another function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// How often it is made.
    pub by: CalledBy,
    /// The address of the instruction, as linked.
    pub address: u64,
    /// What is called.
    pub callee: Callee,
}

/// What tells how often a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CalledBy {
    /// Each time this block runs: it ends with a call.
    Block(u32),
    /// Each time this edge is taken: it is a [`EdgeKind::TailCall`].
    Edge(u32),
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function of the same module.
    Direct {
        /// Its address, as linked.
        address: u64,
        /// Its name, as in the symbol table.
        name: TextId,
    },
    /// A function of another module.
    Import {
        /// Its name.
        name: TextId,
    },
    /// Whatever a register or memory says.
    Indirect {
        /// Where targets are recorded, if they are.
        site: Option<SiteId>,
    },
}

/// A natural loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The block it is entered at.
    pub header: u32,
    /// The loop around it.
    pub parent: Option<u32>,
    /// How many loops are around it.
    pub depth: u32,
    /// The line it begins in.
    pub line: Option<Line>,
    /// All its blocks, those of inner loops as well, in ascending order.
    pub blocks: Vec<u32>,
}

impl Function {
    /// A function of which only name and place are known.
    #[must_use]
    pub const fn new(name: TextId, address: u64, size: u64, state: State) -> Self {
        Self {
            name,
            address,
            size,
            pieces: Vec::new(),
            code: Vec::new(),
            state,
            approximate: None,
            blocks: Vec::new(),
            edges: Vec::new(),
            cases: Vec::new(),
            loops: Vec::new(),
            calls: Vec::new(),
            hubs: 0,
            called: false,
        }
    }

    /// The code at `address`, if the profile holds it.
    #[must_use]
    pub fn bytes_at(&self, address: u64, len: u64) -> Option<&[u8]> {
        let mut before = 0u64;
        for piece in &self.pieces {
            match address.checked_sub(piece.start) {
                Some(offset) if offset < piece.len && len <= piece.len - offset => {
                    let start = usize::try_from(before.checked_add(offset)?).ok()?;
                    return self.code.get(start..)?.get(..usize::try_from(len).ok()?);
                }
                _ => before = before.checked_add(piece.len)?,
            }
        }
        None
    }

    /// Whether it never ran, and nothing but its place is known.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == State::Measured && self.blocks.is_empty()
    }

    /// How often it was entered from outside.
    #[must_use]
    pub fn entries(&self) -> Option<Count> {
        if self.state.is_not_measured() {
            return None;
        }
        if self.is_idle() {
            return Some(Count::measured(0));
        }
        let mut enter = self.edges.iter().filter(|edge| edge.kind == EdgeKind::Enter).peekable();
        enter.peek()?;
        Count::sum(enter.map(|edge| edge.count))
    }

    /// How many instructions it executed, as far as counts are known.
    #[must_use]
    pub fn executed_insns(&self) -> u64 {
        self.blocks.iter().fold(0, |sum, block| {
            sum.saturating_add(block.count.map_or(0, Count::value).saturating_mul(u64::from(block.insns)))
        })
    }

    /// The block that begins at `address`.
    #[must_use]
    pub fn block_at(&self, address: u64) -> Option<u32> {
        self.blocks.iter().zip(0..).find(|(block, _)| block.address == address).map(|(_, i)| i)
    }
}

impl State {
    /// Whether nothing was counted.
    #[must_use]
    pub const fn is_not_measured(self) -> bool {
        matches!(self, Self::NotMeasured { .. })
    }

    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotMeasured { .. } => "not-measured",
            Self::EntryOnly { .. } => "entry-only",
            Self::Measured => "measured",
        }
    }

    /// Why less was counted than could be.
    #[must_use]
    pub const fn reason(self) -> Option<TextId> {
        match self {
            Self::Measured => None,
            Self::EntryOnly { reason } | Self::NotMeasured { reason } => Some(reason),
        }
    }

    /// The better, the greater.
    #[must_use]
    pub(crate) const fn rank(self) -> u8 {
        match self {
            Self::NotMeasured { .. } => 0,
            Self::EntryOnly { .. } => 1,
            Self::Measured => 2,
        }
    }
}

const _: () = {
    assert!(size_of::<Block>() == 48);
    assert!(size_of::<Edge>() == 32);
    assert!(size_of::<Option<Line>>() == 8);
};
