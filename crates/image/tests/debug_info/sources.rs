//! The summary of what a file has to say, against `readelf` and `nm`.

use crate::programs::{C, CPP, open};
use relive_image::lines::Lines;
use relive_image::sources::{SourceSummary, present};
use relive_testkit::compile::{compile, stdout};
use std::path::Path;

fn summary(path: &Path) -> Vec<SourceSummary> {
    let loaded = open(path);
    let image = loaded.image().expect("a program");
    present(&image, &Lines::new(&loaded))
}

fn names(rows: &[SourceSummary]) -> Vec<&str> {
    rows.iter().map(|row| row.name).collect()
}

fn count(rows: &[SourceSummary], name: &str) -> usize {
    rows.iter().find(|row| row.name == name).map_or(0, |row| row.count)
}

/// How many entries `readelf` says the relocation sections of that name have.
fn relocations(path: &Path, section: &str) -> usize {
    let listing = stdout("readelf", &["-rW".as_ref(), path.as_ref()]);
    let of_section = |line: &&str| line.contains(&format!("'{section}'"));
    let count = |line: &str| line.split(" contains ").nth(1)?.split(' ').next()?.parse::<usize>().ok();
    listing.lines().filter(of_section).filter_map(count).sum()
}

#[test]
fn a_program_with_everything_clang_can_say() {
    let args = [
        "-O2",
        "-g",
        "-fbasic-block-address-map",
        "-fuse-ld=lld",
        "-Wl,--emit-relocs,-z,pack-relative-relocs,--build-id=0xabcd",
    ];
    let program = compile("clang++-19", &args, CPP);
    let rows = summary(&program);
    let expected = [
        "bb-addr-map",
        "link-relocation",
        "dynamic-relocation",
        "relr",
        "symbol",
        "dynamic-symbol",
        "eh-frame",
        "dwarf-lines",
        "build-id",
    ];
    assert_eq!(names(&rows), expected);
    assert!(rows.iter().all(|row| !row.detail.is_empty()));
    let dynamic = relocations(&program, ".rela.dyn") + relocations(&program, ".rela.plt");
    assert_eq!(count(&rows, "dynamic-relocation"), dynamic);
    let listing = stdout("readelf", &["-rW".as_ref(), program.as_ref()]);
    let packed = listing.lines().find_map(|line| line.trim().strip_suffix(" offsets")).expect("a total");
    assert_eq!(count(&rows, "relr"), packed.parse().expect("a number"));
    let frames = stdout("readelf", &["-wf".as_ref(), program.as_ref()]).matches(" FDE ").count();
    assert!(count(&rows, "eh-frame") <= frames && frames - count(&rows, "eh-frame") < 3);
    let symbols = stdout("readelf", &["-sW".as_ref(), program.as_ref()]);
    let entries = |table: &str| {
        let line = symbols.lines().find(|line| line.contains(&format!("'{table}'"))).expect("the table");
        let count = line.split(" contains ").nth(1).and_then(|rest| rest.split(' ').next());
        count.and_then(|count| count.parse::<usize>().ok()).expect("a number") - 1
    };
    assert_eq!(count(&rows, "symbol"), entries(".symtab"));
    assert_eq!(count(&rows, "dynamic-symbol"), entries(".dynsym"));
    assert_eq!(rows.last().map(|row| row.detail.as_str()), Some("abcd"));
}

#[test]
fn a_static_program_with_nothing_to_say() {
    let text = ".globl _start\n_start: movl $60, %eax\n xorl %edi, %edi\n syscall\n\
                .section .note.GNU-stack, \"\", @progbits\n";
    let args = ["-nostdlib", "-static", "-s", "-Wl,--build-id=none"];
    let program = compile("gcc", &args, ("tiny.s", text));
    assert_eq!(summary(&program), []);
}

#[test]
fn a_debug_file_is_a_source() {
    let program = compile("gcc", &["-O2", "-g"], C);
    let debug = program.with_file_name("program.debug");
    let objcopy = |args: &[&std::ffi::OsStr]| crate::programs::run("objcopy", args);
    objcopy(&["--only-keep-debug".as_ref(), program.as_ref(), debug.as_ref()]);
    let whole = summary(&program);
    let option = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&["--strip-all".as_ref(), option.as_ref(), program.as_ref()]);
    let rows = summary(&program);
    assert_eq!(names(&rows), [&names(&whole)[..], &["debug-file"]].concat());
    let row = |name| rows.iter().find(|row| row.name == name).expect("a row");
    assert_eq!(row("symbol").count, count(&whole, "symbol"));
    assert!(row("symbol").detail.ends_with("in the debug file"));
    assert!(row("dwarf-lines").detail.ends_with("in the debug file"));
}

#[test]
fn a_go_program_has_its_own_table() {
    let program = compile("go", &["build"], ("main.go", "package main\nfunc main() { println(1) }\n"));
    let rows = summary(&program);
    assert!(count(&rows, "gopclntab") > 500, "{rows:?}");
    assert!(count(&rows, "dwarf-lines") > 10, "{rows:?}");
}
