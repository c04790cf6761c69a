//! Functions that never come back.

use super::analyze::{Need, Working};
use super::world::World;
use crate::image::Image;
use crate::relocations::Filled;
use rayon::prelude::*;
use relive_code::addr::LinkAddr;
use relive_code::source::{Returns, Surroundings as _};
use std::collections::HashSet;

/// Functions of the C, C++, unwinding and Rust runtimes that are declared never to return, and do not.
const NEVER_RETURN: &[&str] = &[
    "_Exit",
    "_Unwind_Resume",
    "_ZSt10unexpectedv",
    "_ZSt9terminatev",
    "__assert",
    "__assert_fail",
    "__assert_perror_fail",
    "__chk_fail",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_call_terminate",
    "__cxa_call_unexpected",
    "__cxa_deleted_virtual",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_length",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__libc_fatal",
    "__libc_start_main",
    "__longjmp_chk",
    "__stack_chk_fail",
    "_exit",
    "_longjmp",
    "abort",
    "err",
    "errx",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "siglongjmp",
    "thrd_exit",
    "verr",
    "verrx",
];

/// Whether a function of that name never returns, wherever it is defined.
pub(super) fn never_returns(name: &str) -> bool {
    // libstdc++ throws through functions of its own: std::__throw_bad_alloc() and the like.
    NEVER_RETURN.binary_search(&name).is_ok() || name.starts_with("_ZSt") && name.contains("__throw_")
}

/// Imports that never return: the slots they are called through, and their stubs.
pub(super) fn of_imports(image: &Image<'_>) -> (HashSet<LinkAddr>, HashSet<LinkAddr>) {
    let mut slots = HashSet::new();
    for relocation in &image.relocations {
        if let Filled::Symbol(index, _) = relocation.filled
            && let Some(symbol) = image.dynamic_symbols.get(index as usize)
            && never_returns(&symbol.name)
        {
            slots.insert(relocation.at);
        }
    }
    let stubs = image.stubs.iter().filter(|s| slots.contains(&s.slot)).map(|s| s.range.start).collect();
    (slots, stubs)
}

/// Which functions can come back: those with a return or a jump to somewhere unknown, and those that
/// end in a tail call of one that can. The least set that satisfies this; one that has not been read
/// is in it, for nobody knows.
pub(super) fn returning(functions: &[Working<'_>], world: &World<'_, '_>) -> Vec<bool> {
    let mut entries: Vec<(LinkAddr, usize)> = functions
        .iter()
        .enumerate()
        .flat_map(|(i, f)| f.outline.entries.iter().map(move |&entry| (entry, i)))
        .collect();
    entries.par_sort_unstable();
    let is_unread = |f: &Working<'_>| f.stale || f.need == Need::None;
    let mut returns: Vec<bool> = functions.iter().map(|f| is_unread(f) || f.links.returns).collect();
    // Pairs of a function and one that returns if it does.
    let mut waiting: Vec<(usize, usize)> = Vec::new();
    for (i, function) in functions.iter().enumerate().filter(|(_, f)| !is_unread(f) && !f.links.returns) {
        for &target in &function.links.returns_if {
            match entries.binary_search_by_key(&target, |&(entry, _)| entry) {
                Ok(found) => waiting.push((entries[found].1, i)),
                Err(_) => returns[i] |= world.returns(target) != Returns::Never,
            }
        }
    }
    waiting.sort_unstable();
    let mut work: Vec<usize> = (0..functions.len()).filter(|&i| returns[i]).collect();
    while let Some(i) = work.pop() {
        let first = waiting.partition_point(|&(callee, _)| callee < i);
        for &(_, caller) in waiting[first..].iter().take_while(|&&(callee, _)| callee == i) {
            if !std::mem::replace(&mut returns[caller], true) {
                work.push(caller);
            }
        }
    }
    returns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(NEVER_RETURN.is_sorted());
        assert!(never_returns("abort") && never_returns("_ZSt9terminatev"));
        assert!(never_returns("_ZSt17__throw_bad_allocv"));
        assert!(!never_returns("execve") && !never_returns("error"));
    }
}
