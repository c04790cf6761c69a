//! Memory that looks like a file.

use crate::Error;
use std::fs::File;
use std::os::fd::FromRawFd as _;

/// An empty file that is nowhere but in memory.
///
/// # Errors
/// If the kernel has none.
pub fn file() -> Result<File, Error> {
    // SAFETY: a name and no more.
    let fd = unsafe { libc::memfd_create(c"relive".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(Error::last("no memory to share with the program"));
    }
    // SAFETY: just made.
    Ok(unsafe { File::from_raw_fd(fd) })
}
