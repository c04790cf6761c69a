//! Control-flow graphs and the analyses on them, for programs every Debian has, against their checkers
//! and against what the programs' unwind tables say.

use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::End;
use relive_code::liveness::{Convention, Liveness};
use relive_code::stack_height::StackHeights;
use relive_code::verify;
use relive_image::image::Image;
use relive_image::program::{Function, Program, analyze};
use std::sync::LazyLock;

/// Those that are there are tested: C and hand-written code, exceptions, and a large interpreter.
const FILES: [&str; 16] = [
    "/usr/bin/git", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/bin/gdb", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "/usr/lib/x86_64-linux-gnu/libapt-pkg.so.6.0", "/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/librsvg-2.so.2", "/usr/lib/x86_64-linux-gnu/libz3.so.4", "/usr/lib/x86_64-linux-gnu/libx265.so.199", "/usr/lib/x86_64-linux-gnu/libicui18n.so.72","/usr/bin/node",
    "/bin/ls",
    "/bin/bash",
    "/usr/bin/perl",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libstdc++.so.6",
];

struct Case {
    path: &'static str,
    image: Image<'static>,
    program: Program<'static>,
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let cases: Vec<Case> = FILES
        .into_iter()
        .filter_map(|path| {
            let bytes = std::fs::read(path).ok()?.leak();
            let image = Image::parse(bytes, None).expect("a sound ELF file");
            let program = analyze(&image);
            Some(Case { path, image, program })
        })
        .collect();
    assert!(!cases.is_empty(), "none of the files to test with is there");
    cases
});

/// Every function of every file that is understood.
fn understood() -> impl Iterator<Item = (&'static Case, &'static Function<'static>)> {
    CASES.iter().flat_map(|case| {
        case.program.functions.iter().filter(|f| f.cfg.is_understood()).map(move |function| (case, function))
    })
}

/// A few hundred functions of a size that slow checkers can bear.
fn sample() -> impl Iterator<Item = (&'static Case, &'static Function<'static>)> {
    understood().filter(|(_, function)| function.cfg.blocks.len() <= 100).step_by(23)
}

#[test]
fn graphs_hold_together() {
    for case in CASES.iter() {
        for function in &case.program.functions {
            if let Err(why) = verify::cfg::check(&function.cfg, &case.image.elf) {
                println!("{}: {} at {}: {why}", case.path, function.name(), function.entry);
            }
        }
    }
}

#[test]
fn liveness_agrees_with_its_definition() {
    for (case, function) in sample() {
        for convention in [Convention::cautious(), Convention::system_v()] {
            let liveness = Liveness::new(&function.cfg, &case.image.elf, &convention);
            let checked = verify::liveness::check(&function.cfg, &case.image.elf, &convention, &liveness);
            if let Err(why) = checked {
                println!("{}: {} at {}: {why}", case.path, function.name(), function.entry);
            }
        }
    }
}

#[test]
fn stack_heights_agree_with_a_machine() {
    for (case, function) in sample() {
        let heights = StackHeights::new(&function.cfg, &case.image.elf);
        if let Err(why) = verify::stack_height::check(&function.cfg, &case.image.elf, &heights) {
            println!("{}: {} at {}: {why}", case.path, function.name(), function.entry);
        }
    }
}

/// Whoever returns finds the return address where the call left it.
#[test]
fn functions_return_at_the_height_they_were_entered() {
    let mut checked = 0;
    for (case, function) in understood() {
        let heights = StackHeights::new(&function.cfg, &case.image.elf);
        for (id, _) in function.cfg.numbered_blocks().filter(|(_, block)| block.end == End::Return) {
            if let Some(&(at, Some(height))) = heights.per_insn(id).last() {
                if height != 0 { println!("RET {}: {} returns at {at} {height}", case.path, function.name()); }
                checked += 1;
            }
        }
    }
    println!("{checked} returns");
}

/// What the unwind table says of the start of a block, next to what the analysis says.
#[test]
fn stack_heights_agree_with_unwind_tables() {
    let (mut agreed, mut unknown, mut unannotated) = (0, 0, 0);
    for (case, function) in understood() {
        let heights = StackHeights::new(&function.cfg, &case.image.elf);
        for (id, block) in function.cfg.numbered_blocks().filter(|(_, block)| block.reached) {
            let Some(table) = Table::holding(&case.image, block.start) else { continue };
            let Some(depth) = table.depth(block.start) else { continue };
            match heights.at_block(id) {
                None => unknown += 1,
                Some(height) if 8 - height == depth => agreed += 1,
                Some(_) if table.rows.len() == 1 => unannotated += 1,
                Some(height) => println!(
                    "{}: {} at {}: the height is {height}, the unwind table says {}",
                    case.path,
                    function.name(),
                    block.start,
                    8 - depth
                ),
            }
        }
    }
    println!("{agreed} blocks agree, of {unknown} the height is unknown, {unannotated} are not annotated");
    assert!(unknown < agreed / 20, "too little is known: {unknown} of {} blocks", agreed + unknown);
    assert!(unannotated < agreed / 1000, "{unannotated} blocks disagree");
}

/// What `.eh_frame` says of one stretch of code.
///
/// Not all of it can be taken at its word:
///
/// - A table of a single row may be one that somebody who wrote assembler did not annotate, though the
///   code does move the stack pointer: glibc's `mpn` functions are like that. Only there it may disagree.
/// - A piece split off a function begins with a `nop` if otherwise a landing pad would be at its very
///   start, where the exception table cannot point to. Its first row, which covers just that, describes
///   a frame that is not there, so that the piece seems to be a function.
struct Table {
    rows: Vec<(AddrRange, Option<i64>)>,
}

impl Table {
    /// The table for the code around `at`, if that begins like a function.
    fn holding(image: &Image<'_>, at: LinkAddr) -> Option<Self> {
        let frame = image.unwind.frame_holding(at).filter(|frame| frame.starts_like_a_function)?;
        let rows = image.unwind.stack_depths(frame).ok()?;
        let first = rows.first()?.0;
        let is_split_off = first.len() == 1 && image.elf.bytes_at(first.start).first() == Some(&0x90);
        (!is_split_off).then_some(Self { rows })
    }

    /// How far the stack pointer is below the frame at `at`, if the table says so.
    fn depth(&self, at: LinkAddr) -> Option<i64> {
        self.rows.iter().find(|(range, _)| range.contains(at))?.1
    }
}
