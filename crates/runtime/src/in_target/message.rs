//! One line on standard error, where something is not as it should be.

use super::syscall::{self, Errno};
use super::text::Text;

/// Errors that can be expected, in one string: a table of strings would be a table of pointers.
const ERRORS: &[u8] = b"1 operation not permitted\n2 no such file or directory\n5 input/output error\n\
    9 bad file descriptor\n11 locked by somebody else\n12 out of memory\n13 permission denied\n17 file exists\n\
    19 no shared mappings on this file system\n20 not a directory\n21 is a directory\n22 not supported by this kernel or file system\n\
    23 too many open files in system\n24 too many open files\n26 text file busy\n27 limit of file size\n\
    28 no space left on device\n30 read-only file system\n36 file name too long\n37 no locks available\n\
    38 not supported by this kernel\n40 too many levels of symbolic links\n\
    95 not supported by this file system\n122 disk quota exceeded\n";

/// Says what happened to a path, and why.
pub(crate) fn failed(path: &[u8], what: &[u8], why: Errno, then: &[u8]) {
    let mut number = [0u8; 24];
    let mut text = Text::new(&mut number);
    text.push_decimal(why.0.unsigned_abs().into());
    let len = text.finish().unwrap_or(0);
    let number = number.get(..len).unwrap_or(&[]);
    let reason = reason(number);
    let (error, reason) = if reason.is_empty() { (&b"error "[..], number) } else { (&b""[..], reason) };
    let _ = syscall::writev(2, &[b"relive: ", path, b": ", what, error, reason, b"; ", then, b"\n"]);
}

/// Says that a file is not ours.
pub(crate) fn foreign(path: &[u8], what: &[u8], other: &[u8]) {
    let _ = syscall::writev(2, &[b"relive: ", path, what, b"; writing to ", other, b" instead\n"]);
}

fn reason(number: &[u8]) -> &'static [u8] {
    for line in ERRORS.split(|&byte| byte == b'\n') {
        if let Some(rest) = line.strip_prefix(number)
            && let Some(text) = rest.strip_prefix(b" ")
        {
            return text;
        }
    }
    b""
}

#[cfg(test)]
mod tests {
    #[test]
    fn errors_are_found_by_number() {
        assert_eq!(super::reason(b"2"), b"no such file or directory");
        assert_eq!(super::reason(b"22"), b"not supported by this kernel or file system");
        assert_eq!(super::reason(b"4242"), b"");
    }
}
