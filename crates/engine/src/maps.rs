//! What memory of the program can be executed.

use crate::guard::Guard;
use crate::log::{self, Log};
use crate::translate::{LONGEST, Source};
use alloc::vec::Vec;
use relive_abi::PAGE;
use relive_abi::engine::{self as abi};
use relive_abi::kernel;

/// Executable memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Its number in the log.
    pub number: u32,
    /// What it is of.
    what: What,
    /// Whether the program can write to it.
    pub is_writable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct What {
    /// What to add to an address for a place in the file.
    shift: u64,
    inode: u64,
}

/// All of it, in the order of addresses.
#[derive(Default)]
pub struct Maps {
    known: Vec<Mapping>,
    /// How many have been written down.
    numbers: u32,
    /// What belongs to the engine.
    own: Vec<(u64, u64)>,
}

impl Maps {
    /// None.
    pub const fn new() -> Self {
        Self { known: Vec::new(), numbers: 0, own: Vec::new() }
    }

    /// Memory that is the engine's, not the program's.
    pub fn hide(&mut self, start: u64, end: u64) {
        self.own.push((start, end));
    }

    /// What a place belongs to, as far as known.
    pub fn find(&self, pc: u64) -> Option<&Mapping> {
        let after = self.known.partition_point(|m| m.start <= pc);
        self.known[..after].last().filter(|m| pc < m.end)
    }

    /// The same, and looks again if it is not known.
    pub fn find_now(&mut self, pc: u64, log: &mut Log, guard: &Guard) -> Option<Mapping> {
        if self.find(pc).is_none() {
            self.read(log, guard);
        }
        self.find(pc).copied()
    }

    /// Forgets what is in a range. Whether anything was.
    pub fn forget(&mut self, start: u64, end: u64) -> bool {
        let before = self.known.len();
        self.known.retain(|m| m.end <= start || end <= m.start);
        before != self.known.len()
    }

    /// Whether something in a range is executable, as far as known.
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.known.iter().any(|m| m.start < end && start < m.end)
    }

    /// Reads what the kernel says.
    pub fn read(&mut self, log: &mut Log, guard: &Guard) {
        // Not `self`: that is nobody if the first thread has ended.
        let Ok(fd) = kernel::open(c"/proc/thread-self/maps", kernel::O_RDONLY, 0) else { return };
        let mut text = Vec::with_capacity(16 << 10);
        let mut buffer = alloc::vec![0; 8 << 10];
        while let Ok(n @ 1..) = kernel::read(fd, &mut buffer) {
            text.extend_from_slice(&buffer[..n]);
        }
        kernel::close(fd);
        let old = core::mem::take(&mut self.known);
        for line in text.split(|&b| b == b'\n') {
            let Some((mut mapping, path)) = parse(line) else { continue };
            mapping.is_writable |= guard.holds(mapping.start);
            if self.own.iter().any(|&(start, end)| mapping.start < end && start < mapping.end) {
                continue;
            }
            let same = old
                .iter()
                .find(|m| m.what == mapping.what && m.start <= mapping.start && mapping.end <= m.end);
            mapping.number = match same {
                Some(same) => same.number,
                None => {
                    self.numbers += 1;
                    write_down(log, self.numbers, &mapping, path);
                    self.numbers
                }
            };
            self.known.push(mapping);
        }
    }
}

fn write_down(log: &mut Log, number: u32, mapping: &Mapping, path: &[u8]) {
    let record = abi::Mapping {
        number,
        path_len: path.len() as u32,
        start: mapping.start,
        end: mapping.end,
        offset: mapping.what.shift,
        inode: mapping.what.inode,
    };
    log.write(abi::MAPPING, &[log::bytes(&record), path]);
}

/// One line, if it is about executable memory: `start-end rwxp offset device inode path`.
fn parse(line: &[u8]) -> Option<(Mapping, &[u8])> {
    let (start, rest) = hex(line)?;
    let (end, rest) = hex(rest.strip_prefix(b"-")?)?;
    let rest = rest.strip_prefix(b" ")?;
    let (rights, rest) = rest.split_at_checked(4)?;
    if rights[2] != b'x' {
        return None;
    }
    let (offset, rest) = hex(rest.strip_prefix(b" ")?)?;
    let mut fields = rest.splitn(4, |&b| b == b' ');
    let (_, _device, inode, path) = (fields.next()?, fields.next()?, fields.next()?, fields.next());
    let inode = inode.iter().fold(0u64, |n, &b| n * 10 + u64::from(b.wrapping_sub(b'0')));
    let path = path.unwrap_or_default().trim_ascii();
    let what = What { shift: offset.wrapping_sub(start), inode };
    let mapping = Mapping { start, end, number: 0, what, is_writable: rights[1] == b'w' };
    // Kernel memory in every process: calls there are system calls.
    (path != b"[vsyscall]").then_some((mapping, path))
}

fn hex(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let value = text[..digits].iter().fold(0, |n, &b| n << 4 | (b as char).to_digit(16).map_or(0, u64::from));
    (digits > 0).then(|| (value, &text[digits..]))
}

impl Source for Maps {
    fn bytes(&self, pc: u64) -> &[u8] {
        let Some(mapping) = self.find(pc) else { return &[] };
        let mut end = mapping.end;
        // An instruction may lie on both sides of a border.
        if end - pc < LONGEST as u64
            && let Some(next) = self.find(end)
        {
            end = next.end;
        }
        let len = (end - pc).min(PAGE);
        // SAFETY: mapped as far as known. If the program takes it away meanwhile, it would find that out itself.
        unsafe { core::slice::from_raw_parts(pc as *const u8, len as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let (m, path) =
            parse(b"7f0000001000-7f0000003000 r-xp 00002000 08:01 1234    /usr/lib/with space.so").unwrap();
        assert_eq!((m.start, m.end, m.is_writable), (0x7f00_0000_1000, 0x7f00_0000_3000, false));
        assert_eq!(m.what.inode, 1234);
        assert_eq!(path, b"/usr/lib/with space.so");
        let (m, path) = parse(b"1000-2000 rwxp 00000000 00:00 0").unwrap();
        assert!(m.is_writable && path.is_empty() && m.what.inode == 0);
        assert!(parse(b"1000-2000 rw-p 00000000 00:00 0 [heap]").is_none());
        assert!(parse(b"").is_none());
    }
}
