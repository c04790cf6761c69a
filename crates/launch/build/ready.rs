//! The engine in memory, where it will be in every process, after it has done what is the same in all of them.

use object::LittleEndian;
use object::elf::{PT_LOAD, R_X86_64_RELATIVE, SHT_RELA};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader};
use relive_abi::engine::{HOME, PREPARE_ENTRY};
use relive_abi::page_up;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// How much there may be of it.
const ROOM: usize = 8 << 20;

/// Room for the stack on which it does that, behind it.
const STACK: usize = 1 << 20;

/// Writes its memory, `engine.memory`, and source with what has to be known of that, `engine.rs`.
pub(crate) fn write(file: &[u8], folder: &Path) {
    let elf = ElfFile64::<LittleEndian>::parse(file).unwrap_or_else(|error| fail(&error));
    let entry = elf.elf_header().e_entry(LittleEndian);
    let mut memory = Memory::new();
    let len = load(&elf, file, memory.bytes());
    let used = memory.prepare(entry, page_up(len));
    let bytes = &memory.bytes()[..page_up(used) as usize];
    let source = format!(
        "/// Where the engine is entered, from its beginning.\npub(crate) const ENTRY: u64 = {entry};\n\
         static MEMORY: Pages<{}> = Pages(*include_bytes!(\"engine.memory\"));\n",
        bytes.len()
    );
    for (name, bytes) in [("engine.memory", bytes), ("engine.rs", source.as_bytes())] {
        fs::write(folder.join(name), bytes).unwrap_or_else(|error| fail(&error));
    }
}

/// Copies the engine to where it goes, for [`HOME`]. Its length.
fn load(elf: &ElfFile64<'_, LittleEndian>, file: &[u8], bytes: &mut [u8]) -> u64 {
    let endian = LittleEndian;
    let mut end = 0;
    for segment in elf.elf_program_headers().iter().filter(|s| s.p_type(endian) == PT_LOAD) {
        let at = segment.p_vaddr(endian);
        let data = segment.data(endian, file).unwrap_or_else(|()| fail(&"a segment without data"));
        bytes[at as usize..][..data.len()].copy_from_slice(data);
        end = end.max(at + segment.p_memsz(endian));
    }
    for section in elf.elf_section_table().iter().filter(|s| s.sh_type(endian) == SHT_RELA) {
        let Ok(Some((entries, _))) = section.rela(endian, file) else { continue };
        for entry in entries {
            assert_eq!(entry.r_type(endian, false), R_X86_64_RELATIVE, "the engine needs nothing else");
            let to = HOME + entry.r_addend(endian) as u64;
            bytes[entry.r_offset(endian) as usize..][..8].copy_from_slice(&to.to_le_bytes());
        }
    }
    end
}

/// Memory at [`HOME`].
struct Memory(*mut u8);

impl Memory {
    fn new() -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let at = unsafe { libc::mmap(HOME as *mut _, ROOM + STACK, rights, flags, -1, 0) };
        assert_eq!(at as u64, HOME, "{}", std::io::Error::last_os_error());
        Self(at.cast())
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped as long as this process lives, and borrowed with it.
        unsafe { std::slice::from_raw_parts_mut(self.0, ROOM) }
    }

    /// Lets the engine do what is the same in all processes. How much there is then.
    fn prepare(&mut self, entry: u64, len: u64) -> u64 {
        let at = (HOME + entry + PREPARE_ENTRY) as usize;
        // SAFETY: the engine is where it expects to be, and calls neither a library nor the kernel. Behind its room is a stack.
        let used = unsafe { call_apart(at, [HOME + len, HOME + ROOM as u64], HOME + (ROOM + STACK) as u64) };
        assert!((HOME + len..HOME + ROOM as u64).contains(&used), "there is room for what it prepares");
        used - HOME
    }
}

/// Calls a function on an empty stack that ends at a place, with nothing in registers: what is between the fields of what it writes comes from
/// there, and would be different in each build.
///
/// # Safety
///
/// As the function says; nobody else uses the stack.
unsafe fn call_apart(function: usize, [first, second]: [u64; 2], stack: u64) -> u64 {
    let result;
    // SAFETY: what the function may change is told, or put on the stack before and taken back.
    unsafe {
        std::arch::asm!(
            "mov [r12 - 8], rsp",
            "lea rsp, [r12 - 8]",
            "push rbx",
            "push rbp",
            "push rbp",
            "xor ebx, ebx",
            "xor ebp, ebp",
            "xor ecx, ecx",
            "xor edx, edx",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "xor r10d, r10d",
            "xor r11d, r11d",
            "xor r12d, r12d",
            "xor r13d, r13d",
            "xor r14d, r14d",
            "xor r15d, r15d",
            ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            "pxor xmm\\number, xmm\\number",
            ".endr",
            "call rax",
            "pop rbp",
            "pop rbp",
            "pop rbx",
            "pop rsp",
            inlateout("rax") function => result,
            in("rdi") first,
            in("rsi") second,
            inout("r12") stack => _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("C"),
        );
    }
    result
}

fn fail(why: &dyn Display) -> ! {
    panic!("the engine cannot be made ready: {why}")
}
