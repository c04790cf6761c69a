//! Counts that were hidden are found again; files and sums keep them.

mod support;

use proptest::prelude::*;
use relive_profile::file;
use relive_profile::flow::{self, Inconsistency};
use relive_profile::merge::merge;
use relive_profile::model::{
    Block, Call, CallSite, CalledBy, Callee, Confidence, Count, Counter, Edge, EdgeKind, Function, Level,
    Mode, Module, Node, Origin, Profile, SiteId, Source, State,
};
use support::{Dice, Taken, block_count, measured, plan_blocks, plan_edges, program};

fn assert_counts(module: &Module, taken: &Taken) {
    for (function, taken) in module.functions.iter().zip(taken) {
        for (edge, &count) in function.edges.iter().zip(taken) {
            let found = edge.count.expect("all edges are known");
            assert_eq!(found.value(), count);
            if module.layout.counters > 0 {
                assert_eq!(found.origin == Origin::Measured, edge.counter.is_some());
            }
        }
        for (block, i) in function.blocks.iter().zip(0..) {
            assert_eq!(block.count.map(Count::value), Some(block_count(function, taken, i)));
        }
        assert_eq!(function.entries().map(Count::value), Some(taken[0]));
        assert_eq!(flow::check(function), []);
    }
}

fn read_one(bytes: &[u8]) -> Module {
    let mut profile = file::read(bytes).expect("readable");
    assert_eq!(profile.modules.len(), 1);
    profile.modules.remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn hidden_edges_are_found(seed: u64, functions in 1u64..6, runs in 0usize..4) {
        let mut dice = Dice(seed);
        let mut module = program(&mut dice, functions);
        plan_edges(&mut dice, &mut module);
        let (bytes, taken) = measured(&mut dice, &module, runs);
        let read = read_one(&bytes);
        prop_assert_eq!(read.checksum, module.checksum);
        prop_assert_eq!(read.runs, runs as u64);
        assert_counts(&read, &taken);
    }

    #[test]
    fn block_counters_tell_what_they_can(seed: u64, functions in 1u64..6) {
        let mut dice = Dice(seed);
        let mut module = program(&mut dice, functions);
        plan_blocks(&mut module);
        let (bytes, taken) = measured(&mut dice, &module, 2);
        let read = read_one(&bytes);
        for (function, taken) in read.functions.iter().zip(&taken) {
            for (block, i) in function.blocks.iter().zip(0..) {
                prop_assert_eq!(block.count, Some(Count::measured(block_count(function, taken, i))));
            }
            for (edge, &count) in function.edges.iter().zip(taken) {
                prop_assert_eq!(edge.count.map_or(count, Count::value), count);
            }
            prop_assert_eq!(flow::check(function), vec![]);
        }
    }

    #[test]
    fn files_keep_everything(seed: u64, functions in 0u64..6, runs in 0usize..4) {
        let mut dice = Dice(seed);
        let mut module = program(&mut dice, functions.max(1));
        if functions == 0 {
            module.functions.clear();
            module.sites.clear();
        }
        plan_edges(&mut dice, &mut module);
        let (bytes, taken) = if functions == 0 { (file::file_image(&module), vec![]) } else { measured(&mut dice, &module, runs) };
        let read = file::read(&bytes).expect("readable");
        let written = file::write(&read);
        let again = file::read(&written).expect("readable");
        prop_assert_eq!(&read, &again);
        assert_counts(&again.modules[0], &taken);
        // And a program goes on counting in it.
        if module.layout.counters > 0 {
            let slot = support::Slot::of_run(&mut dice, &module, &taken).bytes(&module.layout);
            let more = read_one(&[written, slot].concat());
            prop_assert_eq!(more.runs, read.modules[0].runs + 1);
            let twice: Taken = taken.iter().map(|f| f.iter().map(|count| count * 2).collect()).collect();
            assert_counts(&more, &twice);
        }
    }

    #[test]
    fn sums_do_not_depend_on_order(seed: u64, functions in 1u64..4) {
        let mut dice = Dice(seed);
        let profiles = family(&mut dice, functions);
        let pick = |dice: &mut Dice| profiles[dice.roll(profiles.len() as u64) as usize].clone();
        let (a, b, c) = (pick(&mut dice), pick(&mut dice), pick(&mut dice));
        let left = merge([merge([a.clone(), b.clone()]), c.clone()]);
        let right = merge([a.clone(), merge([b.clone(), c.clone()])]);
        let turned = merge([c, b, a]);
        for other in [right, turned] {
            for (a, b) in canonical(&left).modules.iter().zip(&canonical(&other).modules) {
                prop_assert_eq!(a, b);
            }
            prop_assert!(file::write(&left) == file::write(&other));
        }
    }

    #[test]
    fn sums_of_what_ran_do_not_depend_on_order(seed: u64, functions in 1u64..6) {
        let mut dice = Dice(seed);
        let mut base = program(&mut dice, functions);
        plan_edges(&mut dice, &mut base);
        let mut pick = || {
            let (bytes, _) = measured(&mut dice, &base, 1);
            Profile { modules: vec![only_executed(&mut dice, read_one(&bytes))] }
        };
        let (a, b, c) = (pick(), pick(), pick());
        let left = merge([merge([a.clone(), b.clone()]), c.clone()]);
        let right = merge([a.clone(), merge([b.clone(), c.clone()])]);
        let turned = merge([c.clone(), b.clone(), a.clone()]);
        prop_assert_eq!(left.modules.len(), 1);
        prop_assert_eq!(canonical(&left), canonical(&right));
        prop_assert_eq!(canonical(&left), canonical(&turned));
        // Each function that one of them describes is there, with the counts of all who saw it that way.
        for function in &left.modules[0].functions {
            let all = [&a, &b, &c].map(|p| p.modules[0].function_at(function.address));
            let ran: Vec<&Function> = all.into_iter().flatten().filter(|f| !f.is_idle()).collect();
            prop_assert_eq!(function.is_idle(), ran.is_empty());
            let same: Vec<&&Function> = ran.iter().filter(|f| f.blocks.last().map(|b| b.size) == function.blocks.last().map(|b| b.size)).collect();
            prop_assert_eq!(function.approximate.is_some(), same.len() < ran.len());
            for (i, block) in function.blocks.iter().enumerate() {
                let sum: Option<u64> = same.iter().map(|f| f.blocks[i].count.map(Count::value)).sum();
                prop_assert_eq!(block.count.map(Count::value), sum);
            }
        }
    }

    #[test]
    fn sums_are_sums(seed: u64, functions in 1u64..5) {
        let mut dice = Dice(seed);
        let base = program(&mut dice, functions);
        let mut parts = Vec::new();
        let mut sum: Taken = base.functions.iter().map(|f| vec![0; f.edges.len()]).collect();
        for _ in 0..3 {
            let mut module = base.clone();
            plan_edges(&mut dice, &mut module);
            let (bytes, taken) = measured(&mut dice, &module, 2);
            parts.push(file::read(&bytes).expect("readable"));
            for (sum, more) in sum.iter_mut().flatten().zip(taken.iter().flatten()) {
                *sum += more;
            }
        }
        let merged = merge(parts);
        prop_assert_eq!(merged.modules.len(), 1);
        prop_assert_eq!(merged.modules[0].runs, 6);
        assert_counts(&merged.modules[0], &sum);
    }
}

/// The same described as far as it ran: other functions are idle, or not known.
fn only_executed(dice: &mut Dice, mut module: Module) -> Module {
    module = carried(dice, module);
    module.carried.clear();
    module.only_executed = true;
    let mut places = Vec::new();
    let mut functions = Vec::new();
    for mut function in std::mem::take(&mut module.functions) {
        function.called = false;
        let ran = function.blocks.iter().any(|b| b.count.is_some_and(|c| c.value() > 0));
        if !ran && dice.roll(2) == 0 {
            places.push(None);
            continue;
        }
        places.push(ran.then_some(functions.len() as u32));
        if !ran {
            function = Function::new(function.name, function.address, function.size, State::Measured);
        } else if dice.roll(6) == 0 {
            // Seen in another way.
            function.blocks.last_mut().expect("a block").size += 1;
        }
        functions.push(function);
    }
    module.functions = functions;
    // Calls name their sites by number.
    let mut numbers = Vec::new();
    for site in std::mem::take(&mut module.sites) {
        let place = places[site.function as usize];
        numbers.push(place.map(|_| SiteId::new(module.sites.len() as u32)));
        module.sites.extend(place.map(|function| CallSite { function, ..site }));
    }
    for call in module.functions.iter_mut().flat_map(|f| &mut f.calls) {
        if let Callee::Indirect { site } = &mut call.callee {
            *site = site.and_then(|site| numbers[site.index() as usize]);
        }
    }
    module.layout.sites = module.sites.len() as u32;
    module.checksum = file::checksum(&module);
    module
}

/// The same with texts numbered as a file numbers them.
fn canonical(profile: &Profile) -> Profile {
    file::read(&file::write(profile)).expect("readable")
}

/// Profiles of one program and of others, of equal and of different plans, modes and states.
fn family(dice: &mut Dice, functions: u64) -> Vec<Profile> {
    let base = program(dice, functions);
    let other = program(dice, functions);
    let mut plans = Vec::new();
    for base in [&base, &base, &other] {
        let mut module = base.clone();
        plan_edges(dice, &mut module);
        plans.push(module);
    }
    let mut blocks = base.clone();
    plan_blocks(&mut blocks);
    plans.push(blocks);
    let mut partly = base.clone();
    let reason = partly.texts.intern("too strange");
    partly.functions[0].state = State::NotMeasured { reason };
    plan_edges(dice, &mut partly);
    plans.push(partly);
    let mut renamed = base;
    renamed.functions[0].name = renamed.texts.intern("another name");
    renamed.functions[0].approximate = Some(renamed.texts.intern("returns twice"));
    plan_edges(dice, &mut renamed);
    plans.push(renamed);
    let mut profiles: Vec<Profile> = plans
        .iter()
        .flat_map(|module| [measured(dice, module, 1).0, measured(dice, module, 2).0])
        .map(|bytes| file::read(&bytes).expect("readable"))
        .collect();
    for i in [0, 1, 8] {
        let module = carried(dice, profiles[i].modules[0].clone());
        profiles.push(Profile { modules: vec![module] });
    }
    profiles
}

/// The same as if it had been carried over: every count of some origin, and some not known.
fn carried(dice: &mut Dice, mut module: Module) -> Module {
    module.counters = Vec::new();
    module.layout.counters = 0;
    module.layout.overflows = 0;
    module.layout.modules = 0;
    let mut origins =
        vec![Origin::Measured, Origin::Derived, Origin::ControlFlow, Origin::Inferred, Origin::Sampled];
    origins.extend(Level::ALL.map(Origin::Matched));
    let carry = |dice: &mut Dice, count: &mut Option<Count>| {
        let origin = origins[dice.roll(origins.len() as u64) as usize];
        let confidence = Confidence::new(dice.roll(101) as u8);
        *count =
            count.filter(|_| dice.roll(8) > 0).map(|Count { raw, .. }| Count { raw, origin, confidence });
    };
    for function in &mut module.functions {
        for block in &mut function.blocks {
            block.counter = None;
            carry(dice, &mut block.count);
        }
        for edge in &mut function.edges {
            edge.counter = None;
            carry(dice, &mut edge.count);
        }
    }
    module.carried = (0..1 + dice.roll(3))
        .map(|i| Source {
            steps: 1 + i as u32,
            build_id: vec![dice.roll(2) as u8; 20],
            path: format!("/opt/{}", dice.roll(2)),
            runs: dice.roll(9),
        })
        .collect();
    module.checksum = file::checksum(&module);
    module
}

#[test]
fn carried_counts_keep_where_they_come_from() {
    let mut dice = Dice(7);
    let mut module = program(&mut dice, 4);
    plan_edges(&mut dice, &mut module);
    let (bytes, _) = measured(&mut dice, &module, 2);
    let module = carried(&mut dice, read_one(&bytes));
    let read = read_one(&file::write(&Profile { modules: vec![module.clone()] }));
    assert_eq!(read, module);
    // Twice the same: twice the counts and the runs, and as sure as before.
    let profile = || Profile { modules: vec![module.clone()] };
    let sum = merge([profile(), profile()]).modules.remove(0);
    for (sum, one) in sum.functions.iter().zip(&module.functions) {
        for (sum, one) in sum.edges.iter().zip(&one.edges) {
            assert_eq!(sum.count, one.count.map(|one| Count { raw: one.raw * 2, ..one }));
        }
    }
    let mut twice = module.carried.clone();
    twice.iter_mut().for_each(|source| source.runs *= 2);
    assert_eq!(sum.carried, twice);
}

#[test]
fn unknown_cycles_are_an_error() {
    let mut dice = Dice(1);
    let mut module = program(&mut dice, 1);
    plan_edges(&mut dice, &mut module);
    for edge in &mut module.functions[0].edges {
        edge.counter = None;
    }
    let error = file::read(&file::file_image(&module)).expect_err("undetermined");
    assert!(error.to_string().contains("function_0"), "{error}");
}

#[test]
fn what_does_not_add_up_is_told() {
    let mut dice = Dice(4);
    let mut module = program(&mut dice, 1);
    plan_edges(&mut dice, &mut module);
    let (bytes, _) = measured(&mut dice, &module, 1);
    let mut read = read_one(&bytes);
    let function = &mut read.functions[0];
    let edge = &mut function.edges[1];
    edge.count = Some(Count::derived(u64::MAX - 2));
    let found = flow::check(function);
    assert!(found.contains(&Inconsistency::Negative { edge: 1, count: -3 }), "{found:?}");
    assert!(found.iter().any(|found| matches!(found, Inconsistency::Imbalance { .. })), "{found:?}");
    assert_eq!(function.edges[1].count.map(Count::value), Some(0));
}

#[test]
fn other_modes_stay_apart() {
    let mut dice = Dice(2);
    let base = program(&mut dice, 2);
    let (mut edges, mut blocks) = (base.clone(), base);
    plan_edges(&mut dice, &mut edges);
    plan_blocks(&mut blocks);
    let profiles = [&edges, &blocks].map(|module| {
        let (bytes, _) = measured(&mut dice, module, 1);
        file::read(&bytes).expect("readable")
    });
    let merged = merge(profiles);
    assert_eq!(merged.modules.iter().map(|m| m.mode).collect::<Vec<_>>(), [Mode::Blocks, Mode::Edges]);
    assert_eq!(file::read(&file::write(&merged)).expect("readable").modules.len(), 2);
}

/// Function 0 calls function 1 from its only block; both are entered with a counter, and function 1 leaves out
/// what function 0 tells.
fn caller_and_callee() -> Module {
    let mut module = Module { mode: Mode::Edges, ..Module::default() };
    for (i, address) in [0x1000, 0x2000].into_iter().enumerate() {
        let name = module.texts.intern(&format!("function_{i}"));
        let mut function = Function::new(name, address, 4, State::Measured);
        let block = Block {
            address,
            size: 4,
            insns: 1,
            line: None,
            is_entry: true,
            is_landing_pad: false,
            counter: None,
            count: None,
        };
        function.blocks.push(block);
        let edge = |from, to, kind, counter| Edge { from, to, kind, counter, count: None };
        function.edges = vec![
            edge(Node::OUTSIDE, Node::block(0), EdgeKind::Enter, Some(Counter::new(i as u32))),
            edge(Node::block(0), Node::OUTSIDE, EdgeKind::Return, None),
        ];
        module.functions.push(function);
    }
    let name = module.functions[1].name;
    let callee = Callee::Direct { address: 0x2000, name };
    module.functions[0].calls.push(Call { by: CalledBy::Block(0), address: 0x1000, callee });
    module.functions[1].called = true;
    module.layout.counters = 2;
    module.counters = vec![5, 2];
    module
}

#[test]
fn callers_tell_how_often_a_function_is_called() {
    let mut module = caller_and_callee();
    flow::recover(&mut module).expect("caller first");
    let entries: Vec<_> = module.functions.iter().map(|f| f.entries().map(Count::value)).collect();
    assert_eq!(entries, [Some(5), Some(7)]);
    assert_eq!(module.functions[1].blocks[0].count.map(Count::value), Some(7));
    // By an edge, and from a function that comes later.
    let mut module = caller_and_callee();
    module.functions[0].calls[0].by = CalledBy::Edge(1);
    module.functions.swap(0, 1);
    flow::recover(&mut module).expect("caller first");
    assert_eq!(module.functions[0].entries().map(Count::value), Some(7));
}

#[test]
fn nobody_can_wait_for_themselves() {
    let mut module = caller_and_callee();
    let name = module.functions[0].name;
    let callee = Callee::Direct { address: 0x1000, name };
    module.functions[1].calls.push(Call { by: CalledBy::Block(0), address: 0x2000, callee });
    module.functions[0].called = true;
    assert!(flow::recover(&mut module).is_err());
}

/// Code that is much the same everywhere packs to less than a hundredth, which readers would not believe.
#[test]
fn what_packs_very_well_can_be_read() {
    let mut module = caller_and_callee();
    module.build_id = vec![1; 20];
    module.functions[0].calls.clear();
    module.functions[1].called = false;
    let first = module.functions[0].clone();
    for i in 0..200_000 {
        let mut function = first.clone();
        function.address = 0x10_0000 + i * 16;
        function.blocks[0].address = function.address;
        module.functions.push(function);
    }
    let functions = module.functions.len();
    let profile = Profile { modules: vec![module] };
    let bytes = file::write(&profile);
    assert_eq!(file::read(&bytes).expect("readable").modules[0].functions.len(), functions);
}
