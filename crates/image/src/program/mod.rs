//! The program that the facts describe: its functions, each with its control-flow graph.

mod analyze;
mod call_graph;
mod executed;
mod holes;
mod layout;
mod links;
pub mod needs;
mod noreturn;
mod pieces;
mod reach;
mod references;
mod statistics;
mod units;
mod world;

pub use analyze::{Analysis, analyze, analyze_executed, analyze_watched};
pub use call_graph::{Call, CallGraph, Callee};
pub use executed::Executed;
pub use statistics::{Amount, Statistics};
pub use units::Contradiction;

use crate::error::Complaint;
use crate::provenance::{Provenance, Vouchers};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{Cfg, GapKind, Reason};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// A function of the program; functions are numbered by address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// The index into [`Program::functions`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fn{}", self.0)
    }
}

impl fmt::Debug for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A function: one entry or several, one piece of code or several.
#[derive(Clone, Debug)]
pub struct Function<'d> {
    /// Where it is entered.
    pub entry: LinkAddr,
    /// Its names; none if nobody named it. The first is the one to show.
    pub names: Vec<Cow<'d, str>>,
    /// Who says that there is a function here.
    pub vouchers: Vouchers,
    /// Its code.
    pub cfg: Cfg,
    /// Whether control can come back from it.
    pub returns: bool,
}

impl Function<'_> {
    /// The name to show: its own, or one made from its address.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        match self.names.first() {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(format!("fn_{:x}", self.entry.0)),
        }
    }

    /// Whether nobody says that there is a function, and no code that is one leads here: it only looks like it.
    #[must_use]
    pub fn is_guess(&self) -> bool {
        self.vouchers.best() == Some(Provenance::Heuristic)
    }

    /// Whether its code was looked at. If not, nothing but its outline is known.
    #[must_use]
    pub fn is_read(&self) -> bool {
        !self.cfg.blocks.is_empty() || !self.cfg.is_understood()
    }

    /// Bytes in all its pieces.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.cfg.pieces.iter().map(AddrRange::len).sum()
    }

    /// Whether it covers `at`.
    #[must_use]
    pub fn contains(&self, at: LinkAddr) -> bool {
        self.cfg.pieces.iter().any(|p| p.contains(at))
    }

    /// The main reason why it is not understood.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        self.cfg.problems.first().map(|p| p.reason)
    }
}

/// A stretch of text that belongs to no function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// Where.
    pub range: AddrRange,
    /// What it is.
    pub kind: StretchKind,
}

/// What a stretch outside all functions is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StretchKind {
    /// Stubs of imported functions.
    Stubs,
    /// Fill between functions.
    Padding,
    /// Data the symbol table names.
    Data,
    /// Nobody knows.
    Unknown,
}

/// A whole program.
pub struct Program<'d> {
    /// Functions by entry address.
    pub functions: Vec<Function<'d>>,
    /// Whether only functions that were executed were read.
    pub only_executed: bool,
    /// Text that is in no function, by address.
    pub stretches: Vec<Stretch>,
    /// Where sources of facts disagree.
    pub contradictions: Vec<Contradiction>,
    /// What could not be read on the way.
    pub complaints: Vec<Complaint>,
    /// Pieces of functions by address, and whose they are.
    pieces: Vec<(AddrRange, FunctionId)>,
    /// How long each phase took.
    pub timings: Vec<(&'static str, Duration)>,
}

impl<'d> Program<'d> {
    /// The function with that number.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function<'d> {
        &self.functions[id.index()]
    }

    /// All functions with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (FunctionId, &Function<'d>)> {
        (0..).map(FunctionId).zip(&self.functions)
    }

    /// The function whose entry is `at`.
    #[must_use]
    pub fn function_at(&self, at: LinkAddr) -> Option<FunctionId> {
        self.functions.binary_search_by_key(&at, |f| f.entry).ok().map(|i| FunctionId(i as u32))
    }

    /// The function that covers `at`.
    #[must_use]
    pub fn function_holding(&self, at: LinkAddr) -> Option<FunctionId> {
        let behind = self.pieces.partition_point(|(range, _)| range.start <= at);
        self.pieces[..behind].last().filter(|(range, _)| range.contains(at)).map(|&(_, id)| id)
    }

    /// Bytes of text, and how many of them are understood: in understood functions, stubs, padding and data.
    #[must_use]
    pub fn text_bytes(&self) -> (u64, u64) {
        let (mut total, mut understood) = (0, 0);
        for function in &self.functions {
            total += function.size();
            if function.cfg.is_understood() {
                understood += function.size();
            }
        }
        for stretch in &self.stretches {
            total += stretch.range.len();
            if stretch.kind != StretchKind::Unknown {
                understood += stretch.range.len();
            }
        }
        (total, understood)
    }

    /// Bytes between blocks, inside functions, of one kind.
    #[must_use]
    pub fn gap_bytes(&self, kind: GapKind) -> u64 {
        self.functions
            .iter()
            .flat_map(|f| &f.cfg.gaps)
            .filter(|g| g.kind == kind)
            .map(|g| g.range.len())
            .sum()
    }
}
