//! What running programs leave in slots.

mod support;

use relive_abi::rprof::{LOST_TARGETS, target};
use relive_profile::file;
use relive_profile::model::{
    Block, Call, CallSite, CalledBy, Callee, Counter, Edge, EdgeKind, Foreign, Function, Module, Node,
    SiteId, State, Target, TargetCount,
};
use support::Slot;

/// One function with one indirect call.
fn caller() -> Module {
    let mut module = Module { path: "/bin/thing".into(), build_id: vec![7; 20], ..Module::default() };
    let name = module.texts.intern("caller");
    let mut function = Function::new(name, 0x1000, 8, State::Measured);
    function.blocks = vec![Block {
        address: 0x1000,
        size: 8,
        insns: 3,
        line: None,
        is_entry: true,
        is_landing_pad: false,
        counter: None,
        count: None,
    }];
    let edge = |from, to, kind, counter| Edge { from, to, kind, counter, count: None };
    function.edges = vec![
        edge(Node::OUTSIDE, Node::block(0), EdgeKind::Enter, Some(Counter::new(0))),
        edge(Node::block(0), Node::OUTSIDE, EdgeKind::Return, None),
    ];
    let callee = Callee::Indirect { site: Some(SiteId::new(0)) };
    function.calls = vec![Call { by: CalledBy::Block(0), address: 0x1004, callee }];
    module.functions.push(function);
    module.sites = vec![CallSite { function: 0, block: 0, address: 0x1004, targets: Vec::new() }];
    module.layout.counters = 1;
    module.layout.sites = 1;
    module.layout.overflows = 3;
    module.layout.modules = 2;
    module
}

fn library(number: u8) -> Foreign {
    Foreign { build_id: vec![number; 20], path: format!("/lib/{number}.so") }
}

#[test]
fn targets_of_all_slots_add_up() {
    let module = caller();
    let own = target::new(target::SELF, 0x1000);
    let one = Slot {
        runs: 1,
        time: 100,
        counters: vec![60],
        sites: vec![(target::new(1, 0x500), 10)],
        overflows: vec![(0, own, 20), (0, target::new(target::GENERATED, 0), 30)],
        modules: vec![library(2)],
        ..Slot::default()
    };
    // The same libraries in another order.
    let other = Slot {
        runs: 2,
        time: 50,
        lost: LOST_TARGETS,
        counters: vec![9],
        sites: vec![(own, 1)],
        overflows: vec![(0, target::new(1, 0x500), 3), (0, target::new(2, 0x500), 5)],
        modules: vec![library(1), library(2)],
    };
    let bytes = [file::file_image(&module), one.bytes(&module.layout), other.bytes(&module.layout)].concat();
    let profile = file::read(&bytes).expect("readable");
    let read = &profile.modules[0];
    assert_eq!((read.runs, read.first_run, read.last_run), (3, 50, 100));
    assert!(read.lost.targets() && !read.lost.shared());
    assert_eq!(read.counters, [69]);
    assert_eq!(read.foreign, [library(1), library(2)]);
    let expected = [
        (Target::Own(0x1000), 21),
        (Target::Foreign { module: 0, address: 0x500 }, 3),
        (Target::Foreign { module: 1, address: 0x500 }, 15),
        (Target::Generated, 30),
    ];
    assert_eq!(read.sites[0].targets, expected.map(|(target, count)| TargetCount { target, count }));
    assert_eq!(profile.target_name(read, Target::Own(0x1000)), Some("caller"));
    // Once more with what the description now holds.
    let again = [file::write(&profile), one.bytes(&module.layout)].concat();
    let again = file::read(&again).expect("readable");
    assert_eq!(again.modules[0].sites[0].targets[0].count, 41);
    assert_eq!(again.modules[0].counters, [129]);
}

#[test]
fn a_module_that_is_not_there() {
    let module = caller();
    let read = |target| {
        let slot = Slot { sites: vec![(target, 10)], modules: vec![library(1)], ..Slot::default() };
        file::read(&[file::file_image(&module), slot.bytes(&module.layout)].concat())
    };
    let error = read(target::new(3, 0x500)).expect_err("damaged").to_string();
    assert_eq!(error, "damaged: slot 0: call site 0 leads to module 3, which is not there");
    // There is room for it: the program was stopped before it had told its name.
    let profile = read(target::new(2, 0x500)).expect("readable");
    assert_eq!(profile.modules[0].foreign, [Foreign::default()]);
    assert_eq!(profile.modules[0].sites[0].targets[0].count, 10);
}

/// If this changes, programs do not go on counting in the profiles they have begun, and profiles of the same
/// code that different versions of the tool prepared no longer add up counter by counter.
#[test]
fn the_checksum_does_not_change() {
    assert_eq!(format!("{:#x}", file::checksum(&caller())), "0xc6e4f6d39ed999d5");
    assert_eq!(
        file::checksum(&Module { path: "/elsewhere".into(), runs: 3, ..caller() }),
        file::checksum(&caller())
    );
}
