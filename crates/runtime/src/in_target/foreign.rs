//! Code of other modules: where it comes from.

use relive_abi::rprof::{ForeignModule, SlotHeader, SlotLayout};

use super::link_map::ProgramHeader;
use super::syscall::{self, is_readable};

/// Executable memory that was seen before.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    begin: u64,
    end: u64,
    /// Whether it comes from a file, which can be found again.
    pub(crate) from_file: bool,
    /// What was added to addresses as linked.
    pub(crate) bias: u64,
    /// Where its build-id is; zero if it has none.
    note: u64,
    pub(crate) module: ForeignModule,
}

const NOTHING: Known = Known {
    begin: 0,
    end: 0,
    from_file: false,
    bias: 0,
    note: 0,
    module: ForeignModule { build_id_len: 0, path_len: 0, build_id: [0; 32], path: [0; 216] },
};

const KNOWN: usize = 16;

/// What was seen before. Only for whoever holds the lock.
static mut CACHE: ([Known; KNOWN], usize) = ([NOTHING; KNOWN], 0);

/// What is known of the code at an address. The buffer is for lines of `/proc/self/maps`.
#[allow(static_mut_refs)]
pub(crate) fn identify(address: u64, line: &mut [u8]) -> &'static Known {
    // SAFETY: the caller holds the lock.
    let (cache, next) = unsafe { &mut CACHE };
    let found = cache.iter().position(|known| known.covers(address));
    let n = found.unwrap_or(*next % KNOWN);
    let Some(place) = cache.get_mut(n) else { return &NOTHING };
    if found.is_none() {
        *next += 1;
        let mut new = NOTHING;
        look_up(address, line, &mut new);
        // Another thread may fork right now: the child must see all of it or nothing.
        // SAFETY: references are valid.
        unsafe {
            core::ptr::write_volatile(&raw mut place.end, 0);
            core::ptr::write_volatile(place, Known { end: 0, ..new });
            core::ptr::write_volatile(&raw mut place.end, new.end);
        }
    }
    place
}

impl Known {
    /// Whether it is what is there, even if a library was replaced by another meanwhile.
    fn covers(&self, address: u64) -> bool {
        (self.begin..self.end).contains(&address)
            && (self.note == 0
                || is_readable(self.note & !7) && {
                    let len = self.module.build_id_len as usize;
                    // SAFETY: a build-id hardly crosses into a page that is not there.
                    let id = unsafe { core::slice::from_raw_parts(self.note as *const u8, len.min(32)) };
                    self.module.build_id.get(..len) == Some(id)
                })
    }
}

/// Looks in the list of mappings.
fn look_up(address: u64, line: &mut [u8], known: &mut Known) {
    let Ok(fd) = syscall::open(c"/proc/self/maps", syscall::O_RDONLY, 0) else { return };
    let mut chunk = [0u8; 256];
    let mut len = 0;
    // The mapping with which the file begins that is being listed.
    let mut base = (0, 0);
    'all: while let Ok(got @ 1..) = syscall::read(fd, &mut chunk) {
        for &byte in chunk.iter().take(got) {
            if byte != b'\n' {
                if let Some(at) = line.get_mut(len) {
                    *at = byte;
                    len += 1;
                }
                continue;
            }
            let mapping = Mapping::parse(line.get(..len).unwrap_or(&[]));
            len = 0;
            let Some(mapping) = mapping else { continue };
            let name = relive_abi::hash::of(mapping.path);
            if mapping.offset == 0 && !mapping.path.is_empty() {
                base = (mapping.begin, name);
            }
            if (mapping.begin..mapping.end).contains(&address) {
                known.begin = mapping.begin;
                known.end = mapping.end;
                if !mapping.path.is_empty() && base.1 == name {
                    read_image(base.0, known);
                    if known.from_file {
                        set_path(&mut known.module, mapping.path);
                    }
                }
                break 'all;
            }
        }
    }
    syscall::close(fd);
}

/// A line of `/proc/self/maps`.
struct Mapping<'a> {
    begin: u64,
    end: u64,
    offset: u64,
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut field = |end: u8| {
            let at = rest.iter().position(|&byte| byte == end).unwrap_or(rest.len());
            let field = rest.get(..at).unwrap_or(&[]);
            rest = rest.get(at + 1..).unwrap_or(&[]);
            field
        };
        let (begin, end) = (hexadecimal(field(b'-'))?, hexadecimal(field(b' '))?);
        field(b' ');
        let offset = hexadecimal(field(b' '))?;
        field(b' ');
        field(b' ');
        let start = rest.iter().position(|&byte| byte != b' ').unwrap_or(rest.len());
        let path = rest.get(start..).unwrap_or(&[]);
        Some(Mapping { begin, end, offset, path: path.strip_suffix(b" (deleted)").unwrap_or(path) })
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for &digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        number = number << 4 | u64::from(value);
    }
    if digits.is_empty() { None } else { Some(number) }
}

fn set_path(module: &mut ForeignModule, path: &[u8]) {
    let cut = path.len().saturating_sub(module.path.len());
    let path = path.get(cut..).unwrap_or(&[]);
    for (to, from) in module.path.iter_mut().zip(path) {
        *to = *from;
    }
    module.path_len = path.len() as u32;
}

/// Reads bias and build-id of the ELF file that is mapped at an address, if one is.
fn read_image(base: u64, known: &mut Known) {
    const ELF: u64 = 0x0001_0102_464c_457f;
    const IDENTITY: u64 = 0x0000_ffff_ffff_ffff;
    const PT_LOAD: u32 = 1;
    const PT_NOTE: u32 = 4;
    let word = |at: u64| {
        // SAFETY: read only if that is possible.
        if is_readable(at) { unsafe { *(at as *const u64) } } else { 0 }
    };
    if word(base) & IDENTITY != ELF & IDENTITY {
        return;
    }
    let headers = base + word(base + 32);
    let count = word(base + 56) & 0xffff;
    let header = |n: u64| {
        let at = headers + n * size_of::<ProgramHeader>() as u64;
        if !is_readable(at) || !is_readable(at + 48) {
            return None;
        }
        // SAFETY: begin and end can be read.
        Some(unsafe { *(at as *const ProgramHeader) })
    };
    let of_kind = |kind| (0..count).filter_map(header).filter(move |header| header.kind == kind);
    let Some(first) = of_kind(PT_LOAD).next() else { return };
    let bias = base.wrapping_sub(first.address.wrapping_sub(first.offset));
    let note = of_kind(PT_NOTE).find_map(|note| find_note(bias.wrapping_add(note.address), note.len, &word));
    known.from_file = true;
    known.bias = bias;
    if let Some((at, len)) = note {
        known.note = at;
        let len = len.min(32);
        known.module.build_id_len = len as u32;
        for (n, byte) in known.module.build_id.iter_mut().enumerate().take(len as usize) {
            *byte = (word((at + n as u64) & !7) >> ((at + n as u64) % 8 * 8)) as u8;
        }
    }
}

/// Where the build-id is among notes, and its length.
fn find_note(begin: u64, len: u64, word: &impl Fn(u64) -> u64) -> Option<(u64, u64)> {
    const GNU: u32 = u32::from_le_bytes(*b"GNU\0");
    const BUILD_ID: u32 = 3;
    let half = |at: u64| (word(at & !7) >> (at % 8 * 8)) as u32;
    let mut at = begin;
    while at + 16 <= begin + len {
        let (name, content) = (half(at), half(at + 4));
        let data = at + 12 + u64::from(name).next_multiple_of(4);
        if half(at + 8) == BUILD_ID && name == 4 && half(at + 12) == GNU {
            return Some((data, u64::from(content)));
        }
        at = data + u64::from(content).next_multiple_of(4);
        if name == 0 && content == 0 {
            return None;
        }
    }
    None
}

/// The number of a module in the table of a slot, where it is added if it is new; `None` if there is no room.
pub(crate) fn number(layout: &SlotLayout, slot: u64, module: &ForeignModule) -> Option<u64> {
    let header = slot as *mut SlotHeader;
    // SAFETY: a mapped slot of ours; the number in use is checked against the room.
    unsafe {
        let first = (slot + layout.modules_offset()) as *mut ForeignModule;
        let used = (*header).modules.min(layout.modules);
        for n in 0..used {
            let known = &*first.add(n as usize);
            let same_id = known.build_id_len == module.build_id_len && known.build_id == module.build_id;
            let same_path = known.path_len == module.path_len && known.path == module.path;
            if same_id && (module.build_id_len != 0 || same_path) {
                return Some(u64::from(n) + 1);
            }
        }
        if used >= layout.modules {
            return None;
        }
        *first.add(used as usize) = *module;
        (*header).modules = used + 1;
        Some(u64::from(used) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = b"7f00-8f00 r-xp 0000a000 fe:01 1234                       /usr/lib/a b.so (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.begin, mapping.end, mapping.offset), (0x7f00, 0x8f00, 0xa000));
        assert_eq!(mapping.path, b"/usr/lib/a b.so");
        assert_eq!(Mapping::parse(b"7f00-8f00 rwxp 00000000 00:00 0 ").unwrap().path, b"");
        assert_eq!(Mapping::parse(b"7f00-8f00 rwxp 00000000 00:00 0").unwrap().path, b"");
        assert!(Mapping::parse(b"").is_none());
    }

    #[test]
    fn this_program_is_identified() {
        let code = this_program_is_identified as fn() as usize as u64;
        let known = identify(code, &mut [0; 1024]);
        assert!(known.from_file);
        let path = std::env::current_exe().unwrap();
        assert!(
            path.to_string_lossy().as_bytes().ends_with(&known.module.path[..known.module.path_len as usize])
        );
        let data = Box::new(7u64);
        assert!(!identify(&raw const *data as u64, &mut [0; 1024]).from_file);
    }
}
