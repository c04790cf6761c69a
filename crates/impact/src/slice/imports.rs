//! What functions of other modules do, as far as that is common knowledge. All others may do anything: read and write
//! whatever their arguments lead to, call back, write files, leave.

use super::mask::{self, Mask};

/// What a function of another module does with memory and the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Does {
    /// Computes its result from its arguments.
    Computes,
    /// Computes its result from its arguments and the memory they lead to.
    Reads,
    /// The same, and writes to memory that its arguments lead to.
    Writes,
    /// Gives memory out or takes it back. Where memory lies is taken to matter to nobody.
    Allocates,
    /// Prints on what is taken to be read by nobody else in the same run: standard output.
    Prints,
    /// Changes files or other things outside.
    Emits,
    /// Brings something from outside into memory.
    Fetches,
    /// Tells where the last error is kept.
    ErrorPlace,
    /// Never comes back.
    Leaves,
    /// Goes on somewhere else in this process.
    Jumps,
    /// Nobody knows.
    Anything,
}

/// A function of another module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Import {
    pub(super) does: Does,
    /// How many arguments it takes in general registers; more than six if that depends.
    pub(super) arguments: u8,
    /// Whether it takes some in vector registers or on the stack.
    pub(super) more: bool,
}

impl Import {
    /// What is not known by its name.
    pub(super) const UNKNOWN: Self = Self { does: Does::Anything, arguments: 7, more: true };

    pub(super) fn named(name: &str) -> Self {
        let name = name.split_once('@').map_or(name, |(name, _)| name);
        if let Ok(i) = KNOWN.binary_search_by_key(&name, |entry| entry.0) {
            let (_, does, arguments) = KNOWN[i];
            let more = arguments == 7 || does == Does::Computes;
            return Self { does, arguments, more };
        }
        // libstdc++ throws through functions of its own: std::__throw_bad_alloc() and the like.
        if name.starts_with("_ZSt") && name.contains("__throw_") {
            return Self { does: Does::Jumps, ..Self::UNKNOWN };
        }
        Self::UNKNOWN
    }

    /// The registers that its arguments are in.
    pub(super) fn passed(self) -> Mask {
        let general = match self.arguments {
            7.. => mask::PASSED & mask::GENERAL,
            count => mask::ARGUMENTS[..usize::from(count)].iter().fold(0, |all, &unit| all | mask::bit(unit)),
        };
        let vectors = if self.more { mask::PASSED & mask::ALL_VECTORS } else { 0 };
        general | vectors
    }

    /// Whether it may go elsewhere than back to its caller.
    pub(super) fn may_leave(self) -> bool {
        matches!(self.does, Does::Leaves | Does::Jumps | Does::Anything)
    }
}

use Does::{Allocates, Computes, Emits, ErrorPlace, Fetches, Jumps, Leaves, Prints, Reads, Writes};

/// Names, what they do, and how many arguments they take in general registers (7: that depends). Sorted.
const KNOWN: &[(&str, Does, u8)] = &[
    ("_Exit", Leaves, 1),
    ("_Unwind_Resume", Jumps, 1),
    ("_ZSt9terminatev", Leaves, 0),
    ("_ZdaPv", Allocates, 1),
    ("_ZdaPvm", Allocates, 2),
    ("_ZdlPv", Allocates, 1),
    ("_ZdlPvm", Allocates, 2),
    ("_Znam", Allocates, 1),
    ("_Znwm", Allocates, 1),
    ("__assert_fail", Leaves, 4),
    ("__ctype_b_loc", Computes, 0),
    ("__ctype_tolower_loc", Computes, 0),
    ("__ctype_toupper_loc", Computes, 0),
    ("__cxa_allocate_exception", Allocates, 1),
    ("__cxa_rethrow", Jumps, 0),
    ("__cxa_throw", Jumps, 3),
    ("__errno_location", ErrorPlace, 0),
    ("__fprintf_chk", Emits, 7),
    ("__isoc99_sscanf", Writes, 7),
    ("__longjmp_chk", Jumps, 2),
    ("__memcpy_chk", Writes, 4),
    ("__memmove_chk", Writes, 4),
    ("__memset_chk", Writes, 4),
    ("__printf_chk", Prints, 7),
    ("__snprintf_chk", Writes, 7),
    ("__sprintf_chk", Writes, 7),
    ("__stack_chk_fail", Leaves, 0),
    ("__strcat_chk", Writes, 3),
    ("__strcpy_chk", Writes, 3),
    ("__strncpy_chk", Writes, 4),
    ("_exit", Leaves, 1),
    ("_longjmp", Jumps, 2),
    ("abort", Leaves, 0),
    ("abs", Computes, 1),
    ("acos", Computes, 0),
    ("asin", Computes, 0),
    ("atan", Computes, 0),
    ("atan2", Computes, 0),
    ("atof", Reads, 1),
    ("atoi", Reads, 1),
    ("atol", Reads, 1),
    ("atoll", Reads, 1),
    ("calloc", Allocates, 2),
    ("ceil", Computes, 0),
    ("cos", Computes, 0),
    ("cosh", Computes, 0),
    ("exit", Leaves, 1),
    ("exp", Computes, 0),
    ("exp2", Computes, 0),
    ("fabs", Computes, 0),
    ("fclose", Emits, 1),
    ("feof", Fetches, 1),
    ("ferror", Fetches, 1),
    ("fflush", Emits, 1),
    ("fgetc", Fetches, 1),
    ("fgets", Fetches, 3),
    ("fileno", Reads, 1),
    ("floor", Computes, 0),
    ("fmod", Computes, 0),
    ("fmodf", Computes, 0),
    ("fopen", Emits, 2),
    ("fprintf", Emits, 7),
    ("fputc", Emits, 2),
    ("fputs", Emits, 2),
    ("fread", Fetches, 4),
    ("free", Allocates, 1),
    ("frexp", Writes, 7),
    ("fseek", Emits, 3),
    ("ftell", Fetches, 1),
    ("fwrite", Emits, 4),
    ("getc", Fetches, 1),
    ("getchar", Fetches, 0),
    ("getenv", Reads, 1),
    ("isatty", Fetches, 1),
    ("labs", Computes, 1),
    ("ldexp", Computes, 1),
    ("log", Computes, 0),
    ("log10", Computes, 0),
    ("log2", Computes, 0),
    ("longjmp", Jumps, 2),
    ("malloc", Allocates, 1),
    ("memchr", Reads, 3),
    ("memcmp", Reads, 3),
    ("memcpy", Writes, 3),
    ("memmove", Writes, 3),
    ("mempcpy", Writes, 3),
    ("memrchr", Reads, 3),
    ("memset", Writes, 3),
    ("pow", Computes, 0),
    ("printf", Prints, 7),
    ("putc", Emits, 2),
    ("putchar", Prints, 1),
    ("puts", Prints, 1),
    ("realloc", Allocates, 2),
    ("round", Computes, 0),
    ("siglongjmp", Jumps, 2),
    ("sin", Computes, 0),
    ("sinh", Computes, 0),
    ("snprintf", Writes, 7),
    ("sprintf", Writes, 7),
    ("sqrt", Computes, 0),
    ("sqrtf", Computes, 0),
    ("sscanf", Writes, 7),
    ("stpcpy", Writes, 2),
    ("strcasecmp", Reads, 2),
    ("strcat", Writes, 2),
    ("strchr", Reads, 2),
    ("strcmp", Reads, 2),
    ("strcoll", Reads, 2),
    ("strcpy", Writes, 2),
    ("strcspn", Reads, 2),
    ("strdup", Reads, 1),
    ("strerror", Reads, 1),
    ("strlen", Reads, 1),
    ("strncasecmp", Reads, 3),
    ("strncat", Writes, 3),
    ("strncmp", Reads, 3),
    ("strncpy", Writes, 3),
    ("strnlen", Reads, 2),
    ("strpbrk", Reads, 2),
    ("strrchr", Reads, 2),
    ("strspn", Reads, 2),
    ("strstr", Reads, 2),
    ("strtod", Writes, 2),
    ("strtol", Writes, 3),
    ("strtoll", Writes, 3),
    ("strtoul", Writes, 3),
    ("strtoull", Writes, 3),
    ("tan", Computes, 0),
    ("tanh", Computes, 0),
    ("tolower", Computes, 1),
    ("toupper", Computes, 1),
    ("trunc", Computes, 0),
    ("ungetc", Fetches, 2),
    ("vfprintf", Emits, 3),
    ("vsnprintf", Writes, 4),
    ("vsprintf", Writes, 3),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(KNOWN.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(Import::named("strlen").does, Does::Reads);
        assert_eq!(Import::named("memcpy@GLIBC_2.14").does, Does::Writes);
        assert_eq!(Import::named("qsort"), Import::UNKNOWN);
        assert!(Import::named("_ZSt20__throw_length_errorPKc").may_leave());
    }
}
