//! Any bytes as memory with a function in it.
//!
//! The input is a byte of flags, a byte that tells how many claims follow, the claims, and the memory.
//! A claim is a byte that tells what is claimed, and three numbers of two bytes, most of them offsets
//! into the memory. Every input means something; [`Case::encode`] is the way back.

use crate::stopwatch::timed;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{Cfg, EdgeKind, Outline, Target, recover};
use relive_code::dominators::DominatorTree;
use relive_code::liveness::{Convention, Liveness};
use relive_code::loops::LoopForest;
use relive_code::source::{CodeSource, Pointer, Returns, Surroundings};
use relive_code::stack_height::StackHeights;
use relive_code::verify;
use std::collections::BTreeMap;

/// Graphs above this many blocks are spared the checkers that take time with the square of it.
const SMALL: usize = 100;

/// Above this, they are spared the one that runs the code: it takes a quarter of a second for 100 blocks.
const TINY: usize = 20;

/// What must hold of every function: its graph is sound, and so is what follows from it.
///
/// # Panics
/// If it does not hold.
pub fn check(bytes: &[u8]) {
    let case = Case::decode(bytes);
    if case.memory.is_empty() {
        return;
    }
    let world = World::new(&case);
    let outline = case.outline();
    let mut cfg = Cfg::default();
    timed("a function", bytes.len(), || cfg = recover(&world, &outline));
    holds("graph", &cfg, &outline, verify::cfg::check(&cfg, &world));
    let heights = StackHeights::new(&cfg, &world);
    for (id, block) in cfg.numbered_blocks() {
        assert_eq!(heights.per_insn(id).len(), block.insns(&world).count());
    }
    if cfg.blocks.len() > SMALL {
        return;
    }
    if cfg.blocks.len() <= TINY {
        holds("stack heights", &cfg, &outline, verify::stack_height::check(&cfg, &world, &heights));
    }
    let (graph, roots) = (cfg.graph(), cfg.roots());
    let tree = DominatorTree::new(&graph, &roots);
    holds("dominators", &cfg, &outline, verify::dominators::check(&graph, &roots, &tree));
    let exits = exits(&cfg);
    let post = DominatorTree::post(&graph, &exits);
    holds("post-dominators", &cfg, &outline, verify::dominators::check_post(&graph, &exits, &post));
    let forest = LoopForest::new(&graph, &tree);
    holds("loops", &cfg, &outline, verify::loops::check(&graph, &roots, &forest));
    for convention in [Convention::system_v(), Convention::cautious()] {
        let liveness = Liveness::new(&cfg, &world, &convention);
        let result = verify::liveness::check(&cfg, &world, &convention, &liveness);
        holds("liveness", &cfg, &outline, result);
    }
}

/// The graph of the function that the case describes.
#[must_use]
pub fn graph(case: &Case) -> Cfg {
    recover(&World::new(case), &case.outline())
}

fn holds(what: &str, cfg: &Cfg, outline: &Outline, result: Result<(), String>) {
    if let Err(why) = result {
        panic!("{what}: {why}\n{outline:?}\n{}", cfg.dump());
    }
}

/// Blocks from which control leaves the function.
fn exits(cfg: &Cfg) -> Vec<u32> {
    let leaves = |id| {
        cfg.edges_from(id).iter().any(|e| !matches!(e.to, Target::Block(_)) && e.kind != EdgeKind::LandingPad)
    };
    cfg.numbered_blocks().map(|(id, _)| id).filter(|&id| leaves(id)).map(|id| id.0).collect()
}

/// What a claim is about; its numbers are `a`, `b` and `c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum About {
    /// The function has a piece from `a` to `b`.
    Piece,
    /// It is entered at `a`.
    Entry,
    /// An exception thrown from `a` to `b` lands at `c`.
    LandingPad,
    /// A block starts at `a`.
    Leader,
    /// Data lies from `a` to `b`.
    Data,
    /// Nothing comes back from `a`; if `b` is even, nobody knows.
    NoReturn,
    /// The slot at `a` leads to something that never returns.
    NoReturnSlot,
    /// A function begins at `a`.
    Function,
    /// The address of `a` is stored somewhere.
    Label,
    /// The word at `a` holds the address of `b`; if `c` is odd, of something elsewhere.
    Pointer,
    /// The table at `a` has `b` entries.
    TableLen,
    /// Something refers to `a`.
    Reference,
    /// Memory from `a` to `b` can be written.
    Writable,
}

impl About {
    const ALL: [Self; 13] = [
        Self::Piece,
        Self::Entry,
        Self::LandingPad,
        Self::Leader,
        Self::Data,
        Self::NoReturn,
        Self::NoReturnSlot,
        Self::Function,
        Self::Label,
        Self::Pointer,
        Self::TableLen,
        Self::Reference,
        Self::Writable,
    ];
}

/// Something that is claimed of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// What it is about.
    pub about: About,
    /// What it says.
    pub numbers: [u16; 3],
}

/// Memory, and claims about the function in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The lowest two bits choose where the memory lies; then: nobody says where the function ends,
    /// and words hold addresses without anyone claiming so.
    pub flags: u8,
    /// What is claimed.
    pub claims: Vec<Claim>,
    /// The memory.
    pub memory: Vec<u8>,
}

/// The bytes of a claim.
const CLAIM: usize = 7;
/// Nobody says where the function ends.
pub const OPEN_ENDED: u8 = 4;
/// Words hold addresses without anyone claiming so.
pub const BARE_POINTERS: u8 = 8;
/// Where memory lies unless the flags say otherwise.
pub const BASE: LinkAddr = LinkAddr(0x1000);

impl Case {
    /// What the bytes mean.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let flags = bytes.first().copied().unwrap_or(0);
        let wanted = usize::from(bytes.get(1).copied().unwrap_or(0));
        let rest = bytes.get(2..).unwrap_or(&[]);
        let count = wanted.min(rest.len() / CLAIM);
        let (claims, memory) = rest.split_at(count * CLAIM);
        let claims = claims.as_chunks::<CLAIM>().0.iter().map(|claim| {
            let about = About::ALL[usize::from(claim[0]) % About::ALL.len()];
            let number = |i: usize| u16::from_le_bytes([claim[1 + 2 * i], claim[2 + 2 * i]]);
            Claim { about, numbers: [number(0), number(1), number(2)] }
        });
        Self { flags, claims: claims.collect(), memory: memory.to_vec() }
    }

    /// Bytes that mean this; no more than 255 claims.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.flags, self.claims.len().min(255) as u8];
        for claim in self.claims.iter().take(255) {
            bytes.push(claim.about as u8);
            bytes.extend(claim.numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        bytes.extend(&self.memory);
        bytes
    }

    fn base(&self) -> LinkAddr {
        match self.flags & 3 {
            0 | 1 => BASE,
            2 => LinkAddr(0),
            // Up to the last address of all.
            _ => LinkAddr(u64::MAX - self.memory.len() as u64),
        }
    }

    fn all(&self, about: About) -> impl Iterator<Item = [LinkAddr; 3]> {
        let base = self.base();
        let place = move |number: u16| LinkAddr(base.0.saturating_add(u64::from(number)));
        self.claims
            .iter()
            .filter(move |claim| claim.about == about)
            .map(move |claim| claim.numbers.map(place))
    }

    /// The outline as whoever calls [`recover`] has to make it: pieces sorted, apart from each other
    /// and not empty, and entries inside them.
    fn outline(&self) -> Outline {
        let mut pieces: Vec<AddrRange> =
            self.all(About::Piece).map(|[a, b, _]| AddrRange::new(a, b)).filter(|p| !p.is_empty()).collect();
        pieces.sort_unstable();
        let mut end = LinkAddr(0);
        pieces.retain(|piece| {
            let apart = end <= piece.start;
            end = end.max(piece.end);
            apart
        });
        if pieces.is_empty() {
            pieces.push(AddrRange::sized(self.base(), self.memory.len() as u64));
        }
        let mut entries: Vec<LinkAddr> = self.all(About::Entry).map(|[at, ..]| at).collect();
        entries.retain(|&at| pieces.iter().any(|p| p.contains(at)));
        let mut seen = Vec::new();
        entries.retain(|at| {
            !seen.contains(at) && {
                seen.push(*at);
                true
            }
        });
        if entries.is_empty() {
            entries.push(pieces[0].start);
        }
        let mut landing_pads: Vec<(AddrRange, LinkAddr)> =
            self.all(About::LandingPad).map(|[a, b, pad]| (AddrRange::new(a, b), pad)).collect();
        landing_pads.sort_unstable();
        Outline {
            pieces,
            entries,
            landing_pads,
            leaders: self.all(About::Leader).map(|[at, ..]| at).collect(),
            data: self.all(About::Data).map(|[a, b, _]| AddrRange::new(a, b)).collect(),
            open_ended: self.flags & OPEN_ENDED != 0,
        }
    }
}

/// The memory, and what is claimed of it, as the analysis asks for it.
struct World<'c> {
    case: &'c Case,
    base: LinkAddr,
    no_return: BTreeMap<LinkAddr, Returns>,
    slots: Vec<LinkAddr>,
    functions: Vec<LinkAddr>,
    labels: Vec<LinkAddr>,
    pointers: BTreeMap<LinkAddr, Pointer>,
    table_lens: BTreeMap<LinkAddr, u64>,
    references: Vec<LinkAddr>,
    writable: Vec<AddrRange>,
}

impl<'c> World<'c> {
    fn new(case: &'c Case) -> Self {
        let places = |about| {
            let mut places: Vec<LinkAddr> = case.all(about).map(|[at, ..]| at).collect();
            places.sort_unstable();
            places
        };
        let no_return = case
            .all(About::NoReturn)
            .map(|[at, how, _]| (at, if how.0 % 2 == 0 { Returns::SeeminglyNot } else { Returns::Never }));
        let pointers = case
            .all(About::Pointer)
            .map(|[at, to, how]| (at, if how.0 % 2 == 0 { Pointer::Here(to) } else { Pointer::Import }));
        let base = case.base();
        Self {
            case,
            base,
            no_return: no_return.collect(),
            slots: places(About::NoReturnSlot),
            functions: places(About::Function),
            labels: places(About::Label),
            pointers: pointers.collect(),
            table_lens: case.all(About::TableLen).map(|[at, len, _]| (at, len.since(base))).collect(),
            references: places(About::Reference),
            writable: case.all(About::Writable).map(|[a, b, _]| AddrRange::new(a, b)).collect(),
        }
    }

    fn has(&self, at: LinkAddr) -> bool {
        at.since(self.base) < self.case.memory.len() as u64
    }

    /// Code of others, which cannot be read.
    fn is_foreign_code(&self, at: LinkAddr) -> bool {
        (0x10_0000..0x20_0000).contains(&at.since(self.base))
    }
}

impl CodeSource for World<'_> {
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        usize::try_from(at.since(self.base)).ok().and_then(|from| self.case.memory.get(from..)).unwrap_or(&[])
    }
}

impl Surroundings for World<'_> {
    fn returns(&self, callee: LinkAddr) -> Returns {
        self.no_return.get(&callee).copied().unwrap_or(Returns::Yes)
    }

    fn returns_through(&self, slot: LinkAddr) -> Returns {
        if self.slots.binary_search(&slot).is_ok() { Returns::Never } else { Returns::Yes }
    }

    fn is_function_start(&self, at: LinkAddr) -> bool {
        self.functions.binary_search(&at).is_ok() || self.is_foreign_code(at) && at.0.is_multiple_of(16)
    }

    fn is_code(&self, at: LinkAddr) -> bool {
        self.has(at) || self.is_foreign_code(at)
    }

    fn pointer(&self, at: LinkAddr) -> Pointer {
        match self.pointers.get(&at) {
            Some(pointer) => *pointer,
            None if self.case.flags & BARE_POINTERS != 0 => match self.read_u64(at).map(LinkAddr) {
                Some(to) if self.has(to) => Pointer::Here(to),
                _ => Pointer::None,
            },
            None => Pointer::None,
        }
    }

    fn is_constant(&self, at: LinkAddr) -> bool {
        self.has(at) && !self.writable.iter().any(|range| range.contains(at))
    }

    fn next_reference(&self, at: LinkAddr) -> Option<LinkAddr> {
        self.references.get(self.references.partition_point(|&r| r <= at)).copied()
    }

    fn stated_table_len(&self, at: LinkAddr) -> Option<u64> {
        self.table_lens.get(&at).copied()
    }

    fn labels(&self, range: AddrRange, found: &mut dyn FnMut(LinkAddr)) {
        self.labels.iter().copied().filter(|&at| range.contains(at)).for_each(found);
    }
}
