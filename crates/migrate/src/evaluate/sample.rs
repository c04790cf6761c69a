//! A small profile whose figures can be worked out by hand.

use relive_profile::model::{
    Block, Call, CallSite, CalledBy, Callee, Count, Edge, EdgeKind, Foreign, Function, Loop, Mode, Module,
    Node, Profile, SiteId, State, Target, TargetCount,
};

pub(super) fn block(address: u64, insns: u32) -> Block {
    Block {
        address,
        size: 4,
        insns,
        line: None,
        is_entry: false,
        is_landing_pad: false,
        counter: None,
        count: None,
    }
}

/// `looping` is entered 10 times and its second block runs 10 times each; `straight` calls a pointer 40 times.
pub(super) fn profile() -> Profile {
    let mut module = Module { build_id: vec![1, 2, 3], mode: Mode::Edges, runs: 1, ..Module::default() };
    let names = ["looping", "straight"].map(|name| module.texts.intern(name));
    let (out, b) = (Node::OUTSIDE, Node::block);
    let edge = |from, to, kind| Edge { from, to, kind, counter: None, count: None };
    let mut looping = Function::new(names[0], 0x1000, 12, State::Measured);
    looping.blocks = vec![block(0x1000, 2), block(0x1004, 5), block(0x1008, 1)];
    looping.edges = vec![
        edge(out, b(0), EdgeKind::Enter),
        edge(b(0), b(1), EdgeKind::FallThrough),
        edge(b(1), b(1), EdgeKind::Taken),
        edge(b(1), b(2), EdgeKind::FallThrough),
        edge(b(2), out, EdgeKind::Return),
    ];
    looping.loops = vec![Loop { header: 1, parent: None, depth: 0, line: None, blocks: vec![1] }];
    let mut straight = Function::new(names[1], 0x2000, 4, State::Measured);
    straight.blocks = vec![block(0x2000, 3)];
    straight.edges = vec![edge(out, b(0), EdgeKind::Enter), edge(b(0), out, EdgeKind::Return)];
    let callee = Callee::Indirect { site: Some(SiteId::new(0)) };
    straight.calls = vec![Call { by: CalledBy::Block(0), address: 0x2002, callee }];
    module.functions = vec![looping, straight];
    module.layout.sites = 1;
    module.foreign = vec![Foreign { build_id: vec![7], path: "/lib/thing".into() }];
    let target = |target, count| TargetCount { target, count };
    module.sites = vec![CallSite {
        function: 1,
        block: 0,
        address: 0x2002,
        targets: vec![target(Target::Own(0x2000), 30), target(Target::Foreign { module: 0, address: 8 }, 10)],
    }];
    let mut profile = Profile { modules: vec![module] };
    set_blocks(&mut profile, 0, &[10, 100, 10]);
    set_edges(&mut profile, 0, &[10, 10, 90, 10, 10]);
    set_blocks(&mut profile, 1, &[40]);
    set_edges(&mut profile, 1, &[40, 40]);
    profile
}

pub(super) fn set_blocks(profile: &mut Profile, function: usize, counts: &[u64]) {
    for (block, &count) in profile.modules[0].functions[function].blocks.iter_mut().zip(counts) {
        block.count = Some(Count::measured(count));
    }
}

pub(super) fn set_edges(profile: &mut Profile, function: usize, counts: &[u64]) {
    for (edge, &count) in profile.modules[0].functions[function].edges.iter_mut().zip(counts) {
        edge.count = Some(Count::measured(count));
    }
}
