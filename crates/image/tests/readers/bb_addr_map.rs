//! Clang and rustc write the map; `llvm-readobj` and `objdump` say what is in it.

use std::fmt::Write as _;

use relive_code::addr::LinkAddr;
use relive_image::bb_addr_map::{self, Block, Features, FunctionMap};
use relive_testkit::compile::{Compiled, compile, stdout};

const SECTION: &[&str] = &[".llvm_bb_addr_map"];

const SOURCE: (&str, &str) = (
    "main.cpp",
    r#"
    #include <cstdio>
    #include <stdexcept>
    struct Guard { int x; ~Guard() { std::printf("%d\n", x); } };
    __attribute__((noinline)) int pick(int n) {
        if (n > 9) throw std::runtime_error("x");
        switch (n) {
            case 0: return std::puts("a"); case 1: return std::printf("b"); case 2: return std::puts("c");
            case 3: return std::puts("d"); case 4: return std::printf("e"); default: return 1;
        }
    }
    int guarded(int n) {
        Guard guard{n};
        try { return pick(n); } catch (std::exception&) { return -1; }
    }
    int main(int argc, char** argv) {
        int sum = 0;
        for (int i = 0; i < argc; i++) sum += guarded(i);
        return sum;
    }
    "#,
);

/// The lines of `llvm-readobj --bb-addr-map` that carry numbers or flags, for what we have read.
fn as_readobj(functions: &[FunctionMap]) -> String {
    let yes_no = |flag| if flag { "Yes" } else { "No" };
    let mut text = String::new();
    for function in functions {
        writeln!(text, "At: {:#X}", function.entry().0).unwrap();
        for range in &function.ranges {
            writeln!(text, "Base Address: {:#X}", range.start.0).unwrap();
            for Block { id, range: block, flags, .. } in &range.blocks {
                writeln!(text, "ID: {id}").unwrap();
                writeln!(text, "Offset: {:#X}", block.start.since(range.start)).unwrap();
                writeln!(text, "Size: {:#X}", block.len()).unwrap();
                writeln!(text, "HasReturn: {}", yes_no(flags.has_return())).unwrap();
                writeln!(text, "HasTailCall: {}", yes_no(flags.has_tail_call())).unwrap();
                writeln!(text, "IsEHPad: {}", yes_no(flags.is_eh_pad())).unwrap();
                writeln!(text, "CanFallThrough: {}", yes_no(flags.can_fall_through())).unwrap();
                writeln!(text, "HasIndirectBranch: {}", yes_no(flags.has_indirect_branch())).unwrap();
            }
        }
        if let Some(count) = function.profile.entry_count {
            writeln!(text, "FuncEntryCount: {count}").unwrap();
        }
        for block in &function.profile.blocks {
            writeln!(text, "Frequency: {}", block.frequency.unwrap()).unwrap();
            for successor in &block.successors {
                writeln!(text, "ID: {}", successor.id).unwrap();
                writeln!(text, "Probability: {:#X}", successor.probability).unwrap();
            }
        }
    }
    text.replace("0X", "0x")
}

fn agrees_with_readobj(file: &Compiled) -> Vec<FunctionMap> {
    let functions = bb_addr_map::parse(&section(file)).unwrap();
    let oracle = stdout("llvm-readobj-19", &["--bb-addr-map".as_ref(), file.as_ref()]);
    let (_, oracle) = oracle.split_once("BBAddrMap [").expect("a map");
    let oracle: Vec<&str> = oracle
        .lines()
        .map(str::trim)
        .filter(|line| line.contains(": ") && !line.starts_with("Name:"))
        .collect();
    let ours = as_readobj(&functions);
    assert!(oracle.len() > 20, "the oracle has found nothing");
    assert_eq!(ours.lines().collect::<Vec<_>>(), oracle);
    functions
}

fn section(file: &Compiled) -> Vec<u8> {
    crate::section(&file.bytes(), SECTION).1
}

#[test]
fn clang_with_every_linker_and_kind_of_file() {
    for linker in ["-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=lld-19"] {
        for kind in ["-pie", "-no-pie"] {
            let flags = ["-O1", "-fPIE", "-fbasic-block-address-map", linker, kind];
            let functions = agrees_with_readobj(&compile("clang++-19", &flags, SOURCE));
            let eh_pads =
                functions.iter().flat_map(FunctionMap::blocks).filter(|block| block.flags.is_eh_pad());
            assert_ne!(eh_pads.count(), 0, "the source should have landing pads");
        }
    }
}

#[test]
fn clang_with_profile_data_and_scattered_blocks() {
    let flags = [
        "-O1",
        "-fbasic-block-address-map",
        "-fbasic-block-sections=all",
        "-mllvm",
        "-pgo-analysis-map=func-entry-count,bb-freq,br-prob",
    ];
    let functions = agrees_with_readobj(&compile("clang++-19", &flags, SOURCE));
    assert!(functions.iter().any(|function| function.ranges.len() > 1));
    assert!(functions.iter().any(|function| function.profile.blocks.iter().any(|b| b.successors.len() == 2)));
}

/// rustc brings an LLVM of its own, newer than the packaged tools: version 5 of the format with
/// Rust 1.95. The oracle is the disassembly: blocks begin at instructions, calls end where the
/// block says.
#[test]
fn rustc_with_the_newest_llvm() {
    let source = r#"
        #[inline(never)]
        fn twice(x: u32) -> u32 { std::hint::black_box(x) * 2 }
        #[inline(never)]
        #[unsafe(no_mangle)]
        fn several_calls(x: u32) -> u32 {
            let first = twice(x + 1);
            let second = twice(first + 7) + twice(first);
            if second > 100 { twice(second) + 1 } else { second }
        }
        fn main() { println!("{}", several_calls(std::env::args().count() as u32)); }
    "#;
    let flags = ["-O", "-C", "llvm-args=--basic-block-address-map --pgo-analysis-map=all"];
    let file = compile("rustc", &flags, ("main.rs", source));
    let functions = bb_addr_map::parse(&section(&file)).unwrap();
    let entry = crate::symbols(&file)["several_calls"];
    let function = functions.iter().find(|function| function.entry() == entry).expect("the function's entry");

    let listing = stdout("objdump", &["-d".as_ref(), "--disassemble=several_calls".as_ref(), file.as_ref()]);
    // Address and text of every instruction.
    let instructions: Vec<(LinkAddr, &str)> = listing
        .lines()
        .filter_map(|line| {
            let (address, rest) = line.split_once(":\t")?;
            let text = rest.split_once('\t')?.1;
            Some((LinkAddr(u64::from_str_radix(address.trim(), 16).ok()?), text))
        })
        .collect();
    let is_instruction = |at: LinkAddr| instructions.iter().any(|(address, _)| *address == at);
    for block in function.blocks() {
        assert!(is_instruction(block.range.start), "{block:?}");
    }
    assert!(function.blocks().any(|block| block.flags.has_return()));
    assert_eq!(function.profile.blocks.len(), function.blocks().count());
    if function.version >= 3 {
        assert!(function.features.intersects(Features::CALL_ENDS));
        let returns_to: Vec<LinkAddr> = instructions
            .windows(2)
            .filter(|pair| pair[0].1.starts_with("call"))
            .map(|pair| pair[1].0)
            .collect();
        let ours: Vec<LinkAddr> = function.blocks().flat_map(|block| block.call_ends.clone()).collect();
        assert_eq!(ours, returns_to);
        assert!(ours.len() >= 3);
    }
}
