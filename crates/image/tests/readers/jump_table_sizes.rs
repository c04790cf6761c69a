//! rustc's LLVM writes the section (the packaged clang is too old); the assembler's labels say
//! where tables lie.

use relive_image::jump_table_sizes::{self, JumpTable};
use relive_testkit::compile::compile;

const SECTION: &[&str] = &[".llvm_jump_table_sizes"];

#[test]
fn addresses_are_resolved_by_the_linker() {
    // As LLVM 22 writes it, by hand so that the tables have names.
    let source = "
        .globl _start
        _start: ret
        .section .rodata
        .p2align 2
        first:  .long _start - first, _start - first, _start - first
        second: .long _start - second, _start - second
        .section .llvm_jump_table_sizes, \"\", @0x6fff4c0d
        .quad first, 3, second, 2
    ";
    for kind in ["-pie", "-no-pie"] {
        let file = compile("clang-19", &["-nostdlib", kind], ("tables.s", source));
        let symbols = crate::symbols(&file);
        let (_, bytes) = crate::section(&file.bytes(), SECTION);
        let expected = [
            JumpTable { start: symbols["first"], entries: 3 },
            JumpTable { start: symbols["second"], entries: 2 },
        ];
        assert_eq!(jump_table_sizes::parse(&bytes), Ok(expected.to_vec()), "{kind}");
    }
}

#[test]
fn rustc_writes_one_pair_a_switch() {
    let source = r#"
        #[inline(never)]
        fn mix(x: u32, by: u32) -> u32 { std::hint::black_box(x).rotate_left(by) }
        fn pick(x: u32) -> u32 {
            match x {
                0 => mix(1, 3), 1 => mix(20, x), 2 => mix(x, 300), 3 => mix(7, 7), 4 => mix(x, 5),
                5 => mix(9, x), 6 => mix(77, x), 7 => mix(x, x), 8 => mix(5, 1), _ => 2,
            }
        }
        fn main() { println!("{}", pick(std::env::args().count() as u32)); }
    "#;
    let flags = ["-O", "-C", "llvm-args=--emit-jump-table-sizes-section"];
    let file = compile("rustc", &flags, ("main.rs", source));
    let (_, bytes) = crate::section(&file.bytes(), SECTION);
    let tables = jump_table_sizes::parse(&bytes).unwrap();
    let (rodata, contents) = crate::section(&file.bytes(), &[".rodata"]);
    assert!(!tables.is_empty());
    for table in tables {
        assert!(table.start >= rodata && table.start < rodata.offset(contents.len() as u64), "{table:?}");
    }
}
