//! What is known of a build, in the form in which two are compared: from a profile alone, or from a binary that was
//! described as one.

use crate::levels::{self, Hashes, Mention, Read, Surroundings};
use crate::names::{self, Names};
use hashbrown::HashMap;
use rayon::prelude::*;
use relive_code::addr::LinkAddr;
use relive_profile::model::{Callee, DataKind, EdgeKind, Function, Hub, Module, entry_of};

/// A build.
pub struct Fingerprint<'m> {
    pub(crate) module: &'m Module,
    /// In the order of the module's functions.
    pub(crate) procedures: Vec<Procedure>,
    /// In the order of the module's data.
    pub(crate) data: Vec<Data>,
}

/// A procedure: a function with its blocks.
pub(crate) struct Procedure {
    /// `None` if nobody named it.
    pub(crate) names: Option<Names>,
    pub(crate) blocks: Vec<Block>,
    /// What blocks refer to, block after block.
    pub(crate) references: Vec<Reference>,
    /// The edges out of each block, and into each block.
    pub(crate) out: Adjacency,
    pub(crate) into: Adjacency,
    /// Instructions that do something.
    pub(crate) insns: u32,
    /// The block it is entered at.
    pub(crate) entry: Option<u32>,
}

/// A basic block.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) hashes: Hashes,
    pub(crate) insns: u32,
    /// Where its references begin.
    pub(crate) references: u32,
    /// Whether the last of them is of its last instruction.
    pub(crate) last_refers: bool,
    /// The condition of the branch it ends with, numbered as in its opcode.
    pub(crate) condition: Option<u8>,
}

/// What an instruction refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reference {
    /// A procedure, by index, and an address in it.
    Procedure(u32, u32),
    /// A data block, by index, and an address in it.
    Data(u32, u32),
    /// A function of another module: a hash of its name.
    Import(u64),
    /// Something nobody knows.
    Unknown,
}

/// A data block.
pub(crate) struct Data {
    /// A hash of its name without what the compiler numbered; zero if it has none.
    pub(crate) name: u64,
    pub(crate) kind: DataKind,
    pub(crate) hash: u64,
    pub(crate) size: u64,
}

/// How control goes from one block to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) kind: EdgeKind,
    /// Of a case, the first entry of the table that leads there.
    pub(crate) entry: u32,
}

/// For each block, its neighbours and how they are reached.
#[derive(Default)]
pub(crate) struct Adjacency {
    starts: Vec<u32>,
    ends: Vec<(u32, Way)>,
}

impl Adjacency {
    fn new(blocks: usize, mut edges: Vec<(u32, u32, Way)>) -> Self {
        edges.sort_unstable();
        edges.dedup();
        let mut starts = vec![0u32; blocks + 1];
        for &(from, ..) in &edges {
            starts[from as usize + 1] += 1;
        }
        for i in 0..blocks {
            starts[i + 1] += starts[i];
        }
        Self { starts, ends: edges.into_iter().map(|(_, to, way)| (to, way)).collect() }
    }

    /// The neighbours of a block.
    pub(crate) fn of(&self, block: u32) -> &[(u32, Way)] {
        &self.ends[self.starts[block as usize] as usize..self.starts[block as usize + 1] as usize]
    }
}

impl Procedure {
    /// What a block refers to, in the order of its instructions.
    pub(crate) fn references_of(&self, block: u32) -> &[Reference] {
        let start = self.blocks[block as usize].references as usize;
        let end =
            self.blocks.get(block as usize + 1).map_or(self.references.len(), |b| b.references as usize);
        &self.references[start..end]
    }
}

impl<'m> Fingerprint<'m> {
    /// The fingerprint of a module; `None` if it has no code in it, as early profiles.
    #[must_use]
    pub fn new(module: &'m Module) -> Option<Self> {
        if module.functions.iter().all(|f| f.code.is_empty()) {
            return None;
        }
        let places = Places::new(module);
        let procedures = module.functions.par_iter().map(|f| procedure(module, f, &places)).collect();
        let data = module
            .data
            .iter()
            .map(|block| Data {
                name: block.name.map_or(0, |name| names::of_data(module.text(name))),
                kind: block.kind,
                hash: block.hash,
                size: block.size,
            })
            .collect();
        Some(Self { module, procedures, data })
    }

    /// The module it was made of.
    #[must_use]
    pub fn module(&self) -> &'m Module {
        self.module
    }
}

/// Reads functions that are not in the module as they stand.
pub(crate) struct Reader<'m> {
    module: &'m Module,
    places: Places,
}

impl<'m> Reader<'m> {
    pub(crate) fn new(module: &'m Module) -> Self {
        Self { module, places: Places::new(module) }
    }

    /// What `function`, made of functions of the module, looks like.
    pub(crate) fn procedure(&self, function: &Function) -> Procedure {
        procedure(self.module, function, &self.places)
    }

    /// The same if it has the blocks of `known`, in which nothing but edges may be other.
    pub(crate) fn with_edges_of(known: &Procedure, function: &Function) -> Procedure {
        let (out, into) = neighbours(function);
        let (blocks, references) = (known.blocks.clone(), known.references.clone());
        Procedure { blocks, references, out, into, ..*known }
    }
}

/// Where things of a module are.
struct Places {
    /// Pieces of functions: first and last address, and whose.
    pieces: Vec<(u64, u64, u32)>,
    /// Data blocks: first and last address.
    data: Vec<(u64, u64)>,
    /// Code was linked for fixed addresses: numbers in it may be addresses.
    absolute: bool,
}

/// The lowest address of code in programs that are linked for a fixed address is far above; in others it is in the
/// first pages.
const FIXED: u64 = 0x1_0000;

impl Places {
    fn new(module: &Module) -> Self {
        let mut pieces: Vec<(u64, u64, u32)> = module
            .functions
            .iter()
            .zip(0..)
            .flat_map(|(f, i)| f.pieces.iter().map(move |p| (p.start, p.start.saturating_add(p.len), i)))
            .collect();
        pieces.sort_unstable();
        let data = module.data.iter().map(|d| (d.address, d.address.saturating_add(d.size))).collect();
        let absolute = pieces.first().is_some_and(|&(start, ..)| start >= FIXED);
        Self { pieces, data, absolute }
    }

    fn find(&self, module: &Module, at: u64) -> Option<Reference> {
        let i = self.pieces.partition_point(|&(start, ..)| start <= at);
        if let Some(&(start, end, function)) = self.pieces[..i].last()
            && at < end
        {
            let entry = module.functions[function as usize].address;
            let offset = if at == entry { 0 } else { at.wrapping_sub(start) as u32 | 1 << 31 };
            return Some(Reference::Procedure(function, offset));
        }
        let i = self.data.partition_point(|&(start, _)| start <= at);
        let &(start, end) = self.data[..i].last()?;
        (at < end || at == start).then(|| Reference::Data(i as u32 - 1, (at - start) as u32))
    }
}

/// A function being read.
struct Around<'a> {
    module: &'a Module,
    places: &'a Places,
    /// Addresses of blocks and their numbers, by address.
    starts: Vec<(u64, u32)>,
    references: Vec<Reference>,
}

impl Surroundings for Around<'_> {
    fn own_block(&self, at: LinkAddr) -> Option<u32> {
        let found = self.starts.binary_search_by_key(&at.0, |&(start, _)| start).ok()?;
        Some(self.starts[found].1)
    }

    fn noted(&self) -> usize {
        self.references.len()
    }

    fn note(&mut self, at: LinkAddr, how: Mention) -> bool {
        if how == Mention::Number {
            if !self.places.absolute || at.0 < FIXED {
                return false;
            }
            // A number that happens to lie somewhere in the module is most often just a number.
            match self.places.find(self.module, at.0) {
                Some(found @ (Reference::Procedure(_, 0) | Reference::Data(_, 0))) => {
                    self.references.push(found);
                    return true;
                }
                _ => return false,
            }
        }
        self.references.push(self.places.find(self.module, at.0).unwrap_or(Reference::Unknown));
        true
    }
}

/// More ways through one hub than this are left out: each jump would be a neighbour of each case.
const MOST_WAYS: usize = 1 << 16;

fn procedure(module: &Module, function: &Function, places: &Places) -> Procedure {
    let mut starts: Vec<(u64, u32)> = function.blocks.iter().map(|b| b.address).zip(0..).collect();
    starts.sort_unstable();
    let mut around = Around { module, places, starts, references: Vec::new() };
    let mut blocks = Vec::with_capacity(function.blocks.len());
    for (block, own) in function.blocks.iter().zip(0..) {
        let references = around.references.len() as u32;
        let bytes = function.bytes_at(block.address, block.size.into()).unwrap_or_default();
        let start = LinkAddr(function.address);
        let Read { hashes, insns, last_refers, condition } =
            levels::read(bytes, LinkAddr(block.address), start, own, &mut around);
        blocks.push(Block { hashes, insns, references, last_refers, condition });
    }
    let mut references = around.references;
    name_imports(module, function, &blocks, &mut references);
    let (out, into) = neighbours(function);
    let entry = function.block_at(function.address);
    Procedure {
        names: Names::new(module.name(function), function.address),
        insns: blocks.iter().map(|b| b.insns).sum(),
        blocks,
        references,
        out,
        into,
        entry,
    }
}

/// Calls of other modules go to stubs, which are no functions of the module: the profile says what they call.
fn name_imports(module: &Module, function: &Function, blocks: &[Block], references: &mut [Reference]) {
    use relive_profile::model::CalledBy;
    for call in &function.calls {
        let Callee::Import { name } = call.callee else { continue };
        let block = match call.by {
            CalledBy::Block(block) => Some(block),
            CalledBy::Edge(edge) => function.edges.get(edge as usize).and_then(|e| e.from.as_block()),
        };
        let Some(block) = block.map(|b| b as usize).filter(|&b| b < blocks.len()) else { continue };
        let end = blocks.get(block + 1).map_or(references.len(), |b| b.references as usize);
        // The call is the last instruction of its block.
        let own = &mut references[blocks[block].references as usize..end];
        if let Some(last) = own.last_mut().filter(|r| !matches!(r, Reference::Procedure(_, 0))) {
            *last = Reference::Import(names::hash(module.text(name)));
        }
    }
}

/// The edges of a function between blocks, those through hubs made direct.
fn neighbours(function: &Function) -> (Adjacency, Adjacency) {
    let blocks = function.blocks.len();
    let mut edges = Vec::with_capacity(function.edges.len());
    let entries: HashMap<u32, u32> =
        function.cases.iter().map(|&(edge, case)| (edge, entry_of(case))).collect();
    let way = |edge: u32| {
        let kind = function.edges[edge as usize].kind;
        Way { kind, entry: entries.get(&edge).copied().unwrap_or(0) }
    };
    for (edge, number) in function.edges.iter().zip(0..) {
        if let (Some(from), Some(to)) = (edge.from.as_block(), edge.to.as_block()) {
            edges.push((from, to, way(number)));
        }
    }
    for hub in Hub::all(function).iter().filter(|hub| hub.most_ways() <= MOST_WAYS) {
        for &from in hub.jumps() {
            let cases =
                hub.cases(from).filter_map(|edge| Some((edge, function.edges[edge as usize].to.as_block()?)));
            edges.extend(cases.map(|(edge, to)| (from, to, Way { kind: EdgeKind::Case, ..way(edge) })));
        }
    }
    let turned = edges.iter().map(|&(from, to, way)| (to, from, way)).collect();
    (Adjacency::new(blocks, edges), Adjacency::new(blocks, turned))
}
