//! Commands in which `{}` stands for a program that is made on the way.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// `word` with `{}` replaced.
pub(crate) fn with_file(word: &OsStr, file: &OsStr) -> OsString {
    let mut out = Vec::new();
    let mut rest = word.as_bytes();
    while let Some(at) = rest.windows(2).position(|pair| pair == b"{}") {
        out.extend(&rest[..at]);
        out.extend(file.as_bytes());
        rest = &rest[at + 2..];
    }
    out.extend(rest);
    OsString::from_vec(out)
}

/// Whether a file is meant anywhere in the command.
pub(crate) fn mentions_file(command: &[OsString]) -> bool {
    command.iter().any(|word| word.as_bytes().windows(2).any(|pair| pair == b"{}"))
}
