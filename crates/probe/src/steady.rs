//! Calls that are sure to come back, once.
//!
//! An edge behind such a call needs no counter of its own. The claim is strong: the callee must not exit,
//! throw, jump away, be a place where a thread is found when the process ends, or call anything that might.
//! So only functions qualify whose whole call tree is in this module and makes no system call, apart from
//! some imports that work on memory only. And if the program means to jump out of signal handlers
//! (`sigsetjmp`), no call at all is sure to come back.

use crate::graph::{Calls, Comeback};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{BlockId, Cfg, EdgeKind, End};
use relive_image::image::Image;
use relive_image::program::{Function, FunctionId, Program};
use std::collections::HashMap;

/// Imports that only work on memory, that allocate or free it, or ask for the time. Sorted.
const PURE: &[&str] = &[
    "_ZdaPv",
    "_ZdaPvm",
    "_ZdlPv",
    "_ZdlPvSt11align_val_t",
    "_ZdlPvm",
    "_ZdlPvmSt11align_val_t",
    "__ctype_b_loc",
    "__ctype_tolower_loc",
    "__ctype_toupper_loc",
    "__cxa_allocate_exception",
    "__cxa_begin_catch",
    "__cxa_free_exception",
    "__dynamic_cast",
    "__errno_location",
    "__isoc23_sscanf",
    "__isoc23_strtol",
    "__isoc23_strtoll",
    "__isoc23_strtoul",
    "__isoc23_strtoull",
    "__isoc99_sscanf",
    "__memcpy_avx_unaligned",
    "__memcpy_chk",
    "__memmove_chk",
    "__mempcpy_chk",
    "__memset_chk",
    "__rawmemchr",
    "__snprintf_chk",
    "__sprintf_chk",
    "__stpcpy_chk",
    "__strcat_chk",
    "__strcpy_chk",
    "__strdup",
    "__strlcpy_chk",
    "__strncat_chk",
    "__strncpy_chk",
    "__strtok_r",
    "__tls_get_addr",
    "__vsnprintf_chk",
    "__vsprintf_chk",
    "abs",
    "acos",
    "acosf",
    "acosh",
    "aligned_alloc",
    "asin",
    "asinf",
    "asinh",
    "atan",
    "atan2",
    "atan2f",
    "atanf",
    "atanh",
    "atof",
    "atoi",
    "atol",
    "atoll",
    "bcmp",
    "bcopy",
    "bzero",
    "calloc",
    "cbrt",
    "cbrtf",
    "ceil",
    "ceilf",
    "cfree",
    "clock",
    "clock_gettime",
    "copysign",
    "copysignf",
    "cos",
    "cosf",
    "cosh",
    "coshf",
    "div",
    "drand48",
    "erf",
    "erfc",
    "exp",
    "exp10",
    "exp2",
    "exp2f",
    "expf",
    "explicit_bzero",
    "expm1",
    "fabs",
    "fabsf",
    "fdim",
    "ffs",
    "floor",
    "floorf",
    "fma",
    "fmaf",
    "fmax",
    "fmaxf",
    "fmin",
    "fminf",
    "fmod",
    "fmodf",
    "free",
    "frexp",
    "getenv",
    "gettimeofday",
    "gmtime",
    "gmtime_r",
    "hypot",
    "hypotf",
    "ilogb",
    "isalnum",
    "isalpha",
    "isblank",
    "iscntrl",
    "isdigit",
    "isgraph",
    "islower",
    "isprint",
    "ispunct",
    "isspace",
    "isupper",
    "iswalnum",
    "iswalpha",
    "iswspace",
    "isxdigit",
    "labs",
    "ldexp",
    "ldexpf",
    "ldiv",
    "lgamma",
    "llabs",
    "llrint",
    "llround",
    "localtime_r",
    "log",
    "log10",
    "log10f",
    "log1p",
    "log2",
    "log2f",
    "logb",
    "logf",
    "lrand48",
    "lrint",
    "lrintf",
    "lround",
    "lroundf",
    "malloc",
    "malloc_usable_size",
    "mbrtowc",
    "mbtowc",
    "memalign",
    "memccpy",
    "memchr",
    "memcmp",
    "memcpy",
    "memmem",
    "memmove",
    "mempcpy",
    "memrchr",
    "memset",
    "mktime",
    "modf",
    "modff",
    "nearbyint",
    "nearbyintf",
    "nextafter",
    "posix_memalign",
    "pow",
    "powf",
    "pthread_equal",
    "pthread_getspecific",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
    "pthread_rwlock_unlock",
    "pthread_self",
    "pthread_setspecific",
    "rand",
    "rand_r",
    "random",
    "rawmemchr",
    "realloc",
    "reallocarray",
    "remainder",
    "rint",
    "rintf",
    "round",
    "roundf",
    "scalbn",
    "secure_getenv",
    "sin",
    "sincos",
    "sincosf",
    "sinf",
    "sinh",
    "sinhf",
    "snprintf",
    "sprintf",
    "sqrt",
    "sqrtf",
    "srand",
    "srandom",
    "sscanf",
    "stpcpy",
    "strcasecmp",
    "strcasestr",
    "strcat",
    "strchr",
    "strchrnul",
    "strcmp",
    "strcoll",
    "strcpy",
    "strcspn",
    "strdup",
    "strlcat",
    "strlcpy",
    "strlen",
    "strncasecmp",
    "strncmp",
    "strncpy",
    "strndup",
    "strnlen",
    "strpbrk",
    "strrchr",
    "strsep",
    "strspn",
    "strstr",
    "strtod",
    "strtof",
    "strtok",
    "strtok_r",
    "strtol",
    "strtold",
    "strtoll",
    "strtoul",
    "strtoull",
    "strverscmp",
    "strxfrm",
    "tan",
    "tanf",
    "tanh",
    "tanhf",
    "tgamma",
    "time",
    "tolower",
    "toupper",
    "towlower",
    "towupper",
    "trunc",
    "truncf",
    "vsnprintf",
    "vsprintf",
    "wcrtomb",
    "wcscmp",
    "wcscpy",
    "wcslen",
    "wctomb",
    "wmemcpy",
    "wmemset",
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
            .map(|(f, &kernel)| {
                !jumps && f.is_read() && f.cfg.is_understood() && !kernel && f.returns && is_plain(f)
            })
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
