//! Finding the x86-64 ELF executables and shared objects below some folders, each file once.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) fn elf_files(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    let mut waiting: Vec<PathBuf> = roots.to_vec();
    while let Some(path) = waiting.pop() {
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            waiting
                .extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else if metadata.is_file() && seen.insert((metadata.dev(), metadata.ino())) && is_program(&path) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn is_program(path: &Path) -> bool {
    let mut header = [0; 20];
    File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok() && is_program_header(&header)
}

/// ELF, 64-bit, little-endian, x86-64 (62), ET_EXEC (2) or ET_DYN (3).
fn is_program_header(header: &[u8; 20]) -> bool {
    header.starts_with(b"\x7fELF\x02\x01")
        && matches!(header[16], 2 | 3)
        && header[17] == 0
        && header[18..] == [62, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let mut header = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0";
        assert!(is_program_header(&header));
        header[16] = 1; // an object file
        assert!(!is_program_header(&header));
        header[16] = 2;
        header[18] = 183; // another machine
        assert!(!is_program_header(&header));
    }

    #[test]
    fn a_hard_link_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        std::fs::copy(own, folder.path().join("a")).unwrap();
        std::fs::hard_link(folder.path().join("a"), folder.path().join("b")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("a"), folder.path().join("c")).unwrap();
        std::fs::write(folder.path().join("text"), "no program").unwrap();
        assert_eq!(elf_files(&[folder.path().to_owned()]).len(), 1);
    }
}
