//! What the fuzzers found, made smaller. Each case broke a promise once.

use relive_code::addr::LinkAddr;
use relive_promises::decode_cfg::{About, BARE_POINTERS, Case, Claim, OPEN_ENDED};
use relive_promises::trace::{self, Chunk, kind};
use relive_promises::{decode_cfg, elf_facts, seeds, traces};

fn number(file: &[u8], at: usize, len: usize) -> u64 {
    file[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn put(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Where each program header, and each section header, begins.
fn headers(file: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let start = number(file, 40, 8) as usize;
    let programs = (0..number(file, 56, 2) as usize).map(|i| 64 + i * 56);
    let sections = (0..number(file, 60, 2) as usize).map(|i| start + i * 64);
    (programs.collect(), sections.collect())
}

/// One segment begins inside another: what lies at an address depended on where the reading began.
#[test]
fn segments_that_overlap() {
    let mut file = seeds::program("static");
    let (programs, _) = headers(&file);
    let loaded: Vec<usize> = programs.into_iter().filter(|&at| number(&file, at, 4) == 1).collect();
    let [first, second, ..] = loaded[..] else { panic!("two segments") };
    let inside = number(&file, first + 16, 8) + 11;
    put(&mut file, second + 16, inside);
    elf_facts::check(&file);
}

/// A code section as large as a segment that is nearly all memory and hardly any file: every byte of it
/// was given a mark, and decoded.
#[test]
fn code_that_is_only_in_memory() {
    for len in [1 << 40, 1 << 62] {
        let mut file = seeds::program("static");
        let (programs, sections) = headers(&file);
        for program in programs.into_iter().filter(|&at| number(&file, at, 4) == 1).collect::<Vec<_>>() {
            put(&mut file, program + 40, len);
        }
        for section in sections {
            if number(&file, section + 8, 8) & 4 != 0 {
                put(&mut file, section + 32, len / 2);
            }
        }
        elf_facts::check(&file);
    }
}

/// An array of functions to call at start that is as long as the address space: every word was asked for.
#[test]
fn an_array_that_is_not_in_the_file() {
    let mut file = seeds::program("dynamic");
    let (_, sections) = headers(&file);
    let array = sections.into_iter().find(|&at| number(&file, at + 4, 4) == 14).expect("an array");
    put(&mut file, array + 32, 1 << 62);
    elf_facts::check(&file);
}

/// Code up to the last addresses there are: the next stretch to decode began behind them.
#[test]
fn code_at_the_end_of_the_address_space() {
    let mut file = seeds::program("static");
    let (programs, _) = headers(&file);
    for program in programs {
        let at = (u64::MAX - number(&file, program + 40, 8)) & !0xfff;
        put(&mut file, program + 16, at);
    }
    // Without section headers the segments tell what is code.
    put(&mut file, 40, 0);
    file[60..64].fill(0);
    elf_facts::check(&file);
}

/// Memory at 0x1000 with the given parts, fill between them.
fn memory(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut memory = Vec::new();
    for (at, bytes) in parts {
        memory.resize(*at, 0xcc);
        memory.extend(*bytes);
    }
    memory
}

fn claim(about: About, a: u16, b: u16) -> Claim {
    Claim { about, numbers: [a, b, 0] }
}

/// `cmp eax, 1; ja 1f; jmp [rax * 8 + 0x1040]; 1: ret`
const SWITCH: &[u8] = &[0x83, 0xf8, 1, 0x77, 7, 0xff, 0x24, 0xc5, 0x40, 0x10, 0, 0, 0xc3];

fn table(targets: [u64; 2]) -> Vec<u8> {
    targets.iter().flat_map(|target| target.to_le_bytes()).collect()
}

/// A table with an entry for where the function may or may not end: no edge led there.
#[test]
fn a_case_at_an_end_that_nobody_states() {
    let memory = memory(&[(0, SWITCH), (0x40, &table([0x100c, 0x1020]))]);
    let claims = vec![claim(About::Piece, 0, 0x20), claim(About::Function, 0x20, 0)];
    let case = Case { flags: OPEN_ENDED | BARE_POINTERS, claims, memory };
    decode_cfg::check(&case.encode());
    let cfg = decode_cfg::graph(&case);
    assert!(cfg.dump().contains("tail-call:0x1020"), "{}", cfg.dump());
}

/// A table that leads nowhere but to the end of the function: the jump had no edge at all.
#[test]
fn no_case_that_can_happen() {
    let memory = memory(&[(0, SWITCH), (0x40, &table([0x100d, 0x100d]))]);
    let case = Case { flags: BARE_POINTERS, claims: vec![claim(About::Piece, 0, 13)], memory };
    decode_cfg::check(&case.encode());
    assert!(!decode_cfg::graph(&case).is_understood());
}

/// A jump in dead code that leads into what was taken for data: a block and a gap in one place.
#[test]
fn dead_code_that_leads_into_data() {
    let code = [&[0xc3], SWITCH].concat();
    let memory = memory(&[(0, &code), (0x20, &[0x90, 0xc3]), (0x40, &table([0x100d, 0x1020]))]);
    let claims = vec![claim(About::Piece, 0, 0x30), claim(About::Data, 0x1c, 0x30)];
    let case = Case { flags: BARE_POINTERS, claims, memory };
    decode_cfg::check(&case.encode());
    let cfg = decode_cfg::graph(&case);
    assert!(cfg.block_starting(LinkAddr(0x1020)).is_some(), "{}", cfg.dump());
}

/// Two ways to look at a jump that find as many targets, but not the same: each was preferred to the
/// other in turn, for ever.
#[test]
fn a_jump_that_is_seen_in_two_ways() {
    // and eax, 0x90909090; loope 1f; …; 1: nop; and ecx, 3; nop; mov ecx, [rcx * 8 + 0x1100]; jmp rcx
    let jump =
        [0x25, 0x90, 0x90, 0x90, 0x90, 0xe1, 0x0f, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xb8, 0x90]
            .into_iter()
            .chain([0x90, 0x90, 0x90, 0x83, 0xe1, 3, 0x90, 0x8b, 0x0c, 0xcd, 0, 0x11, 0, 0, 0xff, 0xe1]);
    let mut code = [0x90; 156];
    code[0x52..].iter_mut().zip(jump).for_each(|(to, from)| *to = from);
    let targets: Vec<u8> =
        [0x1078u64, 0x1050, 0x1028, 0x1020].iter().flat_map(|to| to.to_le_bytes()).collect();
    let memory = memory(&[(0, &code), (0x100, &targets)]);
    let claims = vec![claim(About::Piece, 0, 156), claim(About::Reference, 0x100, 0)];
    decode_cfg::check(&Case { flags: BARE_POINTERS, claims, memory }.encode());
}

/// A breakpoint at the end of everything stops whoever comes so far: the checker did not know.
#[test]
fn a_breakpoint_at_the_end() {
    let claims = vec![claim(About::Piece, 0, 6)];
    let case = Case { flags: 0, claims, memory: vec![0x85, 0xc0, 0x74, 1, 0xc3, 0xcc] };
    decode_cfg::check(&case.encode());
}

/// A process of a trace, forked off another.
fn forked(number: u32, parent: u32) -> Chunk {
    let body = format!(r#"{{"number":{number},"pid":7,"parent":[{parent},9,9]}}"#).into_bytes();
    Chunk { kind: kind::PROCESS, process: 0, body }
}

/// The tag of a unit was far from all others, and so there was a table of a gigabyte for each process.
#[test]
fn a_tag_that_is_far_away() {
    let (_, mut case) = traces::cases().into_iter().find(|(name, _)| name == "all").expect("a case");
    let code = case.chunks.iter_mut().find(|chunk| chunk.kind == kind::CODE).expect("code");
    let first = 3u32.to_le_bytes();
    let at =
        code.body.windows(8).position(|word| word == [&first[..], &[1, 0, 2, 0]].concat()).expect("a unit");
    code.body[at..at + 4].copy_from_slice(&0x0f00_0003u32.to_le_bytes());
    case.chunks.extend((2..50).map(|number| forked(number, 0)));
    trace::check(&case.encode());
}

/// Every process was forked off the one before: reading the last took as many calls, one inside the other.
#[test]
fn a_long_line_of_processes() {
    let (_, mut case) = traces::cases().remove(0);
    case.chunks.extend((2..30_000).map(|number| forked(number, number - 1)));
    trace::check(&case.encode());
}
