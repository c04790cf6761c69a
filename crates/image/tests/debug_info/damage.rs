//! Debug information that is damaged, or made to do harm.

use crate::programs::{C, CPP, instructions};
use object::{Object as _, ObjectSection as _};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::lines::Lines;
use relive_testkit::compile::{Compiled, compile};
use std::ops::Range;

/// A fixed sequence of numbers (xorshift64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Where the debug sections lie in the file.
fn debug_sections(file: &[u8]) -> Vec<Range<usize>> {
    let elf = object::File::parse(file).expect("an ELF file");
    let of_debug = |name: &str| name.starts_with(".debug_") || name.starts_with(".zdebug_");
    elf.sections()
        .filter(|section| section.name().is_ok_and(of_debug))
        .filter_map(|section| section.file_range())
        .map(|(start, len)| start as usize..(start + len) as usize)
        .collect()
}

/// Asks everything about some addresses; the answers may be anything.
fn ask(file: &[u8], addresses: &[LinkAddr]) {
    let lines = Lines::from_bytes(file, None, None);
    for &at in addresses {
        assert_eq!(lines.inlined_at(at).first().and_then(|frame| frame.location), lines.at(at));
    }
    let whole = AddrRange::new(LinkAddr(0), LinkAddr(u64::MAX));
    let mut end = LinkAddr(0);
    for (range, location) in lines.within(whole) {
        assert!(end <= range.start && range.start < range.end, "{range}");
        assert_eq!(lines.at(range.start), Some(location));
        end = range.end;
    }
    assert!(lines.complaints().len() <= 20);
}

fn survives(program: &Compiled, cases: u64) {
    let bytes = program.bytes();
    let sections = debug_sections(&bytes);
    assert!(sections.len() >= 5);
    let addresses: Vec<LinkAddr> = instructions(program).into_iter().step_by(11).collect();
    for seed in 1..=cases {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut damaged = bytes.clone();
        for _ in 0..=dice.roll(8) {
            let section = sections[dice.roll(sections.len())].clone();
            if section.is_empty() {
                continue;
            }
            // Damage near the start meets headers.
            let reach = if dice.roll(2) == 0 { section.len() } else { section.len().min(64) };
            let at = section.start + dice.roll(reach);
            let end = section.end.min(at + 16);
            match dice.roll(4) {
                0 => damaged[at] ^= 1 << dice.roll(8),
                1 => damaged[at] = dice.roll(256) as u8,
                2 => damaged[at..end].fill([0x00, 0x7f, 0x80, 0xff][dice.roll(4)]),
                // The smallest number there is, in the variable-length form.
                _ => damaged[at..end].copy_from_slice(&[&[0x80; 9][..], &[0x7f; 7]].concat()[..end - at]),
            }
        }
        ask(&damaged, &addresses);
    }
}

#[test]
fn damaged_sections() {
    survives(&compile("gcc", &["-O2", "-g"], C), 300);
    survives(&compile("clang-19", &["-O2", "-gdwarf-4"], C), 200);
    survives(&compile("clang-19", &["-O2", "-gdwarf-5", "-gdwarf64"], C), 200);
    survives(&compile("clang++-19", &["-O2", "-g"], CPP), 60);
    survives(&compile("g++", &["-O2", "-g"], CPP), 40);
}

#[test]
fn damaged_compressed_sections() {
    survives(&compile("gcc", &["-O2", "-g", "-gz"], C), 200);
}

#[test]
fn sections_that_are_cut_short() {
    let program = compile("gcc", &["-O2", "-g", "-no-pie"], C);
    let bytes = program.bytes();
    let addresses: Vec<LinkAddr> = instructions(&program).into_iter().step_by(5).collect();
    let elf = object::read::elf::ElfFile64::<object::LittleEndian>::parse(&*bytes).expect("an ELF file");
    let headers = elf.elf_header().e_shoff.get(object::LittleEndian) as usize;
    for (index, section) in elf.sections().enumerate() {
        if !section.name().is_ok_and(|name| name.starts_with(".debug_")) {
            continue;
        }
        // The size is the fifth word of the header of 64 bytes; the null section is not listed.
        let size_at = headers + (index + 1) * 64 + 32;
        for len in [0, 1, 11, section.size() / 2, section.size() - 1, section.size() + 40, u64::MAX] {
            let mut damaged = bytes.clone();
            damaged[size_at..size_at + 8].copy_from_slice(&len.to_le_bytes());
            ask(&damaged, &addresses);
        }
    }
}

/// Debug information in assembler: abbreviations and entries of one unit around a function.
pub(crate) fn assembler(abbreviations: &str, entries: &str, more: &str) -> String {
    format!(
        r#"
    .text
    .globl main
    .type main, @function
main:
.Lstart:
    .rept 64
    nop
    .endr
    xorl %eax, %eax
    ret
.Lend:
    .size main, .-main
    .section .debug_abbrev, "", @progbits
.Labbreviations:
    # A unit with children: low and high address, lines.
    .uleb128 1, 0x11
    .byte 1
    .uleb128 0x11, 0x01, 0x12, 0x07, 0, 0
{abbreviations}
    .uleb128 0
    .section .debug_info, "", @progbits
    .long .Lunit_end - .Lunit
.Lunit:
    .value 4
    .long .Labbreviations
    .byte 8
    .uleb128 1
    .quad .Lstart, .Lend - .Lstart
{entries}
    .uleb128 0
.Lunit_end:
{more}
    .section .note.GNU-stack, "", @progbits
"#
    )
}

/// The function's entry: a name, an address, a length. Has children.
pub(crate) const FUNCTION: &str = "    .uleb128 2, 0x2e
    .byte 1
    .uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0";

/// The only function that the assembler above makes.
fn main_of(program: &Compiled) -> LinkAddr {
    crate::programs::symbol(program, "main")
}

#[test]
fn calls_that_are_inlined_a_million_deep() {
    let call = "    .uleb128 3, 0x1d\n    .byte 1\n    .uleb128 0, 0";
    let entries = "    .uleb128 2\n    .asciz \"f\"\n    .quad .Lstart, .Lend - .Lstart\n    \
                   .rept 1000000\n    .uleb128 3\n    .endr";
    let text = assembler(&format!("{FUNCTION}\n{call}"), entries, "");
    let program = compile("gcc", &[], ("deep.s", &text));
    let bytes = program.bytes();
    let lines = Lines::from_bytes(&bytes, None, None);
    let frames = lines.inlined_at(main_of(&program));
    assert_eq!(frames.len(), 1);
    assert_eq!((frames[0].function.as_str(), frames[0].location), ("f", None));
}

#[test]
fn names_that_refer_to_themselves() {
    // A call whose function is the call itself, by an offset from the start of the unit.
    let call = "    .uleb128 3, 0x1d\n    .byte 0\n    .uleb128 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0, 0";
    let entries = "    .uleb128 2\n    .asciz \"f\"\n    .quad .Lstart, .Lend - .Lstart\n\
                   .Lself: .uleb128 3\n    .long .Lself - .Lunit + 4\n    .quad .Lstart, 8\n    .uleb128 0";
    let program = compile("gcc", &[], ("self.s", &assembler(&format!("{FUNCTION}\n{call}"), entries, "")));
    let bytes = program.bytes();
    let lines = Lines::from_bytes(&bytes, None, None);
    let names = |at| lines.inlined_at(at).into_iter().map(|f| f.function).collect::<Vec<_>>();
    assert_eq!(names(main_of(&program)), ["?", "f"]);
    assert_eq!(names(main_of(&program).offset(8)), ["f"]);
    assert_eq!(lines.complaints(), []);
}

#[test]
fn a_list_of_ranges_that_everything_refers_to() {
    let function = "    .uleb128 2, 0x2e\n    .byte 0\n    .uleb128 0x55, 0x17, 0, 0";
    let entries = "    .rept 100000\n    .uleb128 2\n    .long .Lranges\n    .endr";
    let ranges = "    .section .debug_ranges, \"\", @progbits\n.Lranges:\n    .rept 50000\n    \
                  .quad 0, 4\n    .quad 8, 12\n    .endr\n    .quad 0, 0";
    let program = compile("gcc", &[], ("shared.s", &assembler(function, entries, ranges)));
    let bytes = program.bytes();
    let lines = Lines::from_bytes(&bytes, None, None);
    let _ = lines.inlined_at(main_of(&program));
    let complaints = lines.complaints();
    assert!(complaints.iter().any(|c| c.why.contains("unfold")), "{complaints:?}");
}

#[test]
fn a_line_that_goes_back_as_far_as_numbers_go() {
    let program = compile("gcc", &["-O2", "-gdwarf-5"], C);
    let mut bytes = program.bytes();
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let section = elf.section_by_name(".debug_line").and_then(|s| s.file_range()).expect("a line table");
    let start = section.0 as usize;
    // The length of the rest of the header is behind the length of the table, the version and two sizes.
    let header = u32::from_le_bytes(bytes[start + 8..start + 12].try_into().expect("four bytes"));
    let program_at = start + 12 + header as usize;
    // DW_LNS_advance_line by the smallest of all numbers.
    bytes[program_at..program_at + 11].copy_from_slice(b"\x03\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f");
    ask(&bytes, &instructions(&program));
}

#[test]
fn sizes_of_compressed_sections_are_not_believed() {
    let program = compile("gcc", &["-O2", "-g", "-gz"], C);
    let bytes = program.bytes();
    let addresses = instructions(&program);
    for section in debug_sections(&bytes) {
        for claim in [0, 1, 1 << 40, u64::MAX] {
            let mut damaged = bytes.clone();
            damaged[section.start + 8..section.start + 16].copy_from_slice(&u64::to_le_bytes(claim));
            ask(&damaged, &addresses);
        }
    }
}
