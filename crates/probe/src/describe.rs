//! Describes a measured module for its profile: the code, and what each counter means.

use crate::graph::{Arc, ArcKind, Flow, Node};
use crate::placement::Plan;
use rayon::prelude::*;
use relive_abi::hash;
use relive_abi::rprof::SlotLayout;
use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg, End};
use relive_code::dominators::DominatorTree;
use relive_code::graph::Graph;
use relive_code::loops::LoopForest;
use relive_image::data::{self, Data};
use relive_image::elf::Elf;
use relive_image::identity::Identity;
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::program::{Function, FunctionId, Program};
use relive_image::watch::Watch;
use relive_profile::file::ImageWriter;
use relive_profile::model as profile;
use relive_profile::model::{CalledBy, Callee, Counter, DataKind, EdgeKind, SiteId, State, Texts, case_of};
use std::collections::HashMap;

/// How a function is measured.
pub struct Measured {
    /// Its flow.
    pub flow: Flow,
    /// What is counted.
    pub plan: Plan,
    /// The number of its first counter.
    pub first_counter: u32,
    /// Its indirect call sites.
    pub sites: HashMap<BlockId, u32>,
}

/// What becomes of a function.
pub enum Fate {
    /// It is measured.
    Measured(Box<Measured>),
    /// It stays as it is, and why.
    Left(String),
    /// It never ran, and nobody asks for more than its name.
    Idle,
}

/// What is asked of a description.
pub struct Subject<'a, 'd> {
    /// What the file says.
    pub image: &'a Image<'d>,
    /// What follows.
    pub program: &'a Program<'d>,
    /// Source lines, if anyone wants to know them.
    pub lines: Option<&'a Lines<'d>>,
    /// By function.
    pub fates: &'a [Fate],
    /// What a slot holds.
    pub layout: SlotLayout,
    /// The block of each indirect call site.
    pub sites: &'a [(FunctionId, BlockId)],
    /// Where the file is.
    pub path: &'a str,
    /// What is counted.
    pub mode: profile::Mode,
    /// Told how far it is.
    pub watch: &'a Watch,
}

/// How many functions are worked on at once: enough to keep all threads busy, few enough to hold.
const AT_ONCE: usize = 1024;

/// Describes the module: what a new profile begins with.
#[must_use]
pub fn describe(subject: &Subject<'_, '_>) -> Vec<u8> {
    let mut image = ImageWriter::default();
    let module = describe_to(subject, |function| image.add(&function));
    image.finish(&module)
}

/// The same as a module without counts.
#[must_use]
pub fn module(subject: &Subject<'_, '_>) -> profile::Module {
    let mut functions = Vec::with_capacity(subject.program.functions.len());
    let module = describe_to(subject, |function| functions.push(function));
    profile::Module { functions, ..module }
}

/// Hands over function after function; what is left of the module comes back.
fn describe_to(subject: &Subject<'_, '_>, mut add: impl FnMut(profile::Function) + Send) -> profile::Module {
    let mut module = profile::Module {
        path: subject.path.to_string(),
        build_id: build_id(&subject.image.elf, &subject.image.identity),
        mode: subject.mode,
        layout: subject.layout,
        only_executed: subject.program.only_executed,
        ..profile::Module::default()
    };
    let data = Data::new(subject.image, subject.program);
    let labels = Labels::new(subject.image, &data);
    let numbered: Vec<_> = subject.program.functions.iter().zip(subject.fates).collect();
    // What needs the code itself is done in parallel; names are collected behind it.
    let each = |some: &[(&Function<'_>, &Fate)]| -> Vec<Described<'_>> {
        some.par_iter().map(|(function, fate)| function_of(subject, &labels, function, fate)).collect()
    };
    subject.watch.begin(numbered.len());
    let mut files: HashMap<&str, u32> = HashMap::new();
    let mut batches = numbered.chunks(AT_ONCE);
    let mut next = batches.next().map(|batch| (batch, each(batch)));
    while let Some((batch, described)) = next {
        let name_all = || {
            for (&(function, fate), described) in batch.iter().zip(described) {
                add(named(subject, function, fate, described, &mut module.texts, &mut files));
                subject.watch.step();
            }
        };
        (_, next) = rayon::join(name_all, || batches.next().map(|batch| (batch, each(batch))));
    }
    module.files = vec![String::new(); files.len()];
    for (file, number) in files {
        module.files[number as usize] = file.to_string();
    }
    module.sites = subject
        .sites
        .iter()
        .map(|&(function, block)| profile::CallSite {
            function: function.0,
            block: block.0,
            address: subject.program.function(function).cfg.block(block).last_insn().0,
            targets: Vec::new(),
        })
        .collect();
    describe_data(subject, &data, &mut module);
    module
}

/// What code speaks of, so that it is recognised by it in another build.
fn describe_data(subject: &Subject<'_, '_>, data: &Data<'_>, module: &mut profile::Module) {
    module.pointers = data.pointers.iter().map(|&(at, to)| profile::Pointer { at: at.0, to: to.0 }).collect();
    let hashes: Vec<u64> =
        data.blocks.par_iter().map(|block| content(&subject.image.elf, block, &data.pointers)).collect();
    for (block, hash) in data.blocks.iter().zip(hashes) {
        module.data.push(profile::DataBlock {
            address: block.range.start.0,
            size: block.range.len(),
            name: block.name.as_ref().map(|name| module.texts.intern(name)),
            kind: match block.kind {
                data::DataKind::Constant => DataKind::Constant,
                data::DataKind::Text => DataKind::Text,
                data::DataKind::Literal => DataKind::Literal,
                data::DataKind::Variable => DataKind::Variable,
                data::DataKind::Zeroed => DataKind::Zeroed,
                data::DataKind::JumpTable => DataKind::JumpTable,
                data::DataKind::Import => DataKind::Import,
            },
            hash,
        });
    }
}

/// A hash of what a data block holds, without addresses.
fn content(elf: &Elf<'_>, block: &data::DataBlock<'_>, pointers: &[(LinkAddr, LinkAddr)]) -> u64 {
    use data::DataKind as Kind;
    let bytes = match block.kind {
        Kind::Zeroed | Kind::JumpTable | Kind::Import => return 0,
        _ => elf.bytes_in(block.range.start, block.range.len()).unwrap_or_default(),
    };
    if matches!(block.kind, Kind::Text | Kind::Literal) {
        return hash::of(&bytes[..data::text_len(bytes).unwrap_or(bytes.len())]);
    }
    let first = pointers.partition_point(|(at, _)| *at < block.range.start);
    let inside = pointers[first..].iter().take_while(|(at, _)| *at < block.range.end);
    let (mut sum, mut done) = (hash::EMPTY, 0);
    for (at, _) in inside {
        let from = at.since(block.range.start) as usize;
        let to = (from + 8).min(bytes.len());
        if from >= done {
            sum = hash::fnv1a(sum, &bytes[done..from]);
            sum = hash::fnv1a(sum, &[0; 8][..to - from]);
            done = to;
        }
    }
    hash::fnv1a(sum, &bytes[done..])
}

/// A function with the names it speaks of.
fn named<'l>(
    subject: &Subject<'_, '_>,
    function: &Function<'_>,
    fate: &Fate,
    described: Described<'l>,
    texts: &mut Texts,
    files: &mut HashMap<&'l str, u32>,
) -> profile::Function {
    let name = texts.intern(&function.name());
    let state = match fate {
        Fate::Measured(measured) if measured.plan.partial => {
            State::EntryOnly { reason: texts.intern("measured in part, as was asked for") }
        }
        Fate::Measured(_) | Fate::Idle => State::Measured,
        Fate::Left(reason) => State::NotMeasured { reason: texts.intern(reason) },
    };
    let mut out = profile::Function::new(name, function.entry.0, function.size(), state);
    if matches!(fate, Fate::Idle) {
        return out;
    }
    let pieces = function.cfg.pieces.iter();
    out.pieces = pieces.map(|p| profile::Piece { start: p.start.0, len: p.len() }).collect();
    for piece in &function.cfg.pieces {
        let bytes = subject.image.elf.bytes_in(piece.start, piece.len()).unwrap_or_default();
        out.code.extend(bytes);
        // What the file does not hold is zero in memory.
        out.code.resize(out.code.len() + piece.len() as usize - bytes.len(), 0);
    }
    out.blocks = described.blocks;
    out.edges = described.edges;
    out.cases = described.cases;
    out.loops = described.loops;
    if let Fate::Measured(measured) = fate {
        out.hubs = measured.flow.hubs.len() as u32;
        out.called = measured.plan.called;
        out.approximate = measured.flow.approximate.map(|why| texts.intern(why));
    }
    for (by, site, called) in described.calls {
        let callee = callee(subject, called, texts);
        out.calls.push(profile::Call { by, address: site.0, callee });
    }
    for (block, file, line) in described.lines {
        let next = files.len() as u32;
        let number = *files.entry(file).or_insert(next);
        out.blocks[block].line = Some(profile::Line::new(number, line));
    }
    for a_loop in &mut out.loops {
        a_loop.line = out.blocks[a_loop.header as usize].line;
    }
    out
}

/// A function without names.
struct Described<'l> {
    blocks: Vec<profile::Block>,
    edges: Vec<profile::Edge>,
    cases: Vec<(u32, u32)>,
    loops: Vec<profile::Loop>,
    /// Who calls, where, and what.
    calls: Vec<(CalledBy, LinkAddr, Called)>,
    /// Block, file, line.
    lines: Vec<(usize, &'l str, u32)>,
}

enum Called {
    To(LinkAddr),
    Through(LinkAddr),
    Indirect(Option<u32>),
}

fn function_of<'l>(
    subject: &'l Subject<'_, '_>,
    labels: &Labels,
    function: &Function<'_>,
    fate: &Fate,
) -> Described<'l> {
    let cfg = &function.cfg;
    let mut out = Described {
        blocks: blocks(cfg),
        edges: Vec::new(),
        cases: Vec::new(),
        loops: loops(cfg),
        calls: Vec::new(),
        lines: Vec::new(),
    };
    for (id, block) in cfg.numbered_blocks() {
        // Line 0 is code that stands for no line: it was made up by the compiler.
        let location = subject.lines.and_then(|lines| lines.at(block.start));
        if let Some(location) = location.filter(|location| location.line > 0) {
            out.lines.push((id.index(), location.file, location.line));
        }
    }
    let Fate::Measured(measured) = fate else { return out };
    let counter = |number: Option<u32>| number.map(|n| Counter::new(measured.first_counter + n));
    for (block, number) in out.blocks.iter_mut().zip(&measured.plan.blocks) {
        block.counter = counter(*number);
    }
    for (arc, number) in measured.flow.arcs.iter().zip(&measured.plan.arcs) {
        out.edges.push(profile::Edge {
            from: node(arc.from),
            to: node(arc.to),
            counter: counter(*number),
            kind: kind(arc.kind),
            count: None,
        });
    }
    out.cases = cases(cfg, &measured.flow, labels);
    for (id, block) in cfg.numbered_blocks().filter(|(_, b)| b.reached) {
        let called = match block.end {
            End::Call(to) => Called::To(to),
            End::IndirectCall(Some(slot)) if !measured.sites.contains_key(&id) => Called::Through(slot),
            End::IndirectCall(_) => Called::Indirect(measured.sites.get(&id).copied()),
            _ => continue,
        };
        out.calls.push((CalledBy::Block(id.0), block.last_insn(), called));
    }
    for (i, arc) in measured.flow.arcs.iter().enumerate() {
        let leaves = matches!(
            arc,
            Arc { kind: ArcKind::TailCall | ArcKind::FallThrough | ArcKind::Taken, to: Node::Outside, .. }
        );
        if !leaves {
            continue;
        }
        let site = match arc.from {
            Node::Block(from) => cfg.block(from).last_insn(),
            Node::Hub(hub) => cfg.block(measured.flow.hubs[hub as usize].jumps[0]).last_insn(),
            Node::Outside => continue,
        };
        let called = match (measured.flow.outside(i), arc.from) {
            (Some(to), _) => Called::To(to),
            (None, Node::Block(from)) => {
                let slot =
                    cfg.block(from).insns(&subject.image.elf).last().and_then(|i| i.fixed_memory_operand());
                match (measured.sites.get(&from), slot) {
                    (None, Some(slot)) => Called::Through(slot),
                    (site, _) => Called::Indirect(site.copied()),
                }
            }
            (None, _) => Called::Indirect(None),
        };
        out.calls.push((CalledBy::Edge(i as u32), site, called));
    }
    out
}

/// Places in code whose address data holds: a computed `goto` finds them there.
struct Labels {
    /// The place, and how many words that hold such places lie right before the one that holds it. By place.
    entries: Vec<(LinkAddr, u32)>,
}

impl Labels {
    fn new(image: &Image<'_>, data: &Data<'_>) -> Self {
        let mut entries = Vec::new();
        let (mut expected, mut index) = (None, 0);
        for &(at, to) in data.pointers.iter().filter(|(_, to)| image.elf.is_text(*to)) {
            index = if expected == Some(at) { index + 1 } else { 0 };
            entries.push((to, index));
            expected = Some(at.offset(8));
        }
        entries.sort_unstable();
        entries.dedup_by_key(|(to, _)| *to);
        Self { entries }
    }

    fn entry(&self, to: LinkAddr) -> Option<u32> {
        self.entries.binary_search_by_key(&to, |(to, _)| *to).ok().map(|i| self.entries[i].1)
    }
}

/// Of each arc that is a case, the first entry of the table that leads there, and behind a hub whose table.
fn cases(cfg: &Cfg, flow: &Flow, labels: &Labels) -> Vec<(u32, u32)> {
    let mut first: HashMap<(LinkAddr, LinkAddr), u32> = HashMap::new();
    for table in &cfg.tables {
        for (&to, entry) in table.targets.iter().zip(0..) {
            // Where no table was found, the labels it may hold are known, not their order.
            let is_table = table.table != LinkAddr(0);
            if let Some(entry) = if is_table { Some(entry) } else { labels.entry(to) } {
                first.entry((table.site, to)).or_insert(entry);
            }
        }
    }
    if first.is_empty() {
        return Vec::new();
    }
    let mut cases = Vec::new();
    for (arc, number) in flow.arcs.iter().zip(0..) {
        let (ArcKind::Case, Node::Block(to)) = (arc.kind, arc.to) else { continue };
        let to = cfg.block(to).start;
        let jumps = match &arc.from {
            Node::Block(block) => std::slice::from_ref(block),
            Node::Hub(hub) => &flow.hubs[*hub as usize].jumps,
            Node::Outside => continue,
        };
        let case = |(number, &jump): (usize, &BlockId)| {
            let entry = first.get(&(cfg.block(jump).last_insn(), to))?;
            case_of(number, *entry)
        };
        if let Some(case) = jumps.iter().enumerate().find_map(case) {
            cases.push((number, case));
        }
    }
    cases
}

fn callee(subject: &Subject<'_, '_>, called: Called, texts: &mut Texts) -> Callee {
    match called {
        Called::To(at) => match (subject.image.stub_holding(at), subject.program.function_holding(at)) {
            (Some(stub), _) => match subject.image.stub_name(stub) {
                Some(name) => Callee::Import { name: texts.intern(&name) },
                None => Callee::Indirect { site: None },
            },
            (None, Some(id)) => {
                let name = texts.intern(&subject.program.function(id).name());
                Callee::Direct { address: at.0, name }
            }
            (None, None) => Callee::Direct { address: at.0, name: texts.intern(&format!("fn_{:x}", at.0)) },
        },
        Called::Through(slot) => match subject.image.import_at(slot) {
            Some(name) => Callee::Import { name: texts.intern(name) },
            None => Callee::Indirect { site: None },
        },
        Called::Indirect(site) => Callee::Indirect { site: site.map(SiteId::new) },
    }
}

fn blocks(cfg: &Cfg) -> Vec<profile::Block> {
    let blocks = cfg.numbered_blocks().map(|(id, block)| profile::Block {
        address: block.start.0,
        size: block.len,
        insns: block.insns,
        line: None,
        is_entry: cfg.entries.contains(&id),
        is_landing_pad: cfg.landing_pads.contains(&id),
        counter: None,
        count: None,
    });
    blocks.collect()
}

fn loops(cfg: &Cfg) -> Vec<profile::Loop> {
    // Some edge of a loop leads back, whatever the order of blocks.
    if !cfg.edges.iter().any(|edge| edge.inner_target().is_some_and(|to| to <= edge.from)) {
        return Vec::new();
    }
    loops_of(&cfg.graph(), &cfg.roots())
}

/// The loops of a graph.
pub(crate) fn loops_of(graph: &Graph, roots: &[u32]) -> Vec<profile::Loop> {
    let tree = DominatorTree::new(graph, roots);
    let forest = LoopForest::new(graph, &tree);
    let loops = forest.ids().zip(forest.loops()).map(|(id, a_loop)| profile::Loop {
        header: a_loop.header,
        parent: a_loop.parent.map(|parent| parent.0),
        depth: a_loop.depth,
        line: None,
        blocks: sorted(forest.blocks_of(id)),
    });
    loops.collect()
}

fn sorted(blocks: &[u32]) -> Vec<u32> {
    let mut blocks = blocks.to_vec();
    blocks.sort_unstable();
    blocks
}

fn node(node: Node) -> profile::Node {
    match node {
        Node::Outside => profile::Node::OUTSIDE,
        Node::Block(block) => profile::Node::block(block.0),
        Node::Hub(hub) => profile::Node::hub(hub),
    }
}

fn kind(kind: ArcKind) -> EdgeKind {
    match kind {
        ArcKind::Enter => EdgeKind::Enter,
        ArcKind::FallThrough => EdgeKind::FallThrough,
        ArcKind::Taken => EdgeKind::Taken,
        ArcKind::Jump => EdgeKind::Jump,
        ArcKind::Case => EdgeKind::Case,
        ArcKind::CallReturn => EdgeKind::CallReturn,
        ArcKind::LandingPad => EdgeKind::LandingPad,
        ArcKind::TailCall => EdgeKind::TailCall,
        ArcKind::Return => EdgeKind::Return,
        ArcKind::NoReturn => EdgeKind::NoReturn,
    }
}

/// The build-id, or if the file has none a hash of its text.
#[must_use]
pub fn build_id(elf: &Elf<'_>, identity: &Identity) -> Vec<u8> {
    if let Some(id) = &identity.build_id {
        return id[..id.len().min(32)].to_vec();
    }
    let hash = elf.text.iter().fold(hash::EMPTY, |hash, range| {
        hash::fnv1a(hash, elf.bytes_in(range.start, range.len()).unwrap_or_default())
    });
    hash.to_le_bytes().to_vec()
}
