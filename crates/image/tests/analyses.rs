//! Control-flow graphs and the analyses on them, for programs every Debian has: against their checkers,
//! and against what the programs' unwind tables say.

use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{Cfg, End, Target};
use relive_code::isa::{Insn, RegSet, Syntax};
use relive_code::liveness::{Convention, Liveness};
use relive_code::stack_height::StackHeights;
use relive_code::verify;
use relive_image::elf::Elf;
use relive_image::image::Image;
use relive_image::program::{Function, Program, analyze};
use std::sync::LazyLock;

/// C, hand-written code, C++ with exceptions, and a large interpreter. Those that are there are tested.
const FILES: [&str; 5] = [
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
    let read = |path| {
        let bytes: &'static [u8] = std::fs::read(path).ok()?.leak();
        let image = Image::parse(bytes, None).expect("a sound ELF file");
        let program = analyze(&image);
        Some(Case { path, image, program })
    };
    let cases: Vec<Case> = FILES.into_iter().filter_map(read).collect();
    assert!(!cases.is_empty(), "none of the files to test with is there");
    cases
});

/// Every function of every file that is understood.
fn understood() -> impl Iterator<Item = (&'static Case, &'static Function<'static>)> {
    CASES.iter().flat_map(|case| {
        let functions = case.program.functions.iter();
        functions.filter(|function| function.cfg.is_understood()).map(move |function| (case, function))
    })
}

/// Runs a slow checker on some hundred functions of bearable size.
fn check_sample(check: impl Fn(&Cfg, &Elf<'static>) -> Result<(), String>) {
    let bearable = understood().filter(|(_, function)| function.cfg.blocks.len() <= 200);
    for (case, function) in bearable.step_by(17) {
        if let Err(why) = check(&function.cfg, &case.image.elf) {
            panic!("{}: {} at {}: {why}", case.path, function.name(), function.entry);
        }
    }
}

#[test]
fn graphs_hold_together() {
    for case in CASES.iter() {
        for function in &case.program.functions {
            if let Err(why) = verify::cfg::check(&function.cfg, &case.image.elf) {
                panic!("{}: {} at {}: {why}", case.path, function.name(), function.entry);
            }
        }
    }
}

#[test]
fn liveness_agrees_with_its_definition() {
    for convention in [Convention::cautious(), Convention::system_v()] {
        check_sample(|cfg, elf| {
            verify::liveness::check(cfg, elf, &convention, &Liveness::new(cfg, elf, &convention))
        });
    }
}

/// No compiler passes a value in the flags from one function to another, nor to a landing pad. Only where
/// the graph shows a way back from a call that never comes back, there is no telling what lies behind.
#[test]
fn flags_are_dead_where_control_comes_from_another_function() {
    let (mut dead, mut live) = (0, Vec::new());
    for (case, function) in understood() {
        let cfg = &function.cfg;
        if has_syscall(cfg, &case.image.elf) {
            continue;
        }
        let liveness = Liveness::new(cfg, &case.image.elf, &Convention::system_v());
        let behind_calls = cfg.edges.iter().filter_map(|edge| match edge.to {
            Target::Block(to) if cfg.block(edge.from).end.is_call() => Some(to),
            _ => None,
        });
        for block in cfg.entries.first().copied().into_iter().chain(behind_calls) {
            if liveness.live_in(block).intersects(RegSet::ARITHMETIC_FLAGS) {
                live.push(format!("{}: {} at {}", case.path, function.name(), cfg.block(block).start));
            } else {
                dead += 1;
            }
        }
    }
    println!("flags are dead at {dead} places, live at {live:?}");
    assert!(live.len() < dead / 5000, "flags are live at {live:?}");
}

/// Whether it calls the kernel itself: `syscall` reads the flags, as it copies them to `r11`.
fn has_syscall(cfg: &Cfg, elf: &Elf<'_>) -> bool {
    let is_syscall = |insn: Insn| elf.bytes_at(insn.addr()).starts_with(&[0x0f, 0x05]);
    cfg.blocks.iter().flat_map(|block| block.insns(elf)).any(is_syscall)
}

#[test]
fn stack_heights_agree_with_a_machine() {
    check_sample(|cfg, elf| verify::stack_height::check(cfg, elf, &StackHeights::new(cfg, elf)));
}

/// Whoever returns finds the return address where the call left it.
#[test]
fn functions_return_at_the_height_they_were_entered() {
    let mut checked = 0;
    for (case, function) in understood() {
        if Table::holding(&case.image, function.entry).is_none() {
            // A piece of another function, or nobody vouches for it.
            continue;
        }
        let heights = StackHeights::new(&function.cfg, &case.image.elf);
        for (id, block) in function.cfg.numbered_blocks().filter(|(_, block)| block.end == End::Return) {
            // `push` and `ret` together are a jump.
            let before =
                block.insns(&case.image.elf).take_while(|insn| insn.addr() < block.last_insn()).last();
            let is_jump = before.is_some_and(|insn| insn.text(Syntax::Intel).to_string().starts_with("push"));
            if let Some(&(at, Some(height))) = heights.per_insn(id).last()
                && !is_jump
            {
                assert_eq!(height, 0, "{}: {} returns at {at}", case.path, function.name());
                checked += 1;
            }
        }
    }
    println!("{checked} returns");
}

/// What the unwind table says of the start of a block must be what the analysis says.
#[test]
fn stack_heights_agree_with_unwind_tables() {
    let (mut agreed, mut unknown, mut unannotated) = (0, 0, 0);
    // With several entries, each way counts from its own; some lead into the middle of a frame.
    for (case, function) in understood().filter(|(_, function)| function.cfg.entries.len() == 1) {
        let heights = StackHeights::new(&function.cfg, &case.image.elf);
        let mut table: Option<Table> = None;
        for (id, block) in function.cfg.numbered_blocks().filter(|(_, block)| block.reached) {
            table = table.filter(|table| table.range.contains(block.start));
            table = table.or_else(|| Table::holding(&case.image, block.start));
            let Some(table) = &table else { continue };
            let Some(said) = table.height(block.start) else { continue };
            match heights.at_block(id) {
                None => unknown += 1,
                Some(height) if height == said => agreed += 1,
                Some(_) if table.rows.len() == 1 => unannotated += 1,
                Some(height) => panic!(
                    "{}: {} at {}: the height is {height}, the unwind table says {said}",
                    case.path,
                    function.name(),
                    block.start
                ),
            }
        }
    }
    println!("{agreed} blocks agree; {unknown} are unknown to the analysis, {unannotated} to the table");
    assert!(unknown < agreed / 20, "too little is known: all but {unknown} of {}", agreed + unknown);
    assert!(unannotated < agreed / 1000, "{unannotated} blocks disagree");
}

/// What `.eh_frame` says of one stretch of code that begins like a function.
///
/// It is not always to be taken at its word:
///
/// - A table of a single row may be one that somebody who wrote assembler did not fill in, though the
///   code does move the stack pointer: glibc's `mpn` functions are like that.
/// - A piece split off a function begins with a `nop` if otherwise a landing pad would be at its very
///   start, where exception tables cannot point to. Its first row, which covers just that, describes a
///   frame that is not there, so that the piece looks like a function.
struct Table {
    range: AddrRange,
    /// How far the stack pointer is below the frame, where the table says so.
    rows: Vec<(AddrRange, Option<i64>)>,
}

impl Table {
    fn holding(image: &Image<'_>, at: LinkAddr) -> Option<Self> {
        let frame = image.unwind.frame_holding(at).filter(|frame| frame.starts_like_a_function)?;
        let rows = image.unwind.stack_depths(frame).ok()?;
        let first = rows.first()?.0;
        let is_split_off = first.len() == 1 && image.elf.bytes_at(first.start).first() == Some(&0x90);
        (!is_split_off).then_some(Self { range: frame.range, rows })
    }

    /// The height at `at`: a call leaves the stack pointer 8 bytes below the frame.
    fn height(&self, at: LinkAddr) -> Option<i64> {
        let (_, depth) = self.rows.iter().find(|(range, _)| range.contains(at))?;
        Some(8 - (*depth)?)
    }
}
