//! `relive report --annotate` on a program that is compiled here and counted by hand.

mod support;

use relive_code::addr::LinkAddr;
use relive_code::isa::Decode;
use relive_image::loader::{Loaded, Options};
use relive_image::program::analyze;
use relive_profile::model::{Counter, Function, Mode, Module, State};
use relive_testkit::compile::compile;
use std::path::Path;
use support::{block, relive, stdout, text, write};

const SOURCE: &str = "\
__attribute__((noinline)) int twice(int x) {
    return x * 2;
}

int main(int argc, char **argv) {
    int sum = 0;

    for (int i = 0; i < argc; i++)
        sum += twice(i);
    return sum;
}
";

/// The n-th block of each function ran n + 1 times a thousand.
fn profile_of(program: &Path) -> Module {
    let loaded = Loaded::open(program, &Options::default()).expect("a file");
    let image = loaded.image().expect("a program");
    let mut module = Module {
        path: text(program).to_string(),
        build_id: image.identity.build_id.clone().expect("a build-id"),
        mode: Mode::Blocks,
        runs: 1,
        ..Module::default()
    };
    for function in &analyze(&image).functions {
        let name = module.texts.intern(&function.name());
        let mut described = Function::new(name, function.entry.0, function.size(), State::Measured);
        for known in &function.cfg.blocks {
            let start = LinkAddr(known.start.0);
            let bytes = image.elf.bytes_in(start, known.len.into()).expect("code");
            let insns = Decode::new(bytes, start).count();
            let mut block = block(known.start.0, known.len, insns as u32, 0);
            block.line = None;
            block.counter = Some(Counter::new(module.counters.len() as u32));
            module.counters.push((described.blocks.len() as u64 + 1) * 1000);
            described.blocks.push(block);
        }
        module.functions.push(described);
    }
    module.functions.sort_by_key(|function| function.address);
    module.layout.counters = module.counters.len() as u32;
    module
}

#[test]
fn source_and_disassembly() {
    let program = compile("gcc", &["-O1", "-g", "-Wl,--build-id"], ("sum.c", SOURCE));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profile = write(folder.path(), "sum.rprof", &profile_of(&program));
    let source = stdout(&["report", &profile, "--annotate", "twice"]);
    let line = source.lines().find(|line| line.contains("return x * 2;")).expect("the line");
    assert!(line.trim_start().starts_with("1,000 "), "{source}");
    assert!(source.contains("sum.c"), "{source}");
    let source = stdout(&["report", &profile, "--annotate", "main"]);
    // Lines without code in between are shown.
    assert!(source.lines().any(|line| line.trim() == "|     7"), "{source}");
    assert!(source.contains("sum += twice(i);"), "{source}");

    let code = stdout(&["report", &profile, "--annotate", "twice", "--disassembly"]);
    assert!(code.lines().any(|line| line.trim_start().starts_with("1,000 |")), "{code}");
    assert!(code.contains("[rdi+rdi") || code.contains("add"), "{code}");
    let code = stdout(&["report", &profile, "--annotate", "twice", "--disassembly", "--att"]);
    assert!(code.contains("%rdi"), "{code}");
}

#[test]
fn another_build_is_not_taken_for_it() {
    let program = compile("gcc", &["-O1", "-g", "-Wl,--build-id"], ("sum.c", SOURCE));
    let other = compile("gcc", &["-O0", "-g", "-Wl,--build-id"], ("sum.c", SOURCE));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut module = profile_of(&program);
    // Where it was, another build is now.
    module.path = text(&other).to_string();
    let profile = write(folder.path(), "sum.rprof", &module);
    let output = relive(&["report", &profile, "--annotate", "twice"]);
    assert!(output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("not the build that was measured"), "{message}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("instructions"), "a table of blocks instead");

    let found = stdout(&["report", &profile, "--annotate", "twice", "--binary", text(&program)]);
    assert!(found.contains("return x * 2;"), "{found}");
    let output = relive(&["report", &profile, "--annotate", "twice", "--binary", text(&other)]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
}
