//! What lines of source tell of code: which of it makes variables atomic, and which comes without lines.

use super::places::Described;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_trace::process::{Mapping, Process};
use std::collections::BTreeSet;

/// From where to where code was executed that comes from a library that makes variables atomic. `bias` is how far the file's addresses are
/// from those it was linked for.
pub(super) fn atomic(
    file: &Described<'_>,
    bias: u64,
    process: &Process,
    mapping: &Mapping,
) -> Vec<(u64, u64)> {
    let is_inside =
        |&&(start, end): &&(u64, u64)| mapping.start <= start && end <= mapping.end && start < end;
    let pieces: BTreeSet<_> =
        process.units.all().iter().flat_map(|unit| unit.pieces.iter().filter(is_inside)).copied().collect();
    let mut found: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (start, end) in pieces {
        let linked = AddrRange::new(LinkAddr(start.wrapping_sub(bias)), LinkAddr(end.wrapping_sub(bias)));
        let lines = file.lines().within(linked).filter(|(_, line)| makes_atomic(line.file));
        found.extend(lines.map(|(r, _)| (r.start.0.wrapping_add(bias), r.end.0.wrapping_add(bias))));
    }
    found.into_iter().collect()
}

/// Whether a file of source is one of those that make variables atomic: of libstdc++, of libc++, of Rust.
fn makes_atomic(path: &str) -> bool {
    const FILES: [&str; 3] = ["/bits/atomic_base.h", "/bits/atomic_wait.h", "/core/src/sync/atomic.rs"];
    let is_header = path.ends_with("/atomic") && path.contains("/c++/");
    is_header || path.contains("/c++/v1/__atomic/") || FILES.iter().any(|file| path.ends_with(file))
}

/// In a program that is linked statically and has lines, from where to where code has none: that of the C library and others like it.
pub(super) fn without_lines(file: &Described<'_>, bias: u64) -> Vec<(u64, u64)> {
    let is_static = file.functions().iter().any(|(.., name)| &**name == "__libc_start_main");
    if !is_static || file.lines().unit_count() == 0 {
        return Vec::new();
    }
    let mut gaps = Vec::new();
    for (start, bytes) in file.code() {
        let (mut at, end) = (start, start + bytes.len() as u64);
        for (range, _) in file.lines().within(AddrRange::new(LinkAddr(start), LinkAddr(end))) {
            gaps.push((at, range.start.0));
            at = range.end.0;
        }
        gaps.push((at, end));
    }
    gaps.retain(|(start, end)| start < end);
    gaps.iter().map(|(start, end)| (start.wrapping_add(bias), end.wrapping_add(bias))).collect()
}

#[cfg(test)]
mod tests {
    use super::makes_atomic;

    #[test]
    fn sources_that_make_variables_atomic() {
        for path in [
            "/usr/include/c++/12/bits/atomic_base.h",
            "/usr/include/c++/12/atomic",
            "/usr/lib/llvm-19/include/c++/v1/__atomic/atomic_base.h",
            "/rustc/0123/library/core/src/sync/atomic.rs",
        ] {
            assert!(makes_atomic(path), "{path}");
        }
        for path in ["atomic", "/home/me/atomic.c", "/usr/include/c++/12/bits/shared_ptr_base.h"] {
            assert!(!makes_atomic(path), "{path}");
        }
    }
}
