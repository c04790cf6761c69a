//! Functions of other modules, found the way a debugger does: by the dynamic linker's list.

use core::ffi::CStr;

const PT_DYNAMIC: u32 = 2;

const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_DEBUG: u64 = 21;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// A program header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProgramHeader {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) physical: u64,
    pub(crate) file_len: u64,
    pub(crate) len: u64,
    pub(crate) align: u64,
}

/// The start of what the dynamic linker keeps per module.
#[repr(C)]
struct LinkMap {
    bias: u64,
    name: u64,
    dynamic: *const [u64; 2],
    next: *const LinkMap,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// The executable, as the kernel loaded it.
#[derive(Clone, Copy)]
pub(crate) struct Executable {
    /// Its program headers: address and number.
    pub(crate) headers: (u64, u64),
    pub(crate) bias: u64,
}

/// Finds a function that some module defines. To be called only while nobody loads or unloads modules: when
/// the program starts.
///
/// # Safety
/// The headers must be those that the kernel gave.
pub(crate) unsafe fn find(executable: Executable, name: &CStr) -> Option<u64> {
    // SAFETY: the dynamic linker's structures are as the ABI says, the strings end with zero.
    unsafe {
        let dynamic = executable_dynamic(executable)?;
        // struct r_debug: version, first of the list, ...
        let debug = entry(dynamic, DT_DEBUG)? as *const [u64; 2];
        if debug.is_null() || (*debug)[0] as u32 == 0 {
            return None;
        }
        let mut module = (*debug)[1] as *const LinkMap;
        while let Some(here) = module.as_ref() {
            if let Some(found) = find_in(here, name) {
                return Some(found);
            }
            module = here.next;
        }
        None
    }
}

unsafe fn executable_dynamic(executable: Executable) -> Option<*const [u64; 2]> {
    let (address, count) = executable.headers;
    if address == 0 {
        return None;
    }
    // SAFETY: as the caller promises.
    let headers = unsafe { core::slice::from_raw_parts(address as *const ProgramHeader, count as usize) };
    let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC)?;
    Some(executable.bias.wrapping_add(dynamic.address) as *const _)
}

unsafe fn entry(mut dynamic: *const [u64; 2], tag: u64) -> Option<u64> {
    // SAFETY: the table ends with DT_NULL.
    unsafe {
        while (*dynamic)[0] != DT_NULL {
            if (*dynamic)[0] == tag {
                return Some((*dynamic)[1]);
            }
            dynamic = dynamic.add(1);
        }
    }
    None
}

unsafe fn find_in(module: &LinkMap, name: &CStr) -> Option<u64> {
    // Some dynamic linkers put the addresses in as loaded, some leave them as linked; the vdso's are linked.
    let loaded = |address: u64| if address < module.bias { address + module.bias } else { address };
    // SAFETY: as the caller promises.
    unsafe {
        let symbols = loaded(entry(module.dynamic, DT_SYMTAB)?) as *const Symbol;
        let strings = loaded(entry(module.dynamic, DT_STRTAB)?);
        let matches = |n: u32| {
            let symbol = &*symbols.add(n as usize);
            let is_function = symbol.info & 15 == 2 && symbol.section != 0 && symbol.value != 0;
            let same = || CStr::from_ptr((strings + u64::from(symbol.name)) as *const _) == name;
            (is_function && same()).then(|| module.bias.wrapping_add(symbol.value))
        };
        if let Some(table) = entry(module.dynamic, DT_GNU_HASH) {
            find_by_gnu_hash(loaded(table) as *const u32, name, matches)
        } else {
            let table = loaded(entry(module.dynamic, DT_HASH)?) as *const u32;
            (0..*table.add(1)).find_map(matches)
        }
    }
}

unsafe fn find_by_gnu_hash(
    table: *const u32,
    name: &CStr,
    matches: impl Fn(u32) -> Option<u64>,
) -> Option<u64> {
    let hash = name
        .to_bytes()
        .iter()
        .fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
    // SAFETY: buckets, first symbol, words of the filter, shift; filter, buckets, chains.
    unsafe {
        let (bucket_count, first, filter) = (*table, *table.add(1), *table.add(2));
        if bucket_count == 0 {
            return None;
        }
        let buckets = table.add(4 + 2 * filter as usize);
        let chains = buckets.add(bucket_count as usize);
        let mut n = *buckets.add((hash % bucket_count) as usize);
        if n < first {
            return None;
        }
        loop {
            let chain = *chains.add((n - first) as usize);
            if (chain ^ hash) >> 1 == 0
                && let Some(found) = matches(n)
            {
                return Some(found);
            }
            if chain & 1 != 0 {
                return None;
            }
            n += 1;
        }
    }
}
