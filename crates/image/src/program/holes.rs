//! Text that belongs to no function: stubs, fill, data, and functions nobody mentions.

use super::layout::Layout;
use super::references::References;
use super::{Stretch, StretchKind};
use crate::image::Image;
use crate::plt::is_plt_section;
use crate::provenance::Provenance;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Decode, fill_len};

/// The parts of the text that belong to no function.
fn free(image: &Image<'_>, layout: &Layout) -> Vec<AddrRange> {
    let mut holes = Vec::new();
    let mut pieces = layout.pieces().peekable();
    for text in &image.elf.text {
        let mut at = text.start;
        while let Some(piece) = pieces.next_if(|piece| piece.start < text.end) {
            if piece.start > at {
                holes.push(AddrRange::new(at, piece.start));
            }
            at = at.max(piece.end);
        }
        if at < text.end {
            holes.push(AddrRange::new(at, text.end));
        }
    }
    holes
}

pub(super) fn plts(image: &Image<'_>) -> Vec<AddrRange> {
    image.elf.sections.iter().filter(|s| s.loaded && is_plt_section(&s.name)).map(|s| s.range).collect()
}

/// Places in free text where a function may begin: wherever an address is taken, and behind fill.
pub(super) fn candidates(
    image: &Image<'_>,
    layout: &Layout,
    data: &[AddrRange],
    references: &References,
) -> Vec<(LinkAddr, Provenance)> {
    let plts = plts(image);
    let mut found = Vec::new();
    for hole in free(image, layout) {
        if plts.iter().any(|p| p.overlaps(&hole)) {
            continue;
        }
        let Some(start) = behind_fill(image, hole) else { continue };
        let labels = references.code_in(AddrRange::new(start, hole.end));
        found.extend(labels.iter().map(|&at| (at, Provenance::Heuristic)));
        if data.iter().any(|d| d.contains(start)) || labels.contains(&start) {
            continue;
        }
        found.push((start, Provenance::Heuristic));
    }
    found.retain(|(at, _)| !data.iter().any(|d| d.contains(*at)) && looks_like_code(image, *at));
    found
}

/// Whether a few instructions decode; data rarely does for long without a privileged or odd one.
fn looks_like_code(image: &Image<'_>, at: LinkAddr) -> bool {
    let bytes = image.elf.bytes_at(at);
    let bytes = &bytes[..bytes.len().min(128)];
    if bytes.first_chunk::<4>() == Some(&[0; 4]) {
        return false;
    }
    let mut count = 0;
    for insn in Decode::new(bytes, at) {
        if insn.is_privileged() {
            return false;
        }
        count += 1;
        if insn.flow().ends_straight_code() || count >= 8 {
            return true;
        }
    }
    false
}

fn behind_fill(image: &Image<'_>, hole: AddrRange) -> Option<LinkAddr> {
    let bytes = image.elf.bytes_in(hole.start, hole.len())?;
    let start = hole.start.offset(fill_len(bytes, hole.start) as u64);
    (start < hole.end).then_some(start)
}

/// Whether nothing but fill is in `range`.
pub(super) fn is_fill(image: &Image<'_>, range: AddrRange) -> bool {
    behind_fill(image, range).is_none()
}

/// Says what each free stretch is.
pub(super) fn stretches(image: &Image<'_>, layout: &Layout, data: &[AddrRange]) -> Vec<Stretch> {
    let plts = plts(image);
    let mut found = Vec::new();
    for hole in free(image, layout) {
        let mut at = hole.start;
        while at < hole.end {
            let known =
                |ranges: &[AddrRange]| ranges.iter().find(|r| r.contains(at)).map(|r| r.end.min(hole.end));
            let (end, kind) = if let Some(end) = known(&plts) {
                (end, StretchKind::Stubs)
            } else if let Some(end) = known(data) {
                (end, StretchKind::Data)
            } else {
                let next = plts
                    .iter()
                    .chain(data)
                    .filter(|r| r.start > at && r.start < hole.end)
                    .map(|r| r.start)
                    .min();
                let rest = AddrRange::new(at, next.unwrap_or(hole.end));
                match behind_fill(image, rest) {
                    None => (rest.end, StretchKind::Padding),
                    Some(first) if first > at => (first, StretchKind::Padding),
                    Some(_) => (rest.end, StretchKind::Unknown),
                }
            };
            found.push(Stretch { range: AddrRange::new(at, end), kind });
            at = end;
        }
    }
    found
}
