//! A quick look at all text: which addresses do instructions and relocations mention?
//!
//! The sweep decodes straight through, so it may misread data among code. That is good enough for what
//! it is used for: fences behind which no table reaches, and labels whose address is taken.

use crate::elf::Kind;
use crate::image::Image;
use crate::relocations::Filled;
use rayon::prelude::*;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Decode, Insn};

/// Addresses that are mentioned somewhere.
pub(super) struct References {
    /// Outside text, sorted: tables, strings, variables.
    pub(super) data: Vec<LinkAddr>,
    /// Inside text, sorted: functions and labels whose address is computed or stored.
    pub(super) code: Vec<LinkAddr>,
    /// What instructions call, sorted; empty unless asked for.
    called: Vec<LinkAddr>,
}

/// Bytes one thread decodes at a time.
const CHUNK: u64 = 1 << 16;

/// Looks at all text, cut where functions are known to start; for calls as well if `with_calls`.
pub(super) fn collect(image: &Image<'_>, known_starts: &[LinkAddr], with_calls: bool) -> References {
    let mut chunks: Vec<AddrRange> = Vec::new();
    for text in &image.elf.text {
        // Cut where functions start, so that every chunk begins with an instruction.
        let mut at = text.start;
        while at < text.end {
            let wanted = LinkAddr(at.0.saturating_add(CHUNK));
            let index = known_starts.partition_point(|&s| s < wanted);
            let end = known_starts.get(index).copied().unwrap_or(text.end).min(text.end);
            let end = if end <= at { text.end } else { end };
            chunks.push(AddrRange::new(at, end));
            at = end;
        }
    }
    let mut called = Vec::new();
    let mut all: Vec<LinkAddr> = if with_calls {
        let swept = chunks.par_iter().map(|&chunk| sweep(image, chunk, |insn| insn.call_target()));
        let (all, calls): (Vec<_>, Vec<_>) = swept.unzip();
        called = calls.concat();
        called.par_sort_unstable();
        called.dedup();
        all.concat()
    } else {
        chunks.par_iter().flat_map_iter(|&chunk| sweep(image, chunk, |_| None).0).collect()
    };
    for relocation in &image.relocations {
        match relocation.filled {
            Filled::Here(to) | Filled::Resolved(to) => all.push(to),
            Filled::Symbol(..) | Filled::Other => {}
        }
    }
    all.extend(words_that_look_like_code(image));
    all.extend(image.link_references.iter().filter(|r| !r.relative).map(|r| r.to));
    let data_symbols =
        image.symbols.iter().chain(&image.dynamic_symbols).filter(|s| s.defined && !s.is_function());
    all.extend(data_symbols.map(|s| s.addr));
    all.par_sort_unstable();
    all.dedup();
    let (code, data) = all.into_iter().partition(|&at| image.elf.is_text(at));
    References { data, code, called }
}

/// Code linked for fixed addresses stores them without a relocation to tell.
fn words_that_look_like_code(image: &Image<'_>) -> Vec<LinkAddr> {
    if image.elf.kind != Kind::Executable {
        return Vec::new();
    }
    let data = image.elf.segments.iter().filter(|s| !s.executable);
    data.flat_map(|segment| {
        // Pointers are aligned in memory, whatever the segment's start is.
        let skipped = segment.range.start.0.wrapping_neg() as usize % 8;
        segment.data.get(skipped..).unwrap_or(&[]).as_chunks::<8>().0
    })
    .map(|word| LinkAddr(u64::from_le_bytes(*word)))
    .filter(|&at| image.elf.is_text(at))
    .collect()
}

/// What instructions mention, and what `calls` says they call.
fn sweep(
    image: &Image<'_>,
    chunk: AddrRange,
    calls: impl Fn(&Insn) -> Option<LinkAddr>,
) -> (Vec<LinkAddr>, Vec<LinkAddr>) {
    let bytes = image.elf.bytes_in(chunk.start, chunk.len()).unwrap_or(&[]);
    let (mut found, mut called) = (Vec::new(), Vec::new());
    // Code that can be loaded anywhere has no absolute addresses in it.
    let absolute = image.elf.kind == Kind::Executable;
    let mut at = chunk.start;
    while at < chunk.end {
        let rest = &bytes[(at.since(chunk.start) as usize).min(bytes.len())..];
        for insn in Decode::new(rest, at) {
            at = insn.next_addr();
            called.extend(calls(&insn));
            found.extend(
                insn.address_constants(absolute).filter(|&to| image.elf.segment_holding(to).is_some()),
            );
        }
        // Stumble on behind what does not decode.
        at = at.offset(1);
    }
    called.sort_unstable();
    called.dedup();
    (found, called)
}

impl References {
    /// The lowest mentioned data address behind `at`.
    pub(super) fn next_data(&self, at: LinkAddr) -> Option<LinkAddr> {
        self.data.get(self.data.partition_point(|&r| r <= at)).copied()
    }

    /// The lowest address behind `at` that something calls.
    pub(super) fn next_called(&self, at: LinkAddr) -> Option<LinkAddr> {
        self.called.get(self.called.partition_point(|&r| r <= at)).copied()
    }

    /// The mentioned code addresses in `range`.
    pub(super) fn code_in(&self, range: AddrRange) -> &[LinkAddr] {
        let first = self.code.partition_point(|&r| r < range.start);
        let behind = self.code.partition_point(|&r| r < range.end);
        &self.code[first..behind]
    }
}
