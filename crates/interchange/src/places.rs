//! Where code comes from, as well as it is known: from the measured file, or else from the profile, which knows the line each
//! block begins in.

use crate::surroundings::Surroundings;
use relive_code::addr::LinkAddr;
use relive_code::isa::Decode;
use relive_image::names::demangle;
use relive_profile::callees::FunctionId;
use relive_profile::coverage::{Origin, Origins};
use relive_profile::model::{Block, Count, Function, Module, Profile};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A piece of a block that comes from one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The path, and the line; nothing if they are not known.
    pub(crate) line: Option<(&'a str, u32)>,
}

/// The pieces of a block, by address. There is at least one.
pub(crate) fn spans<'a>(module: &'a Module, block: &Block, around: &'a dyn Surroundings) -> Vec<Span<'a>> {
    let (start, end) = (block.address, block.address.saturating_add(block.size.into()));
    let mut spans: Vec<Span<'a>> = Vec::new();
    let mut at = start;
    for known in around.lines(module, start, end) {
        if known.start > at {
            spans.push(Span { start: at, end: known.start, line: None });
        }
        spans.push(Span { start: known.start, end: known.end, line: Some((known.file, known.line)) });
        at = known.end;
    }
    if spans.is_empty() {
        let line = block.line.map(|line| (module.file(line), line.line));
        return vec![Span { start, end, line }];
    }
    if at < end {
        spans.push(Span { start: at, end, line: None });
    }
    spans
}

/// The line a function begins in.
pub(crate) fn first_line<'a>(
    module: &'a Module,
    function: &Function,
    around: &'a dyn Surroundings,
) -> Option<(&'a str, u32)> {
    spans(module, function.blocks.first()?, around).first()?.line
}

/// The addresses of the instructions of a block; only the first if the profile does not hold its code.
pub(crate) fn instructions(function: &Function, block: &Block) -> Vec<u64> {
    let decoded: Option<Vec<u64>> = function
        .bytes_at(block.address, block.size.into())
        .map(|bytes| Decode::new(bytes, LinkAddr(block.address)).map(|insn| insn.addr().0).collect());
    decoded.filter(|insns| insns.len() == block.insns as usize).unwrap_or_else(|| vec![block.address])
}

/// A piece of code and how many instructions of it were executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Executed<'a> {
    pub(crate) address: u64,
    pub(crate) line: Option<(&'a str, u32)>,
    pub(crate) count: u64,
}

/// What a function executed, instruction by instruction; or block by block, if the profile does not hold its code. Adds up to
/// [`Function::executed_insns`].
pub(crate) fn executed<'a>(
    module: &'a Module,
    function: &Function,
    around: &'a dyn Surroundings,
) -> Vec<Executed<'a>> {
    let mut all = Vec::new();
    for block in &function.blocks {
        let count = block.count.map_or(0, Count::value);
        if count == 0 {
            continue;
        }
        let spans = spans(module, block, around);
        let mut spans = spans.iter().peekable();
        let insns = instructions(function, block);
        // Without code, all instructions are at the beginning.
        let each = if insns.len() == block.insns as usize { 1 } else { u64::from(block.insns) };
        for address in insns {
            while spans.peek().is_some_and(|span| span.end <= address) {
                spans.next();
            }
            let line = spans.peek().and_then(|span| span.line);
            all.push(Executed { address, line, count: count.saturating_mul(each) });
        }
    }
    all
}

/// What a function is called, for people: demangled, and by its address if it has no name.
pub(crate) fn shown<'a>(name: &'a str, function: &Function) -> Cow<'a, str> {
    if name.is_empty() { format!("{:#x}", function.address).into() } else { plain(&demangle(name)).into() }
}

/// Text without what would break a line.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Where blocks of a profile come from, for [`relive_profile::coverage`].
pub(crate) struct Sources<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) around: &'a dyn Surroundings,
}

impl Origins for Sources<'_> {
    fn of(&self, function: FunctionId, block: &Block) -> Vec<Origin<'_>> {
        let (module, _) = self.profile.function(function);
        let spans = spans(module, block, self.around);
        let known = spans.iter().filter_map(|span| Some((span.start, span.line?)));
        known.map(|(start, (file, line))| Origin { file, line, copy: self.copy(module, start) }).collect()
    }
}

impl Sources<'_> {
    /// Stands for the calls that were inlined around an address.
    fn copy(&self, module: &Module, at: u64) -> u64 {
        let frames = self.around.frames(module, at);
        if frames.len() < 2 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        frames[1..].iter().for_each(|frame| frame.line.hash(&mut hasher));
        hasher.finish().max(1)
    }
}
