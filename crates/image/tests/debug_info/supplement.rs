//! Debug information that `dwz` shared between files. Written by hand, so that the tests do not need
//! that tool: the function and the call inlined into it have their names in the supplement.

use crate::damage::assembler;
use crate::programs::{open, run, symbol};
use relive_code::addr::LinkAddr;
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_testkit::compile::{Compiled, compile};
use std::path::PathBuf;
use tempfile::tempdir;

/// `DW_FORM_GNU_ref_alt`, an offset in the supplement.
const FORMS: &str = "
    .uleb128 2, 0x2e
    .byte 1
    .uleb128 0x31, 0x1f20, 0x11, 0x01, 0x12, 0x07, 0, 0
    .uleb128 3, 0x1d
    .byte 0
    .uleb128 0x31, 0x1f20, 0x11, 0x01, 0x12, 0x07, 0x59, 0x0b, 0, 0";

/// A relocatable object, like those of `dwz`.
const SUPPLEMENT: &str = r#"
    .section .note.gnu.build-id, "a", @note
    .long 4, 4, 3
    .asciz "GNU"
    .byte 1, 2, 3, 4
    .section .debug_abbrev, "", @progbits
    .uleb128 1, 0x3c
    .byte 1
    .uleb128 0, 0
    .uleb128 2, 0x2e
    .byte 0
    .uleb128 0x03, 0x08, 0, 0
    .uleb128 3, 0x2e
    .byte 0
    .uleb128 0x47, 0x13, 0, 0
    .uleb128 0
    .section .debug_info, "", @progbits
    .long 1f - 0f
0:  .value 4
    .long 0
    .byte 8
    .uleb128 1
    # Offset 12.
    .uleb128 2
    .asciz "_Z5outerv"
    # Offset 23.
    .uleb128 3
    .long 28
    # Offset 28.
    .uleb128 2
    .asciz "inner"
    .uleb128 0
1:
"#;

fn program(supplement: &str) -> Compiled {
    let entries = "    .uleb128 2\n    .long 12\n    .quad .Lstart, .Lend - .Lstart\n    \
                   .uleb128 3\n    .long 23\n    .quad .Lstart, 8\n    .byte 7\n    .uleb128 0";
    let link = format!(
        "    .section .gnu_debugaltlink, \"\", @progbits\n    .asciz \"{supplement}\"\n    .byte 1, 2, 3, 4\n"
    );
    compile("gcc", &["-g0"], ("program.s", &assembler(FORMS, entries, &link)))
}

fn put_supplement(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
    let source = path.with_extension("s");
    std::fs::write(&source, text).expect("a writable folder");
    run("as", &["-o".as_ref(), path.as_ref(), source.as_ref()]);
}

fn names(lines: &Lines<'_>, at: LinkAddr) -> Vec<String> {
    lines.inlined_at(at).into_iter().map(|frame| frame.function).collect()
}

#[test]
fn names_are_found_in_it() {
    let program = program("common.sup");
    put_supplement(program.with_file_name("common.sup"), SUPPLEMENT);
    let loaded = open(&program);
    assert!(loaded.supplement.is_some() && loaded.notes.is_empty(), "{:?}", loaded.notes);
    let lines = Lines::new(&loaded);
    let main = symbol(&program, "main");
    assert_eq!(names(&lines, main), ["inner", "outer()"]);
    assert_eq!(lines.inlined_at(main)[1].location.map(|at| at.line), Some(7));
    assert_eq!(names(&lines, main.offset(8)), ["outer()"]);
    assert_eq!(lines.complaints(), []);
}

#[test]
fn it_may_lie_in_the_tree_of_build_ids() {
    let program = program("/nowhere/common.sup");
    let root = tempdir().expect("a temporary directory");
    put_supplement(root.path().join(".build-id/01/020304.debug"), SUPPLEMENT);
    let options = Options { debug_roots: vec![root.path().to_owned()], ..Options::default() };
    let loaded = Loaded::open(&*program, &options).expect("a file");
    assert!(loaded.supplement.is_some(), "{:?}", loaded.notes);
    assert_eq!(names(&Lines::new(&loaded), symbol(&program, "main")), ["inner", "outer()"]);
}

#[test]
fn without_it_names_are_missing() {
    let program = program("common.sup");
    let check = |what: &str| {
        let loaded = open(&program);
        assert!(loaded.supplement.is_none());
        assert!(loaded.notes.iter().any(|note| note.contains(what)), "{:?}", loaded.notes);
        assert_eq!(names(&Lines::new(&loaded), symbol(&program, "main")), ["?", "?"]);
    };
    check("the supplement that");
    let other = SUPPLEMENT.replace(".byte 1, 2, 3, 4", ".byte 1, 2, 3, 5");
    put_supplement(program.with_file_name("common.sup"), &other);
    check("belongs to build 01020305, not 01020304");
    std::fs::write(program.with_file_name("common.sup"), "text").expect("a writable folder");
    check("not used");
}
