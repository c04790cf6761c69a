//! What memory of the program can be executed.

use crate::guard::Guard;
use crate::log::{self, Log};
use crate::translate::{LONGEST, Source};
use alloc::vec::Vec;
use core::cell::Cell;
use relive_abi::PAGE;
use relive_abi::engine::{self as abi, Exempt};
use relive_abi::{hash, kernel};

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
    /// Whether others see what is written to it, and the other way round.
    pub is_shared: bool,
}

impl Mapping {
    /// Whether there may be other code tomorrow at the same place.
    pub fn can_change(&self) -> bool {
        self.is_writable || self.is_shared || self.what.inode == 0
    }

    /// What else in this process is the same memory as one page of it, and can be written to.
    pub fn views(&self, page: u64) -> Vec<u64> {
        let place = page.wrapping_add(self.what.shift);
        let mut found = Vec::new();
        for line in read_all().split(|&b| b == b'\n') {
            let Some((mapping, rights, _)) = parse(line) else { continue };
            let there = place.wrapping_sub(mapping.what.shift);
            let is_same =
                mapping.what.inode == self.what.inode && (mapping.start..mapping.end).contains(&there);
            if is_same && rights.starts_with(b"rw") && mapping.is_shared {
                found.push(there);
            }
        }
        found
    }
}

/// What a mapping is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct What {
    /// What to add to an address for a place in the file.
    shift: u64,
    /// Which file, as far as numbers tell; 0 if it is none.
    file: u64,
    inode: u64,
    /// The same file, as [`abi::file_mark`] has it.
    mark: u64,
}

impl Mapping {
    /// Whether its code can be read in a file later.
    pub fn is_file(&self) -> bool {
        self.what.file != 0
    }

    /// Stands for the file and the place in it; the same for all code that is in no file.
    pub fn identity(&self) -> u64 {
        if self.is_file() { self.what.file ^ self.what.shift } else { 0 }
    }
}

/// All of it, in the order of addresses.
#[derive(Default)]
pub struct Maps {
    known: Vec<Mapping>,
    /// How many have been written down.
    numbers: u32,
    /// What belongs to the engine.
    own: Vec<(u64, u64)>,
    /// Code that need not be counted, in order.
    exempt: &'static [Exempt],
    /// Which one was found last: mostly it is the same again.
    last: Cell<usize>,
}

impl Maps {
    /// None. Some code, wherever it will be, need not be counted.
    pub const fn new(exempt: &'static [Exempt]) -> Self {
        Self { known: Vec::new(), numbers: 0, own: Vec::new(), exempt, last: Cell::new(0) }
    }

    /// Whether code need not be counted.
    pub fn is_exempt(&self, start: u64, end: u64) -> bool {
        if self.exempt.is_empty() {
            return false;
        }
        let Some(mapping) = self.find(start).filter(|mapping| mapping.is_file()) else { return false };
        let at = |address: u64| address.wrapping_add(mapping.what.shift);
        let behind = self.exempt.partition_point(|e| (e.file, e.start) <= (mapping.what.mark, at(start)));
        behind
            .checked_sub(1)
            .map(|before| &self.exempt[before])
            .is_some_and(|e| e.file == mapping.what.mark && at(end) <= e.end)
    }

    /// Memory that is the engine's, not the program's.
    pub fn hide(&mut self, start: u64, end: u64) {
        self.own.push((start, end));
    }

    /// Memory that was the engine's and is given back.
    pub fn show(&mut self, start: u64) {
        self.own.retain(|own| own.0 != start);
    }

    /// What a place belongs to, as far as known.
    pub fn find(&self, pc: u64) -> Option<&Mapping> {
        let holds = |m: &&Mapping| (m.start..m.end).contains(&pc);
        if let Some(same) = self.known.get(self.last.get()).filter(holds) {
            return Some(same);
        }
        let last = self.known.partition_point(|m| m.start <= pc).checked_sub(1)?;
        let found = self.known.get(last).filter(holds)?;
        self.last.set(last);
        Some(found)
    }

    /// The same, and looks again if it is not known, or what an instruction at its end may need of the next.
    pub fn find_now(&mut self, pc: u64, log: &mut Log, guard: &Guard) -> Option<Mapping> {
        let is_complete = |m: &Mapping| m.end - pc >= LONGEST as u64 || self.find(m.end).is_some();
        if !self.find(pc).is_some_and(is_complete) {
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
        let text = read_all();
        let old = core::mem::take(&mut self.known);
        for line in text.split(|&b| b == b'\n') {
            let Some((mut mapping, rights, path)) = parse(line) else { continue };
            // Kernel memory in every process: calls there are system calls.
            if rights[2] != b'x' || path == b"[vsyscall]" {
                continue;
            }
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

fn read_all() -> Vec<u8> {
    let mut text = Vec::with_capacity(16 << 10);
    // Not `self`: that is nobody if the first thread has ended.
    let Ok(fd) = kernel::open(c"/proc/thread-self/maps", kernel::O_RDONLY, 0) else { return text };
    let mut buffer = alloc::vec![0; 8 << 10];
    while let Ok(n @ 1..) = kernel::read(fd, &mut buffer) {
        text.extend_from_slice(&buffer[..n]);
    }
    kernel::close(fd);
    text
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

/// One line: `start-end rwxp offset device inode path`. Also what is allowed, and the path.
fn parse(line: &[u8]) -> Option<(Mapping, &[u8], &[u8])> {
    let (start, rest) = hex(line)?;
    let (end, rest) = hex(rest.strip_prefix(b"-")?)?;
    let rest = rest.strip_prefix(b" ")?;
    let (rights, rest) = rest.split_at_checked(4)?;
    let (offset, rest) = hex(rest.strip_prefix(b" ")?)?;
    let mut fields = rest.splitn(4, |&b| b == b' ');
    let (_, device, digits, path) = (fields.next()?, fields.next()?, fields.next()?, fields.next());
    let inode = digits.iter().fold(0u64, |n, &b| n * 10 + u64::from(b.wrapping_sub(b'0')));
    let path = path.unwrap_or_default().trim_ascii();
    let is_file = abi::is_file(path, inode);
    let file = if is_file { hash::fnv1a(hash::of(device), digits) | 1 } else { 0 };
    let mark = if is_file { abi::file_mark(path, digits) } else { 0 };
    let what = What { shift: offset.wrapping_sub(start), file, inode, mark };
    let (is_writable, is_shared) = (rights[1] == b'w', rights[3] == b's');
    Some((Mapping { start, end, number: 0, what, is_writable, is_shared }, rights, path))
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
        let (m, _, path) =
            parse(b"7f0000001000-7f0000003000 r-xp 00002000 08:01 1234    /usr/lib/with space.so").unwrap();
        assert_eq!((m.start, m.end, m.is_writable), (0x7f00_0000_1000, 0x7f00_0000_3000, false));
        assert!(m.what.inode == 1234 && m.is_file());
        assert_eq!(m.what.mark, abi::file_mark(b"with space.so", b"1234"));
        assert_eq!(path, b"/usr/lib/with space.so");
        let (m, _, path) = parse(b"1000-2000 rwxp 00000000 00:00 0").unwrap();
        assert!(m.is_writable && path.is_empty() && m.what.inode == 0 && !m.is_file());
        let (m, _, _) = parse(b"1000-2000 r-xp 00000000 00:01 12 /memfd:jit (deleted)").unwrap();
        assert!(!m.is_file());
        assert_eq!(parse(b"1000-2000 rw-s 00000000 00:00 0 [heap]").unwrap().1, b"rw-s");
        assert!(parse(b"").is_none());
    }

    #[test]
    fn code_that_need_not_be_counted() {
        let file = abi::file_mark(b"/bin/app", b"7");
        let exempt = [(0x1000, 0x1100), (0x1800, 0x1900)].map(|(start, end)| Exempt { file, start, end });
        let mut maps = Maps::new(Box::leak(Box::new(exempt)));
        for line in [
            &b"401000-403000 r-xp 00001000 08:01 7 /bin/app"[..],
            b"501000-503000 r-xp 00001000 08:01 8 /bin/app",
        ] {
            maps.known.push(parse(line).unwrap().0);
        }
        assert!(maps.is_exempt(0x40_1000, 0x40_1100) && maps.is_exempt(0x40_18ff, 0x40_1900));
        assert!(!maps.is_exempt(0x40_1000, 0x40_1101) && !maps.is_exempt(0x40_1100, 0x40_1101));
        assert!(!maps.is_exempt(0x50_1000, 0x50_1001) && !maps.is_exempt(0x60_1000, 0x60_1001));
    }
}
