//! Object files of plain and of annotated text, side by side.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{Rela as _, SectionHeader as _, Sym as _};
use relive_annotate::facts::{Place, SECTION, Table};
use relive_annotate::object_file::ObjectFile;
use std::path::Path;
use std::process::Command;

/// The same source twice.
pub(crate) struct Pair {
    pub(crate) what: String,
    pub(crate) plain: Vec<u8>,
    pub(crate) annotated: Vec<u8>,
}

/// Compiles `source` as it is, and with annotated text.
pub(crate) fn pair(compiler: &str, args: &[&str], name: &str, source: &str) -> Pair {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join(name), source).expect("a writable directory");
    run(compiler, &[args, &["-c", name, "-o", "plain.o"]].concat(), dir.path());
    run(compiler, &[args, &["-dA", "-S", name, "-o", "text.s"]].concat(), dir.path());
    finish(compiler, args, "text.s", dir.path())
}

/// Assembles `text` as it is, and annotated.
pub(crate) fn pair_of_text(compiler: &str, args: &[&str], name: &str, text: &str) -> Pair {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(dir.path().join(name), text).expect("a writable directory");
    run(compiler, &[args, &["-c", name, "-o", "plain.o"]].concat(), dir.path());
    finish(compiler, args, name, dir.path())
}

fn finish(compiler: &str, args: &[&str], text: &str, dir: &Path) -> Pair {
    let old = std::fs::read(dir.join(text)).expect("the text");
    let new = relive_annotate::text::annotate(&old, text).expect("something to say");
    std::fs::write(dir.join("annotated.s"), new).expect("a writable directory");
    run(compiler, &[args, &["-c", "annotated.s", "-o", "annotated.o"]].concat(), dir);
    let read = |name| std::fs::read(dir.join(name)).expect("an object file");
    Pair {
        what: format!("{compiler} {args:?} {text}"),
        plain: read("plain.o"),
        annotated: read("annotated.o"),
    }
}

fn run(program: &str, args: &[&str], dir: &Path) {
    let output = Command::new(program).args(args).current_dir(dir).output().expect("a compiler");
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The two differ by nothing but the section of facts, and by symbols of sections, which relocations need.
pub(crate) fn compare(pair: &Pair) {
    let plain = ObjectFile::parse(&pair.plain).expect("an object file");
    let annotated = ObjectFile::parse(&pair.annotated).expect("an object file");
    for (one, other) in [(sections(&plain), sections(&annotated)), (symbols(&plain), symbols(&annotated))] {
        assert_eq!(one.len(), other.len(), "{}: {:?}", pair.what, other);
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(one, other, "{}", pair.what);
        }
    }
}

/// Names, flags and contents of sections, relocations by what they refer to.
fn sections(object: &ObjectFile<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for section in &object.sections {
        let name = String::from_utf8_lossy(&section.name);
        let contents = match section.kind() {
            // Made of names and indices, which are compared where they are used.
            elf::SHT_SYMTAB | elf::SHT_STRTAB | elf::SHT_GROUP => continue,
            elf::SHT_RELA => {
                format!("{:?}", relocations(object, section.relocations().expect("relocations")))
            }
            _ => format!("{:x?}", section.data),
        };
        if !name.ends_with(SECTION) {
            let header = (section.header.sh_flags(LE), section.header.sh_addralign(LE), section.len());
            all.push(if section.kind() == elf::SHT_RELA {
                format!("{name} {contents}")
            } else {
                format!("{name} {header:?} {contents}")
            });
        }
    }
    all
}

fn relocations(
    object: &ObjectFile<'_>,
    relocations: &[elf::Rela64<LE>],
) -> Vec<(u64, elf::RelocationType, String, i64)> {
    let symbols = object.symbols().expect("symbols");
    let mut all = Vec::new();
    for relocation in relocations {
        let index = relocation.r_sym(LE, false) as usize;
        let symbol = describe(object, index, &symbols[index]);
        all.push((relocation.r_offset(LE), relocation.r_type(LE, false), symbol, relocation.r_addend(LE)));
    }
    all
}

fn symbols(object: &ObjectFile<'_>) -> Vec<String> {
    let symbols = object.symbols().expect("symbols").iter().enumerate();
    let symbols = symbols.filter(|(_, symbol)| symbol.st_type() != elf::STT_SECTION);
    symbols.map(|(index, symbol)| describe(object, index, symbol)).collect()
}

fn describe(object: &ObjectFile<'_>, index: usize, symbol: &elf::Sym64<LE>) -> String {
    let name = String::from_utf8_lossy(object.symbol_name(symbol));
    let section = object.section_of(index, symbol).map(|index| &object.sections[index].name);
    let section = section.map(|name| String::from_utf8_lossy(name));
    let kind = (symbol.st_info, symbol.st_other);
    format!("{name} {section:?} {} {} {kind:?}", symbol.st_value(LE), symbol.st_size(LE))
}

/// Where the entries of a table lead, by its relocations.
pub(crate) fn entries(object: &ObjectFile<'_>, table: &Table) -> Vec<Place> {
    let is_it = |header: &elf::SectionHeader64<LE>| {
        header.sh_type(LE) == elf::SHT_RELA && header.sh_info(LE) == table.at.section
    };
    let all = object.sections.iter().find(|section| is_it(&section.header)).expect("relocations of a table");
    let end = table.at.offset + u64::from(table.count) * u64::from(table.entry_size);
    let symbols = object.symbols().expect("symbols");
    let mut entries = Vec::new();
    for relocation in all.relocations().expect("relocations") {
        let at = relocation.r_offset(LE);
        if (table.at.offset..end).contains(&at) {
            let index = relocation.r_sym(LE, false) as usize;
            let section = object.section_of(index, &symbols[index]).expect("an entry that leads to code");
            let target = symbols[index].st_value(LE).wrapping_add_signed(relocation.r_addend(LE));
            // The assembler made it relative to the entry.
            let offset = if table.is_relative { target - (at - table.at.offset) } else { target };
            entries.push(Place { section: section as u32, offset });
        }
    }
    entries
}

/// Behind the calls of these functions.
pub(crate) fn behind_calls(object: &ObjectFile<'_>, names: &[&str]) -> Vec<Place> {
    let symbols = object.symbols().expect("symbols");
    let mut behind = Vec::new();
    for section in object.sections.iter().filter(|section| section.kind() == elf::SHT_RELA) {
        let place = section.header.sh_info(LE);
        if !object.sections[place as usize].is_code() {
            continue;
        }
        for relocation in section.relocations().expect("relocations") {
            let symbol = &symbols[relocation.r_sym(LE, false) as usize];
            if names.iter().any(|name| name.as_bytes() == object.symbol_name(symbol)) {
                // The field is the last of the instruction.
                behind.push(Place { section: place, offset: relocation.r_offset(LE) + 4 });
            }
        }
    }
    behind.sort_unstable();
    behind
}
