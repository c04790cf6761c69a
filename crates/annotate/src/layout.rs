//! Has linkers put the runtime where it moves nothing: code is the same with it and without.
//!
//! What it is made of lies behind everything else. Its program headers and its note lie in front: the note fills
//! up what the headers take to a page, so that all code and data behind moves by the same distance, and alignments
//! stay what they were. A program that is linked for a fixed address begins a page earlier instead.

use object::LittleEndian as LE;
use object::ReadCache;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Which linker it is, as far as that makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linker {
    /// GNU ld; whoever has no name of its own is taken for it.
    Gnu,
    Gold,
    Lld,
    Mold,
}

impl Linker {
    /// By the name of the file that it is: `ld` is another name of one of them.
    fn of(path: &Path) -> Self {
        let file = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = [("gold", Self::Gold), ("lld", Self::Lld), ("mold", Self::Mold)];
        known.into_iter().find(|(word, _)| name.contains(word)).map_or(Self::Gnu, |(_, linker)| linker)
    }
}

/// The length of a program header.
const PROGRAM_HEADER: u64 = 56;

/// How many program headers there are more, as a rule: one for code, one for data.
const HEADERS: u64 = 2;

/// How large pages are unless somebody says otherwise, and how large they may be for a note to fill one.
const PAGE: u64 = 0x1000;
const LARGEST_PAGE: u64 = 0x10000;

/// Puts the runtime behind everything else.
const BEHIND: &str = "SECTIONS { .lrodata.relive : { *(.lrodata.relive) } .ldata.relive : { *(.ldata.relive) } .lbss.relive : { *(.lbss.relive) } } INSERT AFTER .bss;\n";

/// What says where things come to lie; whoever says so has reasons that are not known here.
const PLACES: [&str; 13] = [
    "-T",
    "-dT",
    "--script",
    "--default-script",
    "-Ttext",
    "-Ttext-segment",
    "--image-base",
    "--section-start",
    "-N",
    "-n",
    "--omagic",
    "--nmagic",
    "--no-rosegment",
];

/// How to link the runtime.
pub(crate) struct Layout {
    linker: Linker,
    /// The program headers that are expected, unless everything lies where somebody else wants it.
    headers: Option<u64>,
    page: u64,
    /// Whether it is a program for a fixed address.
    is_fixed: bool,
}

impl Layout {
    /// What `linker` makes of these arguments.
    pub(crate) fn of(linker: &Path, args: &[OsString]) -> Self {
        let (mut page, mut is_fixed, mut is_usual) = (PAGE, true, true);
        for (index, arg) in args.iter().enumerate() {
            let text = arg.to_string_lossy();
            let name = text.split_once('=').map_or(&*text, |(name, _)| name);
            match name {
                "-pie" | "--pie" | "-pic-executable" | "--pic-executable" | "-shared" | "--shared"
                | "-Bshareable" => is_fixed = false,
                "-no-pie" | "--no-pie" => is_fixed = true,
                "max-page-size" if index > 0 && args[index - 1] == "-z" => page = size(&text),
                "-zmax-page-size" => page = size(&text),
                // `-Tscript`, but not `-Tdata=…`.
                _ if PLACES.contains(&name) => is_usual = false,
                _ if text.starts_with("-T") && !text.starts_with("-Tdata") && !text.starts_with("-Tbss") => {
                    is_usual = false;
                }
                _ => {}
            }
        }
        let linker = Linker::of(linker);
        let fits = page.is_power_of_two() && (PAGE..=LARGEST_PAGE).contains(&page);
        let headers = (is_usual && fits && matches!(linker, Linker::Gnu | Linker::Lld)).then_some(HEADERS);
        Self { linker, headers, page, is_fixed }
    }

    /// How long the note has to be.
    pub(crate) fn note(&self) -> u64 {
        self.headers.map_or(0, |headers| self.page.saturating_sub(headers * PROGRAM_HEADER))
    }

    /// What the linker has to be told; files for it go to `dir`.
    pub(crate) fn args(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        let mut args = Vec::new();
        if self.headers.is_none() {
            return Ok(args);
        }
        let (option, base) = match self.linker {
            Linker::Lld => ("--image-base", 0x20_0000),
            _ => ("-Ttext-segment", 0x40_0000),
        };
        if self.is_fixed {
            args.push(format!("{option}={:#x}", base - self.page).into());
        }
        if self.linker == Linker::Lld {
            let script = dir.join("relive-runtime.ld");
            std::fs::write(&script, BEHIND)?;
            args.push(script.into());
        }
        Ok(args)
    }

    /// Whether there are another number of program headers than expected, or something is to lie at the start of more than a
    /// page; expects that from then on. A note among no others has a header, too.
    pub(crate) fn is_mistaken(&mut self, output: &Path) -> bool {
        let (Some(expected), Some(found)) = (self.headers, Linked::read(output)) else { return false };
        let before = (self.headers, self.page);
        if found.added_headers != expected {
            // GNU ld has no place for a note among no others but behind constants: it had better be short.
            self.headers = Some(found.added_headers).filter(|_| self.linker != Linker::Gnu);
        }
        // What goes by a larger alignment would have to move by that.
        if found.alignment.is_power_of_two() && (self.page..=LARGEST_PAGE).contains(&found.alignment) {
            self.page = found.alignment;
        }
        before != (self.headers, self.page)
    }
}

/// The size in `max-page-size=0x1000`; 0 if it is none.
fn size(text: &str) -> u64 {
    let value = text.split_once('=').map_or("", |(_, value)| value);
    match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => value.parse(),
    }
    .unwrap_or(0)
}

/// What became of a link.
struct Linked {
    /// How many program headers there are for nothing but the runtime.
    added_headers: u64,
    /// The largest alignment of what else there is.
    alignment: u64,
}

impl Linked {
    fn read(path: &Path) -> Option<Self> {
        let file = ReadCache::new(File::open(path).ok()?);
        let header = FileHeader64::<LE>::parse(&file).ok()?;
        let table = header.sections(LE, &file).ok()?;
        let mut sections: Vec<(Range<u64>, bool)> = Vec::new();
        let mut alignment = 1;
        for section in table.iter() {
            let flags = section.sh_flags(LE).0;
            // Thread-local zeros take no addresses.
            let is_nowhere = flags & elf::SHF_TLS.0 != 0 && section.sh_type(LE) == elf::SHT_NOBITS;
            if flags & elf::SHF_ALLOC.0 == 0 || is_nowhere || section.sh_size(LE) == 0 {
                continue;
            }
            let name = table.section_name(LE, section).ok()?;
            let is_ours = [&b".lrodata"[..], b".ldata", b".lbss", b".note.relive"]
                .iter()
                .any(|own| name.starts_with(own));
            if !is_ours {
                alignment = alignment.max(section.sh_addralign(LE));
            }
            let start = section.sh_addr(LE);
            sections.push((start..start.saturating_add(section.sh_size(LE)), is_ours));
        }
        let mut added_headers = 0;
        for segment in header.program_headers(LE, &file).ok()? {
            if !matches!(segment.p_type(LE), elf::PT_LOAD | elf::PT_NOTE) {
                continue;
            }
            let (start, len) = (segment.p_vaddr(LE), segment.p_memsz(LE));
            let inside = || {
                sections
                    .iter()
                    .filter(|(range, _)| start <= range.start && range.end <= start.saturating_add(len))
            };
            added_headers += u64::from(inside().next().is_some() && inside().all(|&(_, is_ours)| is_ours));
        }
        Some(Self { added_headers, alignment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(linker: &str, args: &str) -> Layout {
        Layout::of(Path::new(linker), &args.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn fixed_programs_begin_a_page_earlier() {
        let dir = tempfile::tempdir().unwrap();
        let args = |linker: &str, args: &str| {
            let args = layout(linker, args).args(dir.path()).unwrap();
            args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(args("/x/ld.bfd", "-o a a.o"), ["-Ttext-segment=0x3ff000"]);
        assert_eq!(args("/x/ld.lld", "-o a a.o")[0], "--image-base=0x1ff000");
        assert_eq!(args("/x/ld.lld", "-pie -o a a.o").len(), 1);
        for movable in ["-pie a.o", "-shared a.o", "--pie a.o"] {
            assert!(args("/x/ld", movable).is_empty(), "{movable}");
        }
        assert_eq!(args("/x/ld", "-pie -z now -no-pie a.o").len(), 1);
    }

    #[test]
    fn who_says_where_things_lie_has_them_there() {
        for own in
            ["-T own.ld", "-Town.ld", "-Ttext=0x1000", "-Ttext-segment=0x10000", "--image-base 0x1", "-N"]
        {
            assert_eq!(layout("/x/ld", own).note(), 0, "{own}");
        }
        assert_eq!((layout("/x/mold", "a.o").note(), layout("/x/ld.gold", "a.o").note()), (0, 0));
        assert_eq!(layout("/x/ld", "-Tdata=0x800000 a.o").note(), 0x1000 - 112);
    }

    #[test]
    fn a_page_is_as_large_as_it_is_said_to_be() {
        assert_eq!(layout("/x/ld", "-z max-page-size=0x4000 a.o").note(), 0x4000 - 112);
        assert_eq!(layout("/x/ld", "-zmax-page-size=65536 a.o").note(), 0x10000 - 112);
        for odd in ["0x200000", "12345", "many"] {
            assert_eq!(layout("/x/ld", &format!("-z max-page-size={odd}")).note(), 0, "{odd}");
        }
    }
}
