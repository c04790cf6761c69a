//! The engine as it is in every process before it begins, and where in this program's own file that is: processes map it from
//! there, so that all have the same memory for it.

use crate::tracee::Place;
use relive_abi::PAGE;
use relive_abi::engine::HOME;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes that fill pages of a file.
#[repr(C, align(4096))]
struct Pages<const N: usize>([u8; N]);

const _: () = assert!(align_of::<Pages<0>>() == PAGE as usize);

include!(concat!(env!("OUT_DIR"), "/engine.rs"));

/// The engine, for [`HOME`].
pub(crate) struct Image {
    /// This program's file, and where in it.
    file: Option<(File, u64)>,
}

impl Image {
    /// Finds it.
    pub(crate) fn new() -> Self {
        Self { file: in_file() }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &'static [u8] {
        &MEMORY.0
    }

    /// What it takes in memory.
    pub(crate) fn len(&self) -> u64 {
        MEMORY.0.len() as u64
    }

    /// Where it is, with some memory behind it.
    pub(crate) fn place(&self, more: u64) -> Place {
        Place { start: HOME, end: HOME + self.len() + more, entry: HOME + ENTRY }
    }

    /// What other processes can open the file by that it is in, while this one lives, and where it is there.
    pub(crate) fn path(&self) -> Option<(String, u64)> {
        let (file, offset) = self.file.as_ref()?;
        Some((format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()), *offset))
    }
}

/// Where the engine is in this program's file; `None` if it is not in there as it is here.
fn in_file() -> Option<(File, u64)> {
    let at = MEMORY.0.as_ptr() as u64;
    // SAFETY: the kernel gives every program its headers.
    let headers = unsafe {
        let first = libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr;
        std::slice::from_raw_parts(first, libc::getauxval(libc::AT_PHNUM) as usize)
    };
    let own = headers.iter().find(|header| header.p_type == libc::PT_PHDR)?;
    let base = (headers.as_ptr() as u64).wrapping_sub(own.p_vaddr);
    let offset = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).find_map(|header| {
        let distance = at.wrapping_sub(base).wrapping_sub(header.p_vaddr);
        (distance < header.p_filesz).then_some(header.p_offset + distance)
    })?;
    let file = File::open("/proc/self/exe").ok()?;
    // A program may have been packed since.
    let mut first = [0; 64];
    file.read_exact_at(&mut first, offset).ok()?;
    (offset % PAGE == 0 && MEMORY.0.starts_with(&first)).then_some((file, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_in_this_file() {
        let image = Image::new();
        assert!(ENTRY > 0 && ENTRY < image.len());
        let (file, offset) = image.file.as_ref().expect("it is in the file of this program");
        let mut bytes = vec![0; image.len() as usize];
        file.read_exact_at(&mut bytes, *offset).expect("all of it");
        assert!(bytes == image.bytes());
    }
}
