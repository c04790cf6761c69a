//! Random programs, random runs of them, and what was counted: the oracle of the tests.

#![allow(dead_code, reason = "each test uses its own part")]

use relive_abi::rprof::{SlotLayout, target};
use relive_profile::file;
use relive_profile::model::{
    Block, Call, CallSite, CalledBy, Callee, Counter, DataBlock, DataKind, Edge, EdgeKind, Foreign, Function,
    Line, Loop, Mode, Module, Node, Piece, Pointer, SiteId, State,
};

/// Random numbers (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.roll(i as u64 + 1) as usize);
        }
    }
}

/// A program without counters.
pub(crate) fn program(dice: &mut Dice, functions: u64) -> Module {
    let mut module = Module { path: "/bin/thing".into(), mode: Mode::Edges, ..Module::default() };
    module.build_id = dice.roll(1 << 40).to_le_bytes().to_vec();
    module.files = vec!["main.c".into(), "list.h".into()];
    let mut address = 0x1000;
    for i in 0..functions {
        let name = module.texts.intern(&format!("function_{i}"));
        let function = function(dice, &mut module, name, address);
        address += function.size + dice.roll(16);
        module.functions.push(function);
    }
    let mut at = 0x10_0000;
    for i in 0..dice.roll(20) {
        at += dice.roll(64);
        let size = dice.roll(64);
        let name = (dice.roll(2) == 0).then(|| module.texts.intern(&format!("data_{i}")));
        let kind = if dice.roll(2) == 0 { DataKind::Constant } else { DataKind::Import };
        module.data.push(DataBlock { address: at, size, name, kind, hash: dice.roll(u64::MAX) });
        module.pointers.push(Pointer { at, to: dice.roll(0x20_0000) });
        at += size;
    }
    module
}

fn function(
    dice: &mut Dice,
    module: &mut Module,
    name: relive_profile::model::TextId,
    address: u64,
) -> Function {
    let mut function = Function::new(name, address, 0, State::Measured);
    let blocks = 1 + dice.roll(12) as u32;
    let mut at = address;
    for i in 0..blocks {
        let size = 1 + dice.roll(40) as u32;
        function.blocks.push(Block {
            address: at,
            size,
            insns: 1 + size / 4,
            line: (dice.roll(3) > 0).then(|| Line::new(dice.roll(2) as u32, dice.roll(100) as u32)),
            is_entry: i == 0,
            is_landing_pad: dice.roll(10) == 0,
            counter: None,
            count: None,
        });
        at += u64::from(size);
    }
    function.size = at - address;
    function.pieces = vec![Piece { start: address, len: function.size }];
    function.code = (0..function.size).map(|_| dice.roll(256) as u8).collect();
    function.hubs = dice.roll(3) as u32;
    let mut edge = |from, to, kind| function.edges.push(Edge { from, to, kind, counter: None, count: None });
    edge(Node::OUTSIDE, Node::block(0), EdgeKind::Enter);
    for block in 0..blocks {
        let from = Node::block(block);
        match block + 1 {
            next if next < blocks => edge(from, Node::block(next), EdgeKind::FallThrough),
            _ => edge(from, Node::OUTSIDE, EdgeKind::Return),
        }
        if dice.roll(2) == 0 {
            edge(from, Node::block(dice.roll(blocks.into()) as u32), EdgeKind::Taken);
        }
        if dice.roll(6) == 0 {
            edge(from, Node::OUTSIDE, EdgeKind::NoReturn);
        }
    }
    for hub in 0..function.hubs {
        for _ in 0..=dice.roll(3) {
            edge(Node::block(dice.roll(blocks.into()) as u32), Node::hub(hub), EdgeKind::Case);
        }
        for _ in 0..=dice.roll(3) {
            edge(Node::hub(hub), Node::block(dice.roll(blocks.into()) as u32), EdgeKind::Case);
        }
    }
    function.cases = (0..)
        .zip(&function.edges)
        .filter(|(_, e)| e.kind == EdgeKind::Case)
        .map(|(i, _)| (i, dice.roll(9) as u32))
        .collect();
    if blocks > 2 {
        let first = dice.roll(u64::from(blocks) - 1) as u32;
        let line = Some(Line::new(0, 7));
        function.loops.push(Loop {
            header: first,
            parent: None,
            depth: 0,
            line,
            blocks: (first..blocks).collect(),
        });
    }
    for block in 0..blocks {
        let callee = match dice.roll(8) {
            0 => Callee::Import { name: module.texts.intern("puts") },
            1 => Callee::Direct { address: 0x1000, name: module.texts.intern("function_0") },
            2 => {
                module.sites.push(CallSite {
                    function: module.functions.len() as u32,
                    block,
                    address: function.blocks[block as usize].address,
                    targets: Vec::new(),
                });
                Callee::Indirect { site: Some(SiteId::new(module.sites.len() as u32 - 1)) }
            }
            _ => continue,
        };
        let address = function.blocks[block as usize].address;
        function.calls.push(Call { by: CalledBy::Block(block), address, callee });
    }
    function
}

/// How often each edge of each function was taken.
pub(crate) type Taken = Vec<Vec<u64>>;

/// Some calls of random functions.
pub(crate) fn run(dice: &mut Dice, module: &Module) -> Taken {
    let mut taken: Taken = module.functions.iter().map(|f| vec![0; f.edges.len()]).collect();
    for _ in 0..dice.roll(30) {
        let i = dice.roll(module.functions.len() as u64) as usize;
        let edges = &module.functions[i].edges;
        let (mut node, mut steps) = (Node::OUTSIDE, 0);
        loop {
            let mut leaving = (0..edges.len()).filter(|&e| edges[e].from == node);
            // Falling through leads out.
            let choice = if steps > 100 { 0 } else { dice.roll(leaving.clone().count() as u64) };
            let edge = leaving.nth(choice as usize).expect("a way on");
            taken[i][edge] += 1;
            node = edges[edge].to;
            steps += 1;
            if node.is_outside() {
                break;
            }
        }
    }
    taken
}

pub(crate) fn block_count(function: &Function, taken: &[u64], block: u32) -> u64 {
    let into = function.edges.iter().zip(taken).filter(|(edge, _)| edge.to == Node::block(block));
    into.map(|(_, count)| count).sum()
}

/// Counters on what a random spanning tree leaves.
pub(crate) fn plan_edges(dice: &mut Dice, module: &mut Module) {
    let mut next = 0;
    for function in &mut module.functions {
        let blocks = function.blocks.len();
        let number = |node: Node| match (node.as_block(), node.as_hub()) {
            (Some(block), _) => block as usize,
            (_, Some(hub)) => blocks + hub as usize,
            _ => blocks + function.hubs as usize,
        };
        let mut group: Vec<usize> = (0..=blocks + function.hubs as usize).collect();
        let mut order: Vec<usize> = (0..function.edges.len()).collect();
        dice.shuffle(&mut order);
        for edge in order {
            let edge = &mut function.edges[edge];
            let (from, to) = (group[number(edge.from)], group[number(edge.to)]);
            if from == to {
                edge.counter = Some(Counter::new(next));
                next += 1;
            } else {
                group.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
    }
    finish(module, Mode::Edges, next);
}

/// A counter for each block.
pub(crate) fn plan_blocks(module: &mut Module) {
    let mut next = 0;
    for block in module.functions.iter_mut().flat_map(|function| &mut function.blocks) {
        block.counter = Some(Counter::new(next));
        next += 1;
    }
    finish(module, Mode::Blocks, next);
}

fn finish(module: &mut Module, mode: Mode, counters: u32) {
    module.mode = mode;
    module.layout = SlotLayout { counters, sites: module.sites.len() as u32, overflows: 4, modules: 2 };
    module.checksum = file::checksum(module);
}

/// What the counters of a run hold.
pub(crate) fn counters(module: &Module, taken: &Taken) -> Vec<u64> {
    let mut counters = vec![0; module.layout.counters as usize];
    for (function, taken) in module.functions.iter().zip(taken) {
        for (edge, count) in function.edges.iter().zip(taken) {
            if let Some(counter) = edge.counter {
                counters[counter.index() as usize] = *count;
            }
        }
        for (block, i) in function.blocks.iter().zip(0..) {
            if let Some(counter) = block.counter {
                counters[counter.index() as usize] = block_count(function, taken, i);
            }
        }
    }
    counters
}

/// What a slot holds.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) runs: u64,
    pub(crate) time: u64,
    pub(crate) lost: u32,
    pub(crate) counters: Vec<u64>,
    pub(crate) sites: Vec<(u64, u64)>,
    pub(crate) overflows: Vec<(u32, u64, u64)>,
    pub(crate) modules: Vec<Foreign>,
}

impl Slot {
    /// The slot of one run, with random targets.
    pub(crate) fn of_run(dice: &mut Dice, module: &Module, taken: &Taken) -> Self {
        let mut slot = Self { runs: 1, time: 1 + dice.roll(1000), ..Self::default() };
        slot.counters = counters(module, taken);
        slot.modules = vec![Foreign {
            build_id: vec![dice.roll(2) as u8; 20],
            path: format!("/lib/lib{}.so", dice.roll(2)),
        }];
        let mut target = || match dice.roll(3) {
            0 => target::new(target::SELF, 0x1000),
            1 => target::new(target::GENERATED, 0),
            _ => target::new(1, 0x2000 + dice.roll(2)),
        };
        slot.sites = module.sites.iter().map(|_| (target(), 5)).collect();
        if !module.sites.is_empty() {
            slot.overflows.push((0, target(), 3));
        }
        slot
    }

    pub(crate) fn bytes(&self, layout: &SlotLayout) -> Vec<u8> {
        let mut bytes = vec![0; layout.len() as usize];
        let mut put =
            |at: u64, with: &[u8]| bytes[at as usize..at as usize + with.len()].copy_from_slice(with);
        put(8, &self.runs.to_le_bytes());
        put(16, &(self.overflows.len() as u32).to_le_bytes());
        put(20, &(self.modules.len() as u32).to_le_bytes());
        put(24, &self.lost.to_le_bytes());
        put(32, &self.time.to_le_bytes());
        put(40, &self.time.to_le_bytes());
        for (i, counter) in (0..).zip(&self.counters) {
            put(layout.counters_offset() + i * 8, &counter.to_le_bytes());
        }
        for (i, (target, count)) in (0..).zip(&self.sites) {
            put(layout.sites_offset() + i * 16, &target.to_le_bytes());
            put(layout.sites_offset() + i * 16 + 8, &count.to_le_bytes());
        }
        for (i, (site, target, count)) in (0..).zip(&self.overflows) {
            let at = layout.overflows_offset() + i * 24;
            put(at, &site.to_le_bytes());
            put(at + 8, &target.to_le_bytes());
            put(at + 16, &count.to_le_bytes());
        }
        for (i, module) in (0..).zip(&self.modules) {
            let at = layout.modules_offset() + i * 256;
            put(at, &(module.build_id.len() as u32).to_le_bytes());
            put(at + 4, &(module.path.len() as u32).to_le_bytes());
            put(at + 8, &module.build_id);
            put(at + 40, module.path.as_bytes());
        }
        bytes
    }
}

/// A profile as a program leaves it, and what it did.
pub(crate) fn measured(dice: &mut Dice, module: &Module, runs: usize) -> (Vec<u8>, Taken) {
    let mut bytes = file::file_image(module);
    let mut sum: Taken = module.functions.iter().map(|f| vec![0; f.edges.len()]).collect();
    for _ in 0..runs {
        let taken = run(dice, module);
        bytes.extend(Slot::of_run(dice, module, &taken).bytes(&module.layout));
        for (sum, more) in sum.iter_mut().flatten().zip(taken.iter().flatten()) {
            *sum += more;
        }
    }
    (bytes, sum)
}
