//! Programs that get privileges when they are executed: set-user-ID, set-group-ID, or with capabilities of their file. The
//! kernel does not give them to a process that is traced by somebody who could not give them himself.

use crate::processes::status;
use libc::pid_t;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The programs that have been told of.
static TOLD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Says, once for each program, that one that has just been executed runs without its privileges.
pub(crate) fn tell(pid: pid_t) {
    let Some(what) = lost(pid) else { return };
    let Ok(path) = fs::read_link(format!("/proc/{pid}/exe")) else { return };
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone()) {
        eprintln!(
            "relive: {} runs without its privileges ({what}), as it is being measured; run this as root for it to have them",
            path.display()
        );
    }
}

/// What a process should have by the file of its program, and does not.
fn lost(pid: pid_t) -> Option<&'static str> {
    let path = format!("/proc/{pid}/exe");
    let file = fs::metadata(&path).ok()?;
    let capabilities = capabilities(&path);
    let mode = file.mode();
    let is_setuid = mode & libc::S_ISUID != 0;
    // Without the right to execute it means something else.
    let is_setgid = mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0;
    if !is_setuid && !is_setgid && capabilities == 0 {
        return None;
    }
    // Others may have had the same idea.
    if status(pid, "NoNewPrivs").is_none_or(|on| on != "0") || is_without(&path) {
        return None;
    }
    let effective = |field| status(pid, field)?.split_ascii_whitespace().nth(1)?.parse::<u32>().ok();
    let set = |field| u64::from_str_radix(&status(pid, field)?, 16).ok();
    if is_setuid && effective("Uid")? != file.uid() {
        Some("set-user-ID")
    } else if is_setgid && effective("Gid")? != file.gid() {
        Some("set-group-ID")
    } else if capabilities & set("CapBnd")? & !set("CapPrm")? != 0 {
        Some("capabilities")
    } else {
        None
    }
}

/// Whether the file system gives no privileges.
fn is_without(path: &str) -> bool {
    let Ok(path) = CString::new(path) else { return false };
    // SAFETY: plain numbers, which the kernel fills in.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        libc::statvfs(path.as_ptr(), &raw mut found) == 0 && found.f_flag & libc::ST_NOSUID != 0
    }
}

/// The capabilities that a file gives.
fn capabilities(path: &str) -> u64 {
    let Ok(path) = CString::new(path) else { return 0 };
    let mut value = [0u8; 24];
    let name = c"security.capability";
    // SAFETY: as many bytes as it says.
    let len = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    usize::try_from(len).map_or(0, |len| permitted(&value[..len]))
}

/// What such an attribute permits: its version is followed by pairs of words of what is permitted and inheritable.
fn permitted(value: &[u8]) -> u64 {
    let word = |at: usize| {
        let bytes = value.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(bytes)))
    };
    word(4) | word(12) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes() {
        // cap_net_raw=ep, of version 2.
        let raw = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(permitted(&raw), 1 << 13);
        assert_eq!(permitted(&[]), 0);
    }

    #[test]
    fn this_process_lacks_nothing() {
        assert_eq!(lost(std::process::id() as pid_t), None);
    }
}
