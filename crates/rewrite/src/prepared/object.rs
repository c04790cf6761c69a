//! Writes the object that is linked into prepared binaries.

use super::parts::{Parts, Piece};
use object::elf::{
    self, R_X86_64_NONE, R_X86_64_PC32, R_X86_64_PC64, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS,
    SHT_NOTE, SHT_PROGBITS,
};
use object::read::elf::ElfFile64;
use object::write::{Object, Relocation, SectionId, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, LittleEndian, Object as _, ObjectSymbol as _, RelocationFlags,
    SectionFlags, SectionKind, SymbolFlags, SymbolScope,
};
use relive_code::addr::LinkAddr;
use relive_image::prepared::{HEADER, WORDS, header};

/// What debuggers are told of.
const SYMBOLS: [&str; 5] =
    ["relive_start", "relive_init", "relive_enter", "relive_call", "relive_parameters"];

/// The code keeps the promises that processors can check (`GNU_PROPERTY_X86_FEATURE_1_AND`: IBT, SHSTK). One
/// object that says nothing would take them from the whole program.
const PROMISES: [u8; 32] = *b"\x04\0\0\0\x10\0\0\0\x05\0\0\0GNU\0\x02\0\0\xc0\x04\0\0\0\x03\0\0\0\0\0\0\0";

/// An object for x86-64 linkers that holds `runtime` (`relive_runtime::IMAGE`). Link it into whatever is to be
/// prepared, once; not into what is linked again (`-r`), nor into what is no program or library of a Linux process.
///
/// Its note has `note` bytes, or as many as it needs: linkers put notes behind the program headers, and so before all
/// that code refers to. What comes behind can be moved by a whole page with it.
///
/// # Errors
/// If the runtime is not what it should be; it is part of this program, so that does not happen.
pub fn object_file(runtime: &[u8], note: u64) -> Result<Vec<u8>, String> {
    let parts = Parts::of(runtime)?;
    let zeros = note.saturating_sub((HEADER + WORDS) as u64).next_multiple_of(4) as u32;
    let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let mut section = |name: &str, kind, sh_type, flags: u64| {
        let id = file.add_section(Vec::new(), name.into(), kind);
        let sh_flags = elf::SectionFlags(flags);
        file.section_mut(id).flags = SectionFlags::Elf { sh_type, sh_flags };
        id
    };
    let (alloc, write) = (SHF_ALLOC.0, SHF_ALLOC.0 | SHF_WRITE.0);
    let code = section(".lrodata.relive", SectionKind::Text, SHT_PROGBITS, alloc | SHF_EXECINSTR.0);
    let data = section(".ldata.relive", SectionKind::Data, SHT_PROGBITS, write);
    let zero = section(".lbss.relive", SectionKind::UninitializedData, SHT_NOBITS, write);
    let anchor = section(".bss.relive", SectionKind::UninitializedData, SHT_NOBITS, write);
    let note = section(".note.relive", SectionKind::Note, SHT_NOTE, SHF_ALLOC.0);
    let promises = section(".note.gnu.property", SectionKind::Note, SHT_NOTE, SHF_ALLOC.0);
    // Nothing in here needs an executable stack.
    section(".note.GNU-stack", SectionKind::Other, SHT_PROGBITS, 0);
    let id = |piece| match piece {
        Piece::Code => code,
        Piece::Data => data,
        Piece::Zero => zero,
    };
    file.append_section_data(code, &parts.code, parts.align(Piece::Code));
    file.append_section_data(data, &parts.data, parts.align(Piece::Data));
    file.append_section_bss(zero, parts.zeros, parts.align(Piece::Zero));
    file.append_section_data(promises, &PROMISES, 8);
    file.append_section_data(note, &header(zeros), 4);
    refer(&mut file, (note, 0), anchor, 0, R_X86_64_NONE)?;
    for piece in [Piece::Code, Piece::Data] {
        let at = file.append_section_data(note, &[0; 8], 4);
        refer(&mut file, (note, at), id(piece), 0, R_X86_64_PC64)?;
        file.append_section_data(note, &parts.len(piece).to_le_bytes(), 4);
    }
    file.append_section_data(note, &vec![0; zeros as usize], 4);
    for r in &parts.references {
        refer(&mut file, (id(r.from), r.at), id(r.to), r.addend, R_X86_64_PC32)?;
    }
    let names = ElfFile64::<LittleEndian>::parse(runtime).map_err(|e| e.to_string())?;
    for name in SYMBOLS {
        let symbol = names.symbol_by_name(name).ok_or_else(|| format!("no {name}"))?;
        let place = parts.place(LinkAddr(symbol.address()));
        let (piece, value) = place.ok_or_else(|| format!("{name} is nowhere"))?;
        file.add_symbol(Symbol {
            name: name.into(),
            value,
            size: symbol.size(),
            kind: symbol.kind(),
            scope: SymbolScope::Compilation,
            weak: false,
            section: SymbolSection::Section(id(piece)),
            flags: SymbolFlags::None,
        });
    }
    file.write().map_err(|e| e.to_string())
}

/// Has the linker put a distance somewhere.
fn refer(
    file: &mut Object<'_>,
    (section, offset): (SectionId, u64),
    to: SectionId,
    addend: i64,
    r_type: elf::RelocationType,
) -> Result<(), String> {
    let symbol = file.section_symbol(to);
    let flags = RelocationFlags::Elf { r_type };
    file.add_relocation(section, Relocation { offset, symbol, addend, flags }).map_err(|e| e.to_string())
}
