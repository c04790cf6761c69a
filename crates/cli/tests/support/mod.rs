//! Profiles made by hand.

#![allow(dead_code, reason = "each test uses its own part")]

pub(crate) mod versions;

use relive_profile::file;
use relive_profile::model::{
    Block, Call, CallSite, CalledBy, Callee, Counter, Edge, EdgeKind, Foreign, Function, Line, Loop, Lost,
    Mode, Module, Node, Piece, SiteId, State, Target, TargetCount,
};
use std::path::Path;
use std::process::{Command, Output};

/// Runs the tool.
pub(crate) fn relive(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_relive")).args(args).output().expect("the tool starts")
}

/// What it prints, if it succeeds.
pub(crate) fn stdout(args: &[&str]) -> String {
    let output = relive(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

pub(crate) fn block(address: u64, size: u32, insns: u32, line: u32) -> Block {
    Block {
        address,
        size,
        insns,
        line: Some(Line::new(0, line)),
        is_entry: false,
        is_landing_pad: false,
        counter: None,
        count: None,
    }
}

pub(crate) fn edge(from: Node, to: Node, kind: EdgeKind, counter: Option<u32>) -> Edge {
    Edge { from, to, kind, counter: counter.map(Counter::new), count: None }
}

/// `main` loops and calls a C++ function and a pointer; one function only counts entries, one nothing.
pub(crate) fn thing() -> Module {
    let mut module = Module {
        path: "/opt/thing".into(),
        build_id: vec![0xab; 20],
        mode: Mode::Edges,
        runs: 2,
        first_run: 1_700_000_000,
        last_run: 1_700_086_400,
        files: vec!["src/thing.cc".into()],
        ..Module::default()
    };
    let names = ["main", "_ZN3foo3barEi", "strange", "handwritten"].map(|name| module.texts.intern(name));
    let puts = module.texts.intern("puts");
    let mut main = Function::new(names[0], 0x1000, 0x40, State::Measured);
    main.pieces = vec![Piece { start: 0x1000, len: 0x40 }];
    main.blocks = vec![
        block(0x1000, 0x10, 4, 3),
        block(0x1010, 0x10, 5, 4),
        block(0x1020, 0x18, 6, 5),
        block(0x1038, 8, 2, 7),
    ];
    main.blocks[0].is_entry = true;
    let (out, b) = (Node::OUTSIDE, Node::block);
    main.edges = vec![
        edge(out, b(0), EdgeKind::Enter, None),
        edge(b(0), b(1), EdgeKind::FallThrough, Some(0)),
        edge(b(1), b(2), EdgeKind::CallReturn, Some(1)),
        edge(b(2), b(1), EdgeKind::Taken, None),
        edge(b(2), b(3), EdgeKind::FallThrough, None),
        edge(b(3), out, EdgeKind::Return, None),
        edge(b(1), out, EdgeKind::NoReturn, Some(2)),
    ];
    main.loops =
        vec![Loop { header: 1, parent: None, depth: 0, line: Some(Line::new(0, 4)), blocks: vec![1, 2] }];
    main.calls = vec![
        Call {
            by: CalledBy::Block(1),
            address: 0x101b,
            callee: Callee::Direct { address: 0x2000, name: names[1] },
        },
        Call {
            by: CalledBy::Block(2),
            address: 0x1030,
            callee: Callee::Indirect { site: Some(SiteId::new(0)) },
        },
        Call { by: CalledBy::Block(3), address: 0x103a, callee: Callee::Import { name: puts } },
    ];
    let mut bar = Function::new(names[1], 0x2000, 0x20, State::Measured);
    bar.blocks = vec![block(0x2000, 0x20, 9, 12)];
    bar.edges = vec![edge(out, b(0), EdgeKind::Enter, Some(3)), edge(b(0), out, EdgeKind::Return, None)];
    bar.approximate = Some(module.texts.intern("calls setjmp"));
    let reason = module.texts.intern("a jump nobody understands");
    let mut strange = Function::new(names[2], 0x3000, 0x30, State::EntryOnly { reason });
    strange.blocks = vec![block(0x3000, 0x30, 12, 20)];
    strange.edges = vec![edge(out, b(0), EdgeKind::Enter, Some(4))];
    let reason = module.texts.intern("data among the code");
    let handwritten = Function::new(names[3], 0x4000, 0x100, State::NotMeasured { reason });
    module.functions = vec![main, bar, strange, handwritten];
    let target = |target, count| TargetCount { target, count };
    module.foreign = vec![Foreign { build_id: vec![1; 20], path: "/lib/libc.so.6".into() }];
    module.sites = vec![CallSite {
        function: 0,
        block: 2,
        address: 0x1030,
        targets: vec![
            target(Target::Own(0x2000), 600),
            target(Target::Foreign { module: 0, address: 0x5000 }, 300),
            target(Target::Generated, 50),
        ],
    }];
    module.layout.counters = 5;
    module.layout.sites = 1;
    module.counters = vec![10, 999, 1, 1599, 7];
    module.lost = Lost(2);
    module
}

/// Writes a profile of one module.
pub(crate) fn write(folder: &Path, name: &str, module: &Module) -> String {
    let path = folder.join(name);
    std::fs::write(&path, file::file_image(module)).expect("a writable folder");
    text(&path).to_string()
}
