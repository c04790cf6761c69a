//! Source lines and inlined calls, from DWARF.
//!
//! Everything is read when it is first asked for: to begin with only which file holds the debug
//! information is known; the first question unpacks the sections and finds out which unit covers
//! what; a unit's line table and its tree of inlined calls are read when an address in it comes up.
//! Questions may come from several threads.
//!
//! Why this is not the `addr2line` crate, which does the same: it reads inlined calls recursively,
//! so that a damaged file can exhaust the stack; it cannot be shared between threads; one damaged
//! unit costs it all others; and it looks addresses up among functions that the linker discarded and
//! left at address zero.
//!
//! | read | not read |
//! |---|---|
//! | DWARF 2 to 5, 32- and 64-bit | |
//! | compressed sections: zlib, zstd, `.zdebug_…` | |
//! | supplements of `dwz` (`.gnu_debugaltlink`) | those of DWARF 5 (`.debug_sup`) |
//! | the skeletons of split DWARF, so all lines | `.dwo` and `.dwp` files, so no names and inlined calls |

mod atomics;
mod calls;
mod complaints;
mod extent;
mod reading;
mod sections;
mod table;
mod units;

pub(crate) use sections::{Supplement, has_dwarf};

use crate::elf::Elf;
use crate::error::Complaint;
use crate::loader::Loaded;
use complaints::Complaints;
use core::fmt;
use extent::Text;
use reading::Reading;
use relive_code::addr::{AddrRange, LinkAddr};
use sections::Sections;
use std::sync::OnceLock;
use table::LineTable;
use units::{Unit, Units};

/// What a function is called that the debug information does not name.
const UNKNOWN_FUNCTION: &str = "?";

/// A place in the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location<'l> {
    /// The path as the compiler knew it; `?` if the table does not hold it.
    pub file: &'l str,
    /// The line; zero where the compiler says that the code comes from no line in particular.
    pub line: u32,
    /// The column; zero where it is not known.
    pub column: u32,
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        Ok(())
    }
}

/// A function around an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame<'l> {
    /// Its name, demangled; `?` if the debug information does not name it.
    pub function: String,
    /// For the innermost function the line of the address, for each other one the line of the call
    /// that was inlined into it.
    pub location: Option<Location<'l>>,
}

/// A function around an address, as compilers want to be told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level<'l> {
    /// Its name, as the linker knows it; `?` if the debug information does not name it.
    pub linkage: &'l str,
    /// The line it is declared in; zero if that is not known.
    pub declared: u32,
    /// For the innermost function the line of the address, for each other one the line of the call that was
    /// inlined into it; zero if there is none.
    pub line: u32,
    /// What tells code of that line apart; zero if nothing does.
    pub discriminator: u32,
}

/// The source lines of one file.
pub struct Lines<'d> {
    /// The file that holds the debug information: the program or its separate debug file.
    holder: Option<Elf<'d>>,
    supplement: Option<Supplement<'d>>,
    in_debug_file: bool,
    text: Text,
    /// Of the holder and the supplement.
    sections: OnceLock<(Sections<'d>, Option<Sections<'d>>)>,
    units: OnceLock<Units>,
    complaints: Complaints,
}

impl<'d> Lines<'d> {
    /// The source lines of a file and the debug file that came with it.
    #[must_use]
    pub fn new(loaded: &'d Loaded) -> Self {
        Self::from_bytes(&loaded.bytes, loaded.debug_bytes(), loaded.supplement_bytes())
    }

    /// The same from the bytes of the program, of its debug file and of the debug file's supplement.
    /// Without debug information there are no lines; that is no fault.
    #[must_use]
    pub fn from_bytes(program: &'d [u8], debug: Option<&'d [u8]>, supplement: Option<&'d [u8]>) -> Self {
        let complaints = Complaints::default();
        let program = Elf::parse(program).map_err(|why| complaints.add("program", why)).ok();
        let parse_debug =
            |bytes| Elf::parse_debug(bytes).map_err(|why| complaints.add("debug file", why)).ok();
        let parse_supplement =
            |bytes| Supplement::parse(bytes).map_err(|why| complaints.add("supplement", why)).ok();
        let text = Text::new(program.as_ref().map_or(&[], |elf| &elf.text));
        let own = program.filter(has_dwarf);
        let in_debug_file = own.is_none();
        let holder = own.or_else(|| debug.and_then(parse_debug).filter(has_dwarf));
        let supplement = supplement.and_then(parse_supplement);
        let (sections, units) = (OnceLock::new(), OnceLock::new());
        Self { holder, supplement, in_debug_file, text, sections, units, complaints }
    }

    /// The line that the instruction at `at` comes from.
    #[must_use]
    pub fn at(&self, at: LinkAddr) -> Option<Location<'_>> {
        self.units().holding(at).find_map(|unit| self.table(unit)?.at(at))
    }

    /// The functions around `at`: the innermost inlined one first, the function that the code is
    /// part of last.
    #[must_use]
    pub fn inlined_at(&self, at: LinkAddr) -> Vec<Frame<'_>> {
        let mut location = self.at(at);
        let mut frames = Vec::new();
        for unit in self.units().holding(at) {
            for level in self.units().calls(unit, || self.reading()).at(at) {
                let function = level.name().unwrap_or(UNKNOWN_FUNCTION).to_string();
                frames.push(Frame { function, location });
                location = level.call.map(|call| Location {
                    file: call.file.and_then(|file| Some(self.table(unit)?.file(file))).unwrap_or("?"),
                    line: call.line,
                    column: call.column,
                });
            }
            if !frames.is_empty() {
                return frames;
            }
        }
        if location.is_some() {
            frames.push(Frame { function: UNKNOWN_FUNCTION.to_string(), location });
        }
        frames
    }

    /// The functions around `at`, with names and lines as compilers want to be told of them: the innermost inlined one
    /// first, the function that the code is part of last. None if the debug information does not tell.
    #[must_use]
    pub fn levels_at(&self, at: LinkAddr) -> Vec<Level<'_>> {
        for unit in self.units().holding(at) {
            let Some(table) = self.table(unit) else { continue };
            let Some(location) = table.at(at) else { continue };
            let (mut line, mut discriminator) = (location.line, table.discriminator(at));
            let mut levels = Vec::new();
            for level in self.units().calls(unit, || self.reading()).at(at) {
                let (linkage, declared) = level.linkage().unwrap_or((UNKNOWN_FUNCTION, 0));
                levels.push(Level { linkage, declared, line, discriminator });
                (line, discriminator) = level.call.map_or((0, 0), |call| (call.line, call.discriminator));
            }
            if !levels.is_empty() {
                return levels;
            }
        }
        Vec::new()
    }

    /// The lines of all code in `range`, by address. Neighbours differ; code without a line is left
    /// out.
    pub fn within(&self, range: AddrRange) -> impl Iterator<Item = (AddrRange, Location<'_>)> {
        let mut borders = vec![range.start, range.end];
        for (unit, covered) in self.units().overlapping(range) {
            let part = AddrRange::new(covered.start.max(range.start), covered.end.min(range.end));
            borders.extend([part.start, part.end]);
            borders.extend(self.table(unit).into_iter().flat_map(|table| table.borders(part)));
        }
        borders.sort_unstable();
        borders.dedup();
        let mut found: Vec<(AddrRange, Location<'_>)> = Vec::with_capacity(borders.len());
        for (start, end) in borders.iter().zip(borders.iter().skip(1)) {
            let Some(location) = self.at(*start) else { continue };
            match found.last_mut() {
                Some((before, last)) if before.end == *start && *last == location => before.end = *end,
                _ => found.push((AddrRange::new(*start, *end), location)),
            }
        }
        found.into_iter()
    }

    /// The variables, and parts of variables, that the source says are atomic, as far as they have an address of their own.
    #[must_use]
    pub fn atomics(&self) -> Vec<AddrRange> {
        if self.holder.is_none() {
            return Vec::new();
        }
        atomics::read(&self.reading()).unwrap_or_else(|why| {
            self.complaints.add(".debug_info", why);
            Vec::new()
        })
    }

    /// How many compilation units with code there are.
    #[must_use]
    pub fn unit_count(&self) -> usize {
        self.units().len()
    }

    /// Whether the debug information is in a separate file.
    #[must_use]
    pub fn are_in_debug_file(&self) -> bool {
        self.in_debug_file && self.holder.is_some()
    }

    /// What could not be read so far.
    #[must_use]
    pub fn complaints(&self) -> Vec<Complaint> {
        self.complaints.all()
    }

    fn units(&self) -> &Units {
        self.units.get_or_init(|| match self.holder {
            Some(_) => Units::read(self.reading()),
            None => Units::default(),
        })
    }

    fn table(&self, unit: &Unit) -> Option<&LineTable> {
        self.units().lines(unit, || self.reading())
    }

    fn reading(&self) -> Reading<'_> {
        let (sections, supplement) = self.sections.get_or_init(|| {
            let load = |elf| Sections::load(elf, &self.complaints);
            let load_supplement = |file| Sections::load_supplement(file, &self.complaints);
            (
                self.holder.as_ref().map_or_else(Sections::default, load),
                self.supplement.as_ref().map(load_supplement),
            )
        });
        Reading::new(sections, supplement.as_ref(), &self.text, &self.complaints)
    }
}

impl fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("complaints", &self.complaints()).finish_non_exhaustive()
    }
}
