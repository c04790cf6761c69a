//! The result model: what is known of a module's code and how often each part of it ran.
//!
//! A large compiler has more than a million blocks and two million edges; hence numbers instead of
//! references, text in one table per module, and what few blocks have (calls) beside the blocks.

mod count;
mod data;
mod function;
mod hubs;
mod level;
mod loops;
mod site;
mod source;
mod text;

pub use count::{Confidence, Count, Counter, Origin};
pub use data::{DataBlock, DataKind, Pointer};
pub use function::{Block, Call, CalledBy, Callee, Edge, EdgeKind, Function, Line, Loop, Node, Piece, State};
pub use hubs::{Hub, case_of, entry_of};
pub use level::Level;
pub use loops::LoopCounts;
pub use site::{CallSite, Foreign, SiteId, Target, TargetCount};
pub use source::Source;
pub use text::{TextId, Texts};

use relive_abi::rprof::{LOST_SHARED, LOST_TARGETS, SlotLayout};

/// What was counted, module by module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// One entry for each program or library, and for each way its code was understood.
    pub modules: Vec<Module>,
}

impl Profile {
    /// The name of the function a call led to, if this profile knows it.
    #[must_use]
    pub fn target_name<'p>(&'p self, module: &'p Module, target: Target) -> Option<&'p str> {
        self.target_in(module, target).map(|(module, function)| module.name(function))
    }

    /// The function a call led to, if this profile has it.
    #[must_use]
    pub fn target<'p>(&'p self, module: &'p Module, target: Target) -> Option<&'p Function> {
        self.target_in(module, target).map(|(_, function)| function)
    }

    fn target_in<'p>(&'p self, module: &'p Module, target: Target) -> Option<(&'p Module, &'p Function)> {
        match target {
            Target::Own(address) => Some((module, module.function_at(address)?)),
            Target::Foreign { module: foreign, address } => {
                let foreign = module.foreign.get(foreign as usize)?;
                let other = self
                    .modules
                    .iter()
                    .find(|m| !foreign.build_id.is_empty() && m.build_id == foreign.build_id)?;
                Some((other, other.function_at(address)?))
            }
            Target::Generated => None,
        }
    }
}

/// What was counted: how much of the rest follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Calls of functions.
    Functions,
    /// Blocks.
    Blocks,
    /// Edges, so everything.
    #[default]
    Edges,
}

impl Mode {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Blocks => "blocks",
            Self::Edges => "edges",
        }
    }
}

/// What can have gone wrong while counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost(pub u32);

impl Lost {
    /// Several threads or processes had to share counters: counts may be too low.
    #[must_use]
    pub const fn shared(self) -> bool {
        self.0 & LOST_SHARED != 0
    }

    /// There was no room for all targets of indirect calls.
    #[must_use]
    pub const fn targets(self) -> bool {
        self.0 & LOST_TARGETS != 0
    }
}

/// One program or library and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Where the code was when it was prepared for measuring.
    pub path: String,
    /// Its build-id; if it has none, a hash of its text.
    pub build_id: Vec<u8>,
    /// Stands for the code and the meaning of each counter. Set by whatever reads or writes the module:
    /// see [`crate::file::checksum`].
    pub checksum: u64,
    /// What was counted.
    pub mode: Mode,
    /// How many processes counted.
    pub runs: u64,
    /// Seconds since 1970 when the first of them began; zero if there was none.
    pub first_run: u64,
    /// Seconds since 1970 when the last of them began.
    pub last_run: u64,
    /// What went wrong.
    pub lost: Lost,
    /// Names and reasons.
    pub texts: Texts,
    /// Source files that [`Line::file`] means.
    pub files: Vec<String>,
    /// Whether only functions that ran are described. Of the others those are listed that a table of the file names:
    /// see [`Function::is_idle`].
    pub only_executed: bool,
    /// By address.
    pub functions: Vec<Function>,
    /// By address.
    pub data: Vec<DataBlock>,
    /// By place.
    pub pointers: Vec<Pointer>,
    /// Indirect calls whose targets are recorded. The order is that of [`SlotLayout`].
    pub sites: Vec<CallSite>,
    /// Other modules that indirect calls led to.
    pub foreign: Vec<Foreign>,
    /// What a program counts in. Without any counters, the counts of blocks and edges are all there is.
    pub layout: SlotLayout,
    /// What the counters came to, over all slots; empty if nothing was counted.
    pub counters: Vec<u64>,
    /// Which builds its counts were carried over from; empty if it was measured itself. Then it has no counters.
    pub carried: Vec<Source>,
}

impl Module {
    /// How often counters were incremented, in all runs together.
    #[must_use]
    pub fn increments(&self) -> u64 {
        let blocks = self.functions.iter().flat_map(|f| &f.blocks).filter(|block| block.counter.is_some());
        let edges = self.functions.iter().flat_map(|f| &f.edges).filter(|edge| edge.counter.is_some());
        let counts = blocks.map(|block| block.count).chain(edges.map(|edge| edge.count));
        counts.flatten().map(Count::value).fold(0, u64::saturating_add)
    }

    /// A text of this module.
    #[must_use]
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id)
    }

    /// The name of a function, as in the symbol table.
    #[must_use]
    pub fn name(&self, function: &Function) -> &str {
        self.text(function.name)
    }

    /// The path of a source file.
    #[must_use]
    pub fn file(&self, line: Line) -> &str {
        self.files.get(line.file() as usize).map_or("?", String::as_str)
    }

    /// The function that begins at `address`.
    #[must_use]
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let i = self.functions.binary_search_by_key(&address, |f| f.address).ok()?;
        self.functions.get(i)
    }

    /// What is called.
    #[must_use]
    pub fn callee_name(&self, callee: Callee) -> Option<&str> {
        match callee {
            Callee::Direct { name, .. } | Callee::Import { name } => Some(self.text(name)),
            Callee::Indirect { .. } => None,
        }
    }

    /// The recorded targets of a call.
    #[must_use]
    pub fn targets(&self, callee: Callee) -> &[TargetCount] {
        match callee {
            Callee::Indirect { site: Some(site) } => {
                self.sites.get(site.index() as usize).map_or(&[], |site| site.targets.as_slice())
            }
            _ => &[],
        }
    }

    /// How often a call was made; unknown where nothing was counted.
    #[must_use]
    pub fn call_count(&self, function: &Function, call: &Call) -> Option<Count> {
        match call.by {
            CalledBy::Block(block) => function.blocks.get(block as usize)?.count,
            CalledBy::Edge(edge) => function.edges.get(edge as usize)?.count,
        }
    }
}
