//! Which functions can be moved, and why the others cannot.

use crate::detour::{self, Detour};
use crate::frames::Frames;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{Block, BlockId, Cfg, EdgeKind, End, GapKind, Target};
use relive_code::isa::Tie;
use relive_image::elf::Kind;
use relive_image::image::Image;
use relive_image::program::{Function, Program, StretchKind};
use std::fmt;

/// Why a function is left where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Left {
    /// Its control flow is not understood, for that reason.
    NotUnderstood(relive_code::cfg::Reason),
    /// The user did not want it.
    NotWanted,
    /// It has no unwind entry while other code has: whoever walks the stack by tables of its own would be lost.
    NoUnwindEntry,
    /// Its unwind or exception tables cannot be carried over.
    UnwindTables(&'static str),
    /// No room for the jump to its new code.
    TooSmall,
    /// It takes its own address by calling the next instruction.
    TakesItsAddress,
    /// It holds an instruction that cannot be moved.
    Unmovable,
    /// An exception lands outside it.
    LandsOutside,
    /// A computed jump leads to its entry.
    CaseIsEntry,
    /// It asks for more stack in a way that looks at the code behind the call.
    SplitStack,
    /// Nothing in it is ever reached.
    NoCode,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnderstood(reason) => write!(f, "not understood: {}", reason.explanation()),
            Self::NotWanted => f.write_str("left out on request"),
            Self::NoUnwindEntry => f.write_str("no unwind entry"),
            Self::UnwindTables(why) => f.write_str(why),
            Self::TooSmall => f.write_str("no room for a jump to its new code"),
            Self::TakesItsAddress => f.write_str("takes its own address by a call"),
            Self::Unmovable => f.write_str("holds an instruction that cannot be moved"),
            Self::LandsOutside => f.write_str("an exception lands outside it"),
            Self::CaseIsEntry => f.write_str("a computed jump leads to its entry"),
            Self::SplitStack => f.write_str("grows its stack in pieces"),
            Self::NoCode => f.write_str("nothing in it is reached"),
        }
    }
}

/// What instructions of a function say beyond its graph.
#[derive(Clone, Default, Debug)]
pub struct Survey {
    /// It calls the kernel.
    pub syscall: bool,
    /// It uses the `gs` segment.
    pub gs: bool,
    /// It holds an instruction that cannot be moved.
    pub unmovable: bool,
    /// Places in the text that it computes the address of.
    pub pointers: Vec<LinkAddr>,
}

/// Looks at every instruction of a function.
#[must_use]
pub fn survey(image: &Image<'_>, cfg: &Cfg) -> Survey {
    let mut survey = Survey::default();
    let absolute = image.elf.kind == Kind::Executable;
    for block in &cfg.blocks {
        for insn in block.insns(&image.elf) {
            survey.syscall |= insn.is_syscall();
            survey.gs |= insn.uses_gs();
            let bytes = &image.elf.bytes_at(insn.addr())[..insn.len() as usize];
            survey.unmovable |= insn.tie(bytes) == Tie::Fixed;
            if !insn.touches_memory() {
                let in_text = |at: &LinkAddr| image.elf.text.iter().any(|text| text.contains(*at));
                survey.pointers.extend(insn.address_constants(absolute).filter(in_text));
            }
        }
    }
    survey
}

/// A function that can be moved.
pub struct Movable {
    /// Jumps from its old code.
    pub detours: Vec<Detour>,
    /// Old code that is dead once it has moved.
    pub dead: Vec<AddrRange>,
}

/// Checks whether `function` can be moved.
///
/// # Errors
/// Why it cannot.
pub fn check(
    image: &Image<'_>,
    program: &Program<'_>,
    function: &Function<'_>,
    survey: &Survey,
    redirected: &dyn Fn(BlockId) -> bool,
) -> Result<Movable, Left> {
    let cfg = &function.cfg;
    if let Some(reason) = function.reason() {
        return Err(Left::NotUnderstood(reason));
    }
    if !cfg.blocks.iter().any(|b| b.reached) || cfg.entries.is_empty() {
        return Err(Left::NoCode);
    }
    if survey.unmovable {
        return Err(Left::Unmovable);
    }
    // What is called finds what follows the call: itself, or data.
    let is_data = |at| cfg.gaps.iter().any(|gap| gap.kind == GapKind::Data && gap.range.start == at);
    let finds_itself = |b: &Block| {
        matches!(b.end, End::Call(to) if to == b.end_addr()) || b.end.is_call() && is_data(b.end_addr())
    };
    if cfg.blocks.iter().any(finds_itself) {
        return Err(Left::TakesItsAddress);
    }
    if cfg.blocks.iter().any(|b| matches!(b.end, End::Call(to) if is_morestack(image, program, to))) {
        return Err(Left::SplitStack);
    }
    if cfg.edges.iter().any(|e| e.kind == EdgeKind::LandingPad && !matches!(e.to, Target::Block(_))) {
        return Err(Left::LandsOutside);
    }
    let unwind = &image.unwind;
    if !unwind.frames.is_empty()
        && cfg.blocks.iter().any(|b| b.reached && unwind.frame_holding(b.start).is_none())
        && !(is_told(image, function) && is_leaf(cfg, survey))
    {
        return Err(Left::NoUnwindEntry);
    }
    let frames = Frames::read(&image.elf, unwind, &cfg.pieces).map_err(Left::UnwindTables)?;
    for piece in &cfg.pieces {
        let inside: Vec<_> = frames.frames.iter().filter(|(range, ..)| range.overlaps(piece)).collect();
        if inside.windows(2).any(|pair| pair[0].1 != pair[1].1 || pair[0].2.is_some() || pair[1].2.is_some())
        {
            return Err(Left::UnwindTables("several exception tables in one piece"));
        }
    }
    if frames.frames.iter().any(|(_, treatment, _)| treatment.signal) {
        return Err(Left::UnwindTables("it is the frame the kernel returns to from a signal handler"));
    }
    let mut places: Vec<LinkAddr> = cfg.entries.iter().map(|&e| cfg.block(e).start).collect();
    let entries = places.len();
    for edge in cfg.edges.iter().filter(|e| e.kind == EdgeKind::Case && !redirected(e.from)) {
        if let Target::Block(to) = edge.to {
            let at = cfg.block(to).start;
            if places[..entries].contains(&at) {
                return Err(Left::CaseIsEntry);
            }
            places.push(at);
        }
    }
    places.sort_unstable();
    places.dedup();
    let dead = dead_code(image, program, cfg);
    let bytes = |at| image.elf.bytes_at(at).first_chunk().copied().unwrap_or_default();
    let detours = detour::plan(&places, &dead, bytes).ok_or(Left::TooSmall)?;
    Ok(Movable { detours, dead })
}

/// Whether whoever compiled or assembled the function describes it.
fn is_told(image: &Image<'_>, function: &Function<'_>) -> bool {
    image.stated.covers(function.entry) && image.annotations.units.iter().any(|unit| !unit.is_derived)
}

/// Whether a function is never on the stack below another one, so that nobody comes by who walks it.
fn is_leaf(cfg: &Cfg, survey: &Survey) -> bool {
    !survey.syscall && !cfg.blocks.iter().any(|b| b.reached && b.end.is_call())
}

/// Whether the function at `at` belongs to split stacks: it finds the body of its caller behind the `ret`
/// that follows the call.
fn is_morestack(image: &Image<'_>, program: &Program<'_>, at: LinkAddr) -> bool {
    let is_named = |name: &str| name.starts_with("__morestack");
    let local = program.function_at(at).map(|id| program.function(id));
    local.is_some_and(|f| f.names.iter().any(|name| is_named(name)))
        || image.stub_holding(at).and_then(|stub| image.import_at(stub.slot)).is_some_and(is_named)
}

/// The old code of a function and the fill behind it, without data in between.
fn dead_code(image: &Image<'_>, program: &Program<'_>, cfg: &Cfg) -> Vec<AddrRange> {
    let mut dead = Vec::new();
    for piece in &cfg.pieces {
        let mut end = piece.end;
        let next = program.stretches.partition_point(|s| s.range.start < end);
        if let Some(stretch) = program.stretches.get(next)
            && stretch.kind == StretchKind::Padding
            && stretch.range.start == end
        {
            end = stretch.range.end;
        }
        if image.elf.text.iter().any(|text| text.end == end) {
            end = behind_section(image, end);
        }
        let mut start = piece.start;
        for gap in cfg.gaps.iter().filter(|g| g.kind == GapKind::Data && piece.contains(g.range.start)) {
            if start < gap.range.start {
                dead.push(AddrRange::new(start, gap.range.start));
            }
            start = gap.range.end;
        }
        if start < end {
            dead.push(AddrRange::new(start, end));
        }
    }
    dead
}

/// Where what comes behind a section begins, as far as the file goes: the bytes between are nobody's.
fn behind_section(image: &Image<'_>, end: LinkAddr) -> LinkAddr {
    let Some(segment) = image.elf.segment_holding(LinkAddr(end.0 - 1)) else { return end };
    let limit = segment.range.start.offset(segment.data.len() as u64);
    let sections = image.elf.sections.iter().filter(|s| s.loaded && s.range.start >= end);
    let next = sections.map(|s| s.range.start).min();
    // Without section headers nobody knows what is there.
    next.map_or(end, |next| next.min(limit)).max(end)
}
