//! Calls that are sure to come back, once.
//!
//! An edge behind such a call needs no counter of its own. The claim is strong: the callee must not exit,
//! throw, jump away, be a place where a thread is found when the process ends, or call anything that might.
//! So only functions qualify whose whole call tree is in this module and makes no system call, apart from
//! a few imports that only look at memory. And if the program means to jump out of signal handlers
//! (`sigsetjmp`), no call at all is sure to come back.

use crate::graph::{Calls, Comeback};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg, EdgeKind, End};
use relive_image::image::Image;
use relive_image::program::{Function, FunctionId, Program};
use std::collections::HashMap;

/// Imports that only read and write the memory they are given. Sorted.
const PURE: &[&str] = &[
    "__ctype_b_loc",
    "__ctype_tolower_loc",
    "__ctype_toupper_loc",
    "__errno_location",
    "__memcpy_avx_unaligned",
    "__rawmemchr",
    "abs",
    "acos",
    "asin",
    "atan",
    "atan2",
    "bcmp",
    "cbrt",
    "ceil",
    "cos",
    "cosf",
    "cosh",
    "exp",
    "exp2",
    "expf",
    "fabs",
    "floor",
    "floorf",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "hypot",
    "ldexp",
    "log",
    "log10",
    "log2",
    "logf",
    "memchr",
    "memcmp",
    "memcpy",
    "memmem",
    "memmove",
    "mempcpy",
    "memrchr",
    "memset",
    "modf",
    "pow",
    "powf",
    "rawmemchr",
    "rint",
    "round",
    "sin",
    "sincos",
    "sinf",
    "sinh",
    "sqrt",
    "sqrtf",
    "stpcpy",
    "strcasecmp",
    "strcat",
    "strchr",
    "strchrnul",
    "strcmp",
    "strcpy",
    "strcspn",
    "strlen",
    "strncasecmp",
    "strncmp",
    "strncpy",
    "strnlen",
    "strpbrk",
    "strrchr",
    "strspn",
    "strstr",
    "tan",
    "tanh",
    "tolower",
    "toupper",
    "trunc",
];

/// Imports that may come back more than once. Sorted.
const AGAIN: &[&str] = &[
    "_Fork",
    "__clone",
    "__fork",
    "__sigsetjmp",
    "__vfork",
    "_setjmp",
    "clone",
    "fork",
    "getcontext",
    "savectx",
    "setjmp",
    "sigsetjmp",
    "vfork",
];

/// What is known of every call in a program.
pub struct Steady {
    /// By function.
    steady: Vec<bool>,
    /// Stubs and functions that may return again, and stubs that are pure.
    named: HashMap<LinkAddr, Comeback>,
    /// The same, by the slot a call goes through.
    slots: HashMap<LinkAddr, Comeback>,
    by_entry: HashMap<LinkAddr, FunctionId>,
}

impl Steady {
    /// Looks at the whole program; `calls_kernel` says which functions hold a system call.
    #[must_use]
    pub fn new(image: &Image<'_>, program: &Program<'_>, calls_kernel: &[bool]) -> Self {
        let mut this = Self {
            steady: Vec::new(),
            named: HashMap::new(),
            slots: HashMap::new(),
            by_entry: program.numbered().map(|(id, f)| (f.entry, id)).collect(),
        };
        let jumps = jumps_from_handlers(image, program);
        for stub in &image.stubs {
            if let Some(comeback) = image.import_at(stub.slot).and_then(of_import) {
                this.named.insert(stub.range.start, comeback);
                this.slots.insert(stub.slot, comeback);
            }
        }
        for relocation in &image.relocations {
            if let Some(comeback) = image.import_at(relocation.at).and_then(of_import) {
                this.slots.insert(relocation.at, comeback);
            }
        }
        for function in &program.functions {
            if function.names.iter().any(|name| AGAIN.binary_search(&&**name).is_ok()) {
                this.named.insert(function.entry, Comeback::Again);
            }
        }
        this.steady = program
            .functions
            .iter()
            .zip(calls_kernel)
            .map(|(f, &kernel)| !jumps && f.cfg.is_understood() && !kernel && f.returns && is_plain(f))
            .collect();
        if jumps {
            this.named.retain(|_, comeback| *comeback == Comeback::Again);
            this.slots.retain(|_, comeback| *comeback == Comeback::Again);
        }
        loop {
            let unsteady: Vec<usize> = (0..this.steady.len())
                .filter(|&i| this.steady[i] && !this.all_calls_steady(&program.functions[i].cfg))
                .collect();
            if unsteady.is_empty() {
                return this;
            }
            unsteady.into_iter().for_each(|i| this.steady[i] = false);
        }
    }

    fn all_calls_steady(&self, cfg: &Cfg) -> bool {
        let calls = cfg.numbered_blocks().filter(|(_, b)| b.end.is_call());
        calls.into_iter().all(|(_, block)| self.of(block.end) == Comeback::Once)
            && cfg.edges.iter().all(|edge| match (edge.kind, edge.to) {
                (EdgeKind::TailCall | EdgeKind::FallThrough, relive_code::cfg::Target::Outside(to)) => {
                    self.of(End::Call(to)) == Comeback::Once
                }
                (EdgeKind::TailCall, relive_code::cfg::Target::Elsewhere) => false,
                _ => true,
            })
    }

    fn of(&self, end: End) -> Comeback {
        match end {
            End::Call(to) => match (self.named.get(&to), self.by_entry.get(&to)) {
                (Some(&known), _) => known,
                (None, Some(id)) if self.steady[id.index()] => Comeback::Once,
                _ => Comeback::Perhaps,
            },
            End::IndirectCall(Some(slot)) => self.slots.get(&slot).copied().unwrap_or(Comeback::Perhaps),
            _ => Comeback::Perhaps,
        }
    }

    /// What is known of the calls of one function. `kernel` says which of its blocks call the kernel.
    #[must_use]
    pub fn calls<'a>(&'a self, cfg: &'a Cfg, kernel: &'a dyn Fn(BlockId) -> bool) -> impl Calls + 'a {
        struct In<'a>(&'a Steady, &'a Cfg, &'a dyn Fn(BlockId) -> bool);
        impl Calls for In<'_> {
            fn comeback(&self, block: BlockId) -> Comeback {
                self.0.of(self.1.block(block).end)
            }

            fn enters_kernel(&self, block: BlockId) -> bool {
                (self.2)(block)
            }
        }
        In(self, cfg, kernel)
    }
}

/// Whether something calls `sigsetjmp`, by import or, in a static program, by name.
fn jumps_from_handlers(image: &Image<'_>, program: &Program<'_>) -> bool {
    let is_it = |name: &str| matches!(name, "sigsetjmp" | "__sigsetjmp");
    let static_ones: Vec<LinkAddr> = program
        .functions
        .iter()
        .filter(|function| function.names.iter().any(|name| is_it(name)))
        .map(|function| function.entry)
        .collect();
    let calls_it = |f: &Function<'_>| {
        f.cfg.blocks.iter().any(|block| matches!(block.end, End::Call(to) if static_ones.contains(&to)))
    };
    image.relocations.iter().any(|relocation| image.import_at(relocation.at).is_some_and(is_it))
        || !static_ones.is_empty() && program.functions.iter().any(calls_it)
}

fn of_import(name: &str) -> Option<Comeback> {
    match (PURE.binary_search(&name), AGAIN.binary_search(&name)) {
        (Ok(_), _) => Some(Comeback::Once),
        (_, Ok(_)) => Some(Comeback::Again),
        _ => None,
    }
}

/// Whether nothing in it stops the program.
fn is_plain(function: &Function<'_>) -> bool {
    let cfg = &function.cfg;
    cfg.numbered_blocks().all(|(id, block)| {
        !block.reached || (block.end != End::Stop && (!block.end.is_call() || !cfg.edges_from(id).is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::{AGAIN, PURE};

    #[test]
    fn lists_are_sorted() {
        assert!(PURE.is_sorted() && AGAIN.is_sorted());
    }
}
