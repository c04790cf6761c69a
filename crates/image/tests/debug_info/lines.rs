//! Lines and inlined calls of every instruction, as `llvm-symbolizer` and `addr2line` see them.

use crate::programs::{
    C, CPP, Line, Told, addr2line, instructions, open, run, symbolizer, symbolizer_in_detail,
};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::lines::{Frame, Lines};
use relive_testkit::compile::{Compiled, compile};
use std::collections::BTreeSet;
use std::path::Path;

/// How LLVM prints the frames.
fn as_symbolizer(frames: &[Frame<'_>]) -> Vec<Line> {
    let place = |frame: &Frame<'_>| match frame.location {
        Some(at) => format!("{}:{}:{}", at.file, at.line, at.column),
        None => "??:0:0".to_string(),
    };
    frames.iter().map(|frame| (frame.function.clone(), place(frame))).collect()
}

/// How GNU prints them.
fn as_addr2line(frames: &[Frame<'_>]) -> Vec<Line> {
    let place = |frame: &Frame<'_>| match frame.location {
        Some(at) if at.line == 0 => format!("{}:?", at.file),
        Some(at) => format!("{}:{}", at.file, at.line),
        None => "??:?".to_string(),
    };
    frames.iter().map(|frame| (frame.function.clone(), place(frame))).collect()
}

/// Compares with `llvm-symbolizer` for every `step`th instruction. Gives how many levels of inlining
/// were seen.
fn agrees_with_symbolizer(file: &Path, step: usize) -> usize {
    let loaded = open(file);
    let lines = Lines::new(&loaded);
    let addresses: Vec<LinkAddr> = instructions(file).into_iter().step_by(step).collect();
    let mut deepest = 0;
    let mut known = 0;
    for (&at, said) in addresses.iter().zip(symbolizer(file, &addresses)) {
        let frames = lines.inlined_at(at);
        assert_eq!(frames.first().and_then(|f| f.location), lines.at(at), "{at}");
        if frames.is_empty() {
            assert!(said.len() == 1 && said[0].1 == "??:0:0", "{at}: {said:?}");
            continue;
        }
        deepest = deepest.max(frames.len());
        known += 1;
        assert_eq!(as_symbolizer(&frames), said, "{at}");
    }
    assert!(known >= 25, "{known} of {} have lines", addresses.len());
    agrees_with_itself(&lines, &addresses);
    assert_eq!(lines.complaints(), []);
    deepest
}

/// The lines of a range are those of its addresses.
fn agrees_with_itself(lines: &Lines<'_>, addresses: &[LinkAddr]) {
    let (Some(&first), Some(&last)) = (addresses.first(), addresses.last()) else { return };
    // In the middle of a row at both ends.
    let whole = AddrRange::new(first.offset(1), last);
    let rows: Vec<_> = lines.within(whole).collect();
    assert!(rows.is_sorted_by(|(a, x), (b, y)| a.end < b.start || a.end == b.start && x != y));
    for at in (whole.start.0..whole.end.0).map(LinkAddr) {
        let behind = rows.partition_point(|(range, _)| range.start <= at);
        let row = rows[..behind].last().filter(|(range, _)| range.contains(at));
        assert_eq!(row.map(|&(_, location)| location), lines.at(at), "{at}");
    }
    assert!(rows.iter().all(|(range, _)| whole.start <= range.start && range.end <= whole.end));
}

fn agrees_with_addr2line(file: &Path) {
    let loaded = open(file);
    let lines = Lines::new(&loaded);
    let addresses = instructions(file);
    for (&at, said) in addresses.iter().zip(addr2line(file, &addresses)) {
        let frames = lines.inlined_at(at);
        // What GNU calls the inlined part of a line is no part of the place.
        let said: Vec<Line> = said
            .into_iter()
            .map(|(f, at)| (f, at.split(" (").next().unwrap_or_default().to_string()))
            .collect();
        if frames.is_empty() {
            // It counts padding behind the last function as part of its last line.
            assert!(said.len() == 1 && said[0].0 == "?", "{at}: {said:?}");
            continue;
        }
        assert_eq!(as_addr2line(&frames), said, "{at}");
    }
}

fn gcc_and_clang(args: &[&str]) -> Vec<Compiled> {
    let with = |compiler: &str, source| compile(compiler, args, source);
    vec![with("g++", CPP), with("gcc", C), with("clang++-19", CPP), with("clang-19", C)]
}

#[test]
fn optimised_programs() {
    let mut deepest = 0;
    for program in gcc_and_clang(&["-O2", "-g"]) {
        deepest = deepest.max(agrees_with_symbolizer(&program, 1));
    }
    assert!(deepest >= 6, "the example has deep inlining, seen were {deepest} levels");
}

#[test]
fn what_compilers_want_to_be_told() {
    let mut discriminators = BTreeSet::new();
    for args in [&["-O2", "-gline-tables-only", "-fdebug-info-for-profiling"][..], &["-O2", "-g"]] {
        for (compiler, source) in [("clang++-19", CPP), ("clang-19", C)] {
            let program = compile(compiler, args, source);
            let loaded = open(&program);
            let lines = Lines::new(&loaded);
            let addresses = instructions(&program);
            let mut known = 0;
            for (&at, said) in addresses.iter().zip(symbolizer_in_detail(&program, &addresses)) {
                let levels: Vec<Told> = lines
                    .levels_at(at)
                    .iter()
                    .map(|level| (level.linkage.to_string(), level.declared, level.line, level.discriminator))
                    .collect();
                if !levels.is_empty() {
                    assert_eq!(levels, said, "{at}");
                    known += 1;
                    discriminators.extend(levels.iter().map(|level| level.3));
                }
            }
            assert!(known >= 25, "{known} of {} are known", addresses.len());
        }
    }
    assert!(discriminators.len() >= 3, "{discriminators:?}");
}

#[test]
fn the_gnu_tools_agree() {
    agrees_with_addr2line(&compile("gcc", &["-O2", "-g"], C));
    agrees_with_addr2line(&compile("g++", &["-O2", "-g"], CPP));
}

#[test]
fn programs_that_are_not_optimised() {
    for program in gcc_and_clang(&["-O0", "-g"]) {
        agrees_with_symbolizer(&program, 1);
    }
}

#[test]
fn older_versions_of_the_format() {
    for version in ["-gdwarf-2", "-gdwarf-3", "-gdwarf-4"] {
        for program in gcc_and_clang(&["-O2", version]) {
            agrees_with_symbolizer(&program, 3);
        }
    }
}

#[test]
fn the_wide_form_of_the_format() {
    agrees_with_symbolizer(&compile("clang++-19", &["-O2", "-gdwarf-5", "-gdwarf64"], CPP), 1);
}

#[test]
fn lines_without_the_rest() {
    agrees_with_symbolizer(&compile("clang++-19", &["-O2", "-gline-tables-only"], CPP), 1);
    agrees_with_symbolizer(&compile("g++", &["-O2", "-g1"], CPP), 1);
}

#[test]
fn compressed_sections() {
    for program in gcc_and_clang(&["-O2", "-g", "-gz"]) {
        agrees_with_symbolizer(&program, 1);
    }
    let program = compile("g++", &["-O2", "-g"], CPP);
    for format in ["zlib-gabi", "zlib-gnu", "zstd"] {
        let packed = program.with_file_name(format);
        let option = format!("--compress-debug-sections={format}");
        run("objcopy", &[option.as_ref(), program.as_ref(), packed.as_ref()]);
        let (plain, packed) = (open(&program), open(&packed));
        let (plain, packed) = (Lines::new(&plain), Lines::new(&packed));
        for at in instructions(&program) {
            assert_eq!(plain.inlined_at(at), packed.inlined_at(at), "{at}");
        }
        assert_eq!(packed.complaints(), []);
    }
}

#[test]
fn functions_the_linker_discarded_or_moved() {
    // A discarded function of more than a page stays behind at address zero and would cover the
    // beginning of the text.
    let body = "x = x * 31 + (x >> 3); y[x & 7] ^= x;\n".repeat(400);
    let large = format!(
        "int y[8]; int discarded(int x) {{\n{body}return x; }}\n\
         __attribute__((noinline)) int kept(int x) {{ return x + y[x & 7]; }}\n\
         int main(int argc, char **argv) {{ (void)argv;\nreturn kept(argc)\n+ kept(argc + 1); }}\n"
    );
    for (compiler, linker) in
        [("gcc", "-fuse-ld=bfd"), ("clang-19", "-fuse-ld=bfd"), ("clang-19", "-fuse-ld=lld")]
    {
        let args = ["-O1", "-g", "-ffunction-sections", "-Wl,--gc-sections", linker];
        let program = compile(compiler, &args, ("large.c", &large));
        let loaded = open(&program);
        let lines = Lines::new(&loaded);
        let mut functions = BTreeSet::new();
        for at in instructions(&program) {
            functions.extend(lines.inlined_at(at).into_iter().map(|frame| frame.function));
        }
        assert_eq!(functions, ["kept", "main"].map(String::from).into(), "{compiler} {linker}");
    }
    for linker in ["-fuse-ld=bfd", "-fuse-ld=lld"] {
        let args = ["-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections", linker];
        agrees_with_symbolizer(&compile("clang++-19", &args, CPP), 1);
    }
}

#[test]
fn fixed_addresses_shared_objects_and_static_programs() {
    agrees_with_symbolizer(&compile("g++", &["-O2", "-g", "-no-pie"], CPP), 1);
    agrees_with_symbolizer(&compile("g++", &["-O2", "-g", "-shared", "-fPIC"], CPP), 1);
    agrees_with_symbolizer(&compile("gcc", &["-O2", "-g", "-static"], C), 1);
}

#[test]
fn link_time_optimisation_refers_across_units() {
    agrees_with_symbolizer(&compile("g++", &["-O2", "-g", "-flto"], CPP), 1);
    agrees_with_symbolizer(&compile("clang++-19", &["-O2", "-g", "-flto", "-fuse-ld=lld"], CPP), 1);
}

#[test]
fn rust_and_go() {
    let rust = "fn twice(x: u32) -> u32 { std::hint::black_box(x) * 2 }\n\
                fn main() {\n    let all: Vec<u32> = std::env::args().map(|a| twice(a.len() as u32)).collect();\n    \
                println!(\"{:?}\", all);\n}\n";
    agrees_with_symbolizer(&compile("rustc", &["-O", "-g"], ("main.rs", rust)), 53);
    let go = "package main\nimport \"fmt\"\nfunc twice(x int) int {\n\treturn x * 2\n}\n\
              func main() {\n\tfor i := 0; i < 3; i++ {\n\t\tfmt.Println(twice(i))\n\t}\n}\n";
    agrees_with_symbolizer(&compile("go", &["build"], ("main.go", go)), 53);
}

#[test]
fn split_debug_information_still_has_lines() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = dir.path().join("levels.c");
    std::fs::write(&source, C.1).expect("a writable directory");
    let program = dir.path().join("program");
    let args = ["-O2", "-g", "-gsplit-dwarf", "-o"].map(AsRef::as_ref);
    run("clang-19", &[&args[..], &[program.as_ref(), source.as_ref()]].concat());
    let loaded = open(&program);
    let lines = Lines::new(&loaded);
    let addresses = instructions(&program);
    let mut seen = 0;
    for (&at, said) in addresses.iter().zip(symbolizer(&program, &addresses)) {
        let Some(found) = lines.at(at) else { continue };
        assert_eq!(format!("{}:{}:{}", found.file, found.line, found.column), said[0].1, "{at}");
        seen += 1;
    }
    assert!(seen > 50);
    let complaints = lines.complaints();
    assert!(complaints.len() == 1 && complaints[0].why.contains(".dwo files"), "{complaints:?}");
}

#[test]
fn a_stripped_program_has_none() {
    let program = compile("gcc", &["-O2", "-s"], C);
    let loaded = open(&program);
    let lines = Lines::new(&loaded);
    assert_eq!(lines.unit_count(), 0);
    for at in instructions(&program).into_iter().chain([0, 1, u64::MAX - 1, u64::MAX].map(LinkAddr)) {
        assert_eq!(lines.at(at), None);
        assert_eq!(lines.inlined_at(at), []);
    }
    assert_eq!(lines.within(AddrRange::new(LinkAddr(0), LinkAddr(u64::MAX))).count(), 0);
    assert_eq!(lines.complaints(), []);
}

#[test]
fn questions_may_come_from_several_threads() {
    let program = compile("g++", &["-O2", "-g"], CPP);
    let loaded = open(&program);
    let addresses = instructions(&program);
    let (alone, shared) = (Lines::new(&loaded), Lines::new(&loaded));
    std::thread::scope(|scope| {
        for part in addresses.chunks(addresses.len() / 4) {
            scope.spawn(|| part.iter().for_each(|&at| drop(shared.inlined_at(at))));
        }
    });
    for at in addresses {
        assert_eq!(alone.inlined_at(at), shared.inlined_at(at));
    }
}
