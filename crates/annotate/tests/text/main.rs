//! Annotated text is assembled into the same object file as without, and what is said in it is true of the code.

mod objects;

use objects::{Pair, compare, pair, pair_of_text};
use relive_annotate::facts::{Facts, Place};
use relive_annotate::object_file::ObjectFile;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Flow, Insn};
use std::collections::BTreeSet;

const C: &str = include_str!("fixture.c");
const CPP: &str = include_str!("fixture.cc");
/// What the fixtures call that does not come back.
const NEVER_RETURN: &[&str] =
    &["exit", "abort", "longjmp", "_Unwind_Resume", "__cxa_throw", "__cxa_rethrow", "never"];
const BY_HAND: &str = include_str!("by_hand.s");

/// Instructions, and everywhere that one could begin.
struct Code {
    instructions: Vec<(Place, Insn)>,
    starts: BTreeSet<Place>,
}

impl Code {
    /// Decodes the sections of code, but not the bytes that are no instructions.
    fn of(object: &ObjectFile<'_>, facts: &Facts) -> Self {
        let mut code = Self { instructions: Vec::new(), starts: BTreeSet::new() };
        for (index, section) in object.sections.iter().enumerate().filter(|(_, section)| section.is_code()) {
            let place = |offset| Place { section: index as u32, offset };
            let data: Vec<_> = facts.bytes.iter().filter(|(from, _)| from.section == index as u32).collect();
            let mut from = 0;
            let ends = data.iter().map(|(from, to)| (from.offset, to.offset));
            for (to, next) in ends.chain([(section.len(), section.len())]) {
                let bytes = &section.data[from as usize..to as usize];
                for insn in Decode::new(bytes, LinkAddr(from)) {
                    code.starts.insert(place(insn.addr().0));
                    code.instructions.push((place(insn.addr().0), insn));
                    from = insn.next_addr().0;
                }
                assert_eq!(from, to, "section {index} does not decode");
                code.starts.insert(place(next));
                from = next;
            }
        }
        code
    }

    fn at(&self, place: Place) -> &Insn {
        let index = self.instructions.binary_search_by_key(&place, |(at, _)| *at);
        &self.instructions[index.unwrap_or_else(|_| panic!("no instruction at {place:?}"))].1
    }

    fn before(&self, place: Place) -> &Insn {
        let index = self.instructions.partition_point(|(at, _)| *at < place);
        &self.instructions[index - 1].1
    }
}

/// Checks everything that is said against the code.
fn check(pair: &Pair) -> Facts {
    compare(pair);
    let object = ObjectFile::parse(&pair.annotated).expect("an object file");
    let facts = relive_annotate::facts::read(&object).expect("facts");
    let code = Code::of(&object, &facts);
    for block in &facts.blocks {
        assert!(code.starts.contains(block), "{}: block {block:?}", pair.what);
    }
    for behind in &facts.no_return {
        let insn = code.before(*behind);
        assert_eq!(insn.next_addr().0, behind.offset, "{}", pair.what);
        assert!(matches!(insn.flow(), Flow::Call(_) | Flow::IndirectCall), "{}: {behind:?}", pair.what);
    }
    assert!(facts.no_return.len() >= 2 || facts.blocks.is_empty(), "{}", pair.what);
    assert_eq!(facts.no_return, objects::behind_calls(&object, NEVER_RETURN), "{}", pair.what);
    for (from, to) in &facts.inline {
        assert!(code.starts.contains(from) && code.starts.contains(to), "{}: {from:?} {to:?}", pair.what);
    }
    let blocks: BTreeSet<Place> = facts.blocks.iter().copied().collect();
    for jump in &facts.jumps {
        assert_eq!(code.at(jump.site).flow(), Flow::IndirectJump, "{}: {jump:?}", pair.what);
        assert!(jump.leaves || !jump.targets.is_empty(), "{}: {jump:?}", pair.what);
        assert!(jump.targets.iter().all(|target| blocks.contains(target)), "{}: {jump:?}", pair.what);
        if let Some(table) = jump.table {
            let entries = objects::entries(&object, &table);
            assert_eq!(entries.len(), table.count as usize);
            let targets: BTreeSet<Place> = jump.targets.iter().copied().collect();
            let entries: BTreeSet<Place> = entries.into_iter().collect();
            assert_eq!(entries, targets, "{}: {jump:?}", pair.what);
        }
    }
    facts
}

/// Everything that gcc may be told, and what is found in the fixture in C each time.
#[test]
fn gcc_c() {
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        for more in [
            &["-fPIC"][..],
            &["-fno-pic", "-fcf-protection"],
            &["-ffunction-sections", "-fdata-sections", "-g"],
            &["-masm=intel", "-fno-asynchronous-unwind-tables"],
            &["-fverbose-asm", "-gdwarf-4"],
        ] {
            let args = [&[level], more].concat();
            let facts = check(&pair("gcc", &args, "fixture.c", C));
            let tables = facts.jumps.iter().filter_map(|jump| jump.table);
            let wide = more.contains(&"-fno-pic");
            let tables: Vec<_> = tables.map(|table| (table.entry_size, table.is_relative)).collect();
            assert_eq!(tables, [if wide { (8, false) } else { (4, true) }], "{args:?}");
            assert_eq!(facts.bytes.len(), 3, "{args:?}: {:?}", facts.bytes);
            assert!(facts.inline.len() >= 2, "{args:?}: {:?}", facts.inline);
            let computed = facts.jumps.iter().filter(|jump| jump.table.is_none() && jump.targets.len() == 3);
            assert!(computed.count() >= 1, "{args:?}: {:?}", facts.jumps);
            let leaving = facts.jumps.iter().filter(|jump| jump.leaves).count();
            assert!(leaving >= if level >= "-O2" { 2 } else { 1 }, "{args:?}: {:?}", facts.jumps);
        }
    }
}

#[test]
fn gcc_cpp() {
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        for more in [&["-fPIC"][..], &["-fno-pic"], &["-ffunction-sections", "-g"]] {
            let args = [&[level], more].concat();
            let facts = check(&pair("g++", &args, "fixture.cc", CPP));
            assert!(facts.jumps.iter().any(|jump| jump.table.is_some()), "{args:?}");
        }
    }
}

/// Indirect jumps in other words: the site is a direct jump, or a return.
#[test]
fn thunks() {
    for thunk in ["-mindirect-branch=thunk-extern", "-mindirect-branch=thunk-inline"] {
        let pair = pair("gcc", &["-O2", thunk], "fixture.c", C);
        compare(&pair);
        let object = ObjectFile::parse(&pair.annotated).expect("an object file");
        let facts = relive_annotate::facts::read(&object).expect("facts");
        let code = Code::of(&object, &facts);
        let computed: Vec<_> = facts.jumps.iter().filter(|jump| jump.targets.len() == 3).collect();
        assert!(!computed.is_empty());
        for jump in computed {
            let flow = code.at(jump.site).flow();
            assert!(matches!(flow, Flow::Jump(_) | Flow::Return), "{thunk}: {flow:?}");
        }
    }
}

/// Text that speaks of itself: lines keep their numbers, names stay, hidden lines are left alone.
#[test]
fn by_hand() {
    for args in [&[][..], &["-g"], &["-gdwarf-4"]] {
        let pair = pair_of_text("gcc", args, "by_hand.s", BY_HAND);
        let facts = check(&pair);
        assert!(facts.blocks.is_empty() && facts.jumps.is_empty());
        let bytes: Vec<_> = facts.bytes.iter().map(|(from, to)| to.offset - from.offset).collect();
        assert_eq!(bytes, [7, 6, 4], "{:?}", facts.bytes);
    }
}

/// An empty block, with a label that something leads to, in front of one that is aligned.
const BEFORE_FILL: &str = "\t.text
f:
# BLOCK 2 seq:0
\tleaq\ttable(%rip), %rax
\tnop
# SUCC: 3 (ABNORMAL) 4 (ABNORMAL)
\tjmp\t*(%rax,%rdi,8)
# BLOCK 3 seq:1
.L3:
# SUCC: 4 (FALLTHRU)
# BLOCK 4 seq:2
\t.p2align 4,,10
\t.p2align 3
.L4:
\txorl\t%eax, %eax
# SUCC: EXIT
\tret
\t.section .data.rel.ro,\"aw\"
table:\t.quad .L3, .L4
";

#[test]
fn blocks_before_fill() {
    let pair = pair_of_text("gcc", &[], "before_fill.s", BEFORE_FILL);
    compare(&pair);
    let object = ObjectFile::parse(&pair.annotated).expect("an object file");
    let facts = relive_annotate::facts::read(&object).expect("facts");
    let offsets: Vec<_> = facts.blocks.iter().map(|at| at.offset).collect();
    assert_eq!(offsets, [0, 11, 16]);
    let targets: Vec<_> = facts.jumps[0].targets.iter().map(|at| at.offset).collect();
    assert_eq!(targets, [11, 16]);
}

/// Text that ends anywhere, or has anything in it, is no reason to panic.
#[test]
fn any_text() {
    let said = "# BLOCK 2 seq:0\n# SUCC: 3 (FALLTHRU) EXIT (\n\tjmp\t*%rax\n.L4:\t.long .L1-.L4\n\"\\\n";
    for text in [BY_HAND, said] {
        for at in 0..text.len() {
            for byte in [b'\n', b'"', b'\'', b'\\', b'/', b'*', b'#', b';', b':', b'.', 0xff] {
                let mut text = text.as_bytes().to_vec();
                text[at] = byte;
                let whole = relive_annotate::text::annotate(&text, "x.s");
                text.truncate(at + 1);
                let part = relive_annotate::text::annotate(&text, "x.s");
                for text in whole.into_iter().chain(part) {
                    assert!(text.starts_with(b"# 1 \"x.s\"\n"));
                }
            }
        }
    }
}

#[test]
fn nothing_to_say() {
    let annotate = |text: &str| relive_annotate::text::annotate(text.as_bytes(), "x.s");
    assert_eq!(annotate("\t.text\nf:\tret\n\t.data\n\t.long 1\n"), None);
    assert_eq!(annotate(""), None);
    let once = annotate("f:\t.byte 1\n").expect("data in code");
    assert_eq!(annotate(std::str::from_utf8(&once).expect("UTF-8")), None, "annotated twice");
    assert_eq!(annotate(".macro go\n.section .rodata\n.endm\ngo\n.byte 1\n"), None, "lost in macros");
}
