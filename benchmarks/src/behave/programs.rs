//! Programs among the ELF files: those that can be started.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const ET_EXEC: u16 = 2;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;

/// May be executed, and is linked as a program: at a fixed address, with a loader, or marked as static PIE.
pub(crate) fn is_program(path: &Path) -> bool {
    let executable = std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    executable && linked_as_program(path).unwrap_or(false)
}

fn linked_as_program(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let mut header = [0; 64];
    file.read_exact(&mut header)?;
    if number(&header[16..18]) == u64::from(ET_EXEC) {
        return Ok(true);
    }
    let (offset, size, count) = (number(&header[32..40]), number(&header[54..56]), number(&header[56..58]));
    for index in 0..count {
        let mut segment = [0; 56];
        file.seek(SeekFrom::Start(offset + index * size))?;
        file.read_exact(&mut segment)?;
        match number(&segment[..4]) as u32 {
            PT_INTERP => return Ok(true),
            PT_DYNAMIC => {
                let (at, length) = (number(&segment[8..16]), number(&segment[32..40]));
                let mut dynamic = vec![0; usize::try_from(length.min(1 << 16)).unwrap_or(0)];
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(&mut dynamic)?;
                let is_pie =
                    |entry: &[u8]| number(&entry[..8]) == DT_FLAGS_1 && number(&entry[8..]) & DF_1_PIE != 0;
                if dynamic.chunks_exact(16).any(is_pie) {
                    return Ok(true);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Little-endian.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_program() {
        assert!(is_program(&std::env::current_exe().unwrap()));
        assert!(!is_program(Path::new("/etc/passwd")));
        assert_eq!(number(&[1, 2]), 0x201);
    }
}
