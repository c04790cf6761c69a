//! Any bytes as a file.

use crate::stopwatch::timed;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::stack_height::StackHeights;
use relive_code::verify;
use relive_image::elf::Elf;
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::names::demangle;
use relive_image::program::{CallGraph, Program, Statistics, analyze};
use relive_image::sources;

/// What must hold of every file: whatever is asked about it has an answer or an error that can be
/// printed, in time and memory that are in proportion to its size, and the answers do not contradict
/// each other.
///
/// # Panics
/// If it does not hold.
pub fn check(bytes: &[u8]) {
    timed("a file", bytes.len(), || {
        if let Err(why) = Elf::parse_debug(bytes) {
            assert!(!why.to_string().is_empty());
        }
        match Image::parse(bytes, None) {
            Ok(image) => check_image(bytes, &image),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    });
}

fn check_image(bytes: &[u8], image: &Image<'_>) {
    for complaint in &image.complaints {
        assert!(!complaint.to_string().is_empty());
    }
    for stub in &image.stubs {
        let _ = image.stub_name(stub);
    }
    for frame in &image.unwind.frames {
        let _ = image.unwind.stack_depths(frame);
    }
    let _ = image.language().name();
    let program = analyze(image);
    check_functions(image, &program);
    check_text(image, &program);
    let calls = CallGraph::new(&program);
    assert!(calls.calls.is_sorted());
    let lines = Lines::from_bytes(bytes, None, None);
    check_lines(&program, &lines);
    for source in sources::present(image, &lines) {
        assert!(source.count > 0, "{source:?}");
    }
}

fn check_functions(image: &Image<'_>, program: &Program<'_>) {
    assert!(program.functions.is_sorted_by_key(|f| f.entry));
    for (id, function) in program.numbered() {
        if let Err(why) = verify::cfg::check(&function.cfg, &image.elf) {
            panic!("{id} at {}: {why}\n{}", function.entry, function.cfg.dump());
        }
        let _ = demangle(&function.name());
        let heights = StackHeights::new(&function.cfg, &image.elf);
        for (block, _) in function.cfg.numbered_blocks() {
            let _ = heights.per_insn(block);
        }
    }
}

fn check_text(image: &Image<'_>, program: &Program<'_>) {
    let (total, understood) = program.text_bytes();
    assert!(understood <= total, "{understood} of {total} bytes are understood");
    let text: u64 = image.elf.text.iter().map(AddrRange::len).sum();
    assert_eq!(total, text, "bytes of functions and what lies between them, and of the text");
    let statistics = Statistics::new(image, program);
    assert_eq!(statistics.text, (total, understood));
    assert!(statistics.understood.bytes <= statistics.functions.bytes);
}

fn check_lines(program: &Program<'_>, lines: &Lines<'_>) {
    for function in program.functions.iter().take(50) {
        let _ = lines.inlined_at(function.entry);
        for piece in &function.cfg.pieces {
            assert!(
                lines.within(*piece).all(|(range, _)| piece.start <= range.start && range.end <= piece.end)
            );
        }
    }
    let mut end = LinkAddr(0);
    for (range, location) in lines.within(AddrRange::new(LinkAddr(0), LinkAddr(u64::MAX))).take(1000) {
        assert!(end <= range.start && range.start < range.end, "{range}");
        assert_eq!(lines.at(range.start), Some(location));
        end = range.end;
    }
    for complaint in lines.complaints() {
        assert!(!complaint.to_string().is_empty());
    }
}
