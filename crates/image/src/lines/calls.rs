//! The functions of one unit and the calls that were inlined into them.
//!
//! Entries form a tree: a function, the calls inlined into it, the calls inlined into those. Each
//! covers some ranges of addresses, children lie within their parents. The tree is flattened into
//! stretches of code, each with the innermost entry that covers it; from there the way outward is
//! the chain of calls.

use super::extent::{Budget, Extent};
use super::reading::{DwarfUnit, Reading, Slice};
use crate::names::demangle;
use gimli::{Attribute, AttributeValue, DebugInfoOffset, UnitOffset, UnitRef};
use relive_code::addr::{AddrRange, LinkAddr};
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use std::sync::OnceLock;

/// In place of an index: there is none.
const NONE: u32 = u32::MAX;
/// How often an entry may refer to another for its name. Compilers need three: a call refers to a
/// function, that to a definition, that to a declaration.
const MOST_REFERENCES: usize = 16;

/// The functions and inlined calls of one unit.
#[derive(Default)]
pub(super) struct Calls {
    scopes: Vec<Scope>,
    /// Where each stretch begins, and its innermost scope.
    stretches: Vec<(LinkAddr, u32)>,
    names: Vec<Name>,
}

/// The name of a function.
struct Name {
    /// As the linker knows it.
    linkage: Box<str>,
    /// As people write it, once it was asked for.
    shown: OnceLock<Box<str>>,
    /// The line the function is declared in; zero if nobody says so.
    declared: u32,
}

/// A function or an inlined call.
struct Scope {
    name: u32,
    parent: u32,
    call: Call,
}

/// The place of an inlined call; for a function, nothing.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Number of the file in the unit's line table.
    pub(super) file: Option<u32>,
    pub(super) line: u32,
    pub(super) column: u32,
    /// What tells calls of one line apart.
    pub(super) discriminator: u32,
}

/// One level of inlining.
pub(super) struct Level<'c> {
    /// The function's name.
    name: Option<&'c Name>,
    /// Where it was called from; nothing for the outermost.
    pub(super) call: Option<Call>,
}

impl<'c> Level<'c> {
    /// The function's name, demangled.
    pub(super) fn name(&self) -> Option<&'c str> {
        self.name.map(Name::shown)
    }

    /// The function's name as the linker knows it, and the line it is declared in.
    pub(super) fn linkage(&self) -> Option<(&'c str, u32)> {
        self.name.map(|name| (&*name.linkage, name.declared))
    }
}

impl Calls {
    /// Reads the tree of the unit at `header`. What could be read before a fault is kept.
    pub(super) fn read(reading: &Reading<'_>, header: DebugInfoOffset, headers: &[usize]) -> Self {
        let complain = |why: gimli::Error| reading.complaints.add(".debug_info", why);
        let unit = match reading.unit(header) {
            Ok(unit) => unit,
            Err(why) => {
                complain(why);
                return Self::default();
            }
        };
        let mut tree = Tree::new(reading, Rc::new(unit), headers);
        if let Err(why) = tree.read() {
            complain(why);
        }
        if tree.ranges_left.is_spent() || tree.names.left.is_spent() {
            reading.complaints.add(".debug_info", "its entries unfold to more than the file can hold");
        }
        Self { stretches: flatten(tree.ranges), scopes: tree.scopes, names: tree.names.found }
    }

    /// The functions around `at`, the innermost first.
    pub(super) fn at(&self, at: LinkAddr) -> impl Iterator<Item = Level<'_>> {
        let behind = self.stretches.partition_point(|&(start, _)| start <= at);
        let innermost = self.stretches[..behind].last().map_or(NONE, |&(_, scope)| scope);
        let scope = |index: u32| self.scopes.get(index as usize);
        // A parent comes before its children, so the way outward ends.
        std::iter::successors(scope(innermost), move |inner| scope(inner.parent)).map(|found| Level {
            name: self.names.get(found.name as usize),
            call: (found.parent != NONE).then_some(found.call),
        })
    }
}

impl Name {
    fn shown(&self) -> &str {
        self.shown.get_or_init(|| demangle(&self.linkage).into())
    }
}

/// The tree while it is being read.
struct Tree<'r, 'a> {
    reading: &'r Reading<'a>,
    unit: Rc<DwarfUnit<'a>>,
    scopes: Vec<Scope>,
    ranges: Vec<(AddrRange, u32)>,
    ranges_left: Budget,
    names: Names<'r, 'a>,
}

impl<'r, 'a> Tree<'r, 'a> {
    fn new(reading: &'r Reading<'a>, unit: Rc<DwarfUnit<'a>>, headers: &'r [usize]) -> Self {
        Self {
            reading,
            names: Names::new(reading, Rc::clone(&unit), headers),
            unit,
            scopes: Vec::new(),
            ranges: Vec::new(),
            ranges_left: Budget::new(reading.size),
        }
    }

    fn read(&mut self) -> gimli::Result<()> {
        let unit = Rc::clone(&self.unit);
        let mut entries = unit.entries_raw(None)?;
        // The scopes around the current entry, with their depth.
        let mut around: Vec<(isize, u32)> = Vec::new();
        let mut attributes = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while around.last().is_some_and(|&(outer, _)| outer >= depth) {
                around.pop();
            }
            let parent = around.last().map_or(NONE, |&(_, scope)| scope);
            let is_function = abbreviation.tag() == gimli::DW_TAG_subprogram;
            let is_call = abbreviation.tag() == gimli::DW_TAG_inlined_subroutine && parent != NONE;
            // The master copy of an inlined function has no code, nor has a declaration.
            let has_code = abbreviation
                .attributes()
                .iter()
                .any(|a| matches!(a.name(), gimli::DW_AT_low_pc | gimli::DW_AT_ranges));
            if is_call || is_function && has_code {
                entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
                let scope = self.add(&attributes, if is_call { parent } else { NONE });
                around.push((depth, scope));
            } else {
                entries.skip_attributes(abbreviation.attributes())?;
                if is_function {
                    around.push((depth, NONE));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, attributes: &[Attribute<Slice<'a>>], parent: u32) -> u32 {
        let unit = UnitRef::new(&self.reading.dwarf, &self.unit);
        let index = u32::try_from(self.scopes.len()).unwrap_or(NONE);
        let mut extent = Extent::default();
        let mut call = Call { file: None, line: 0, column: 0, discriminator: 0 };
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let mut seen = Ok(());
        for attribute in attributes {
            match (attribute.name(), attribute.value()) {
                // Zero is a file only since DWARF 5.
                (gimli::DW_AT_call_file, AttributeValue::FileIndex(file)) => {
                    call.file = (file > 0 || unit.header.version() >= 5).then_some(small(file));
                }
                (gimli::DW_AT_call_line, _) => call.line = attribute.udata_value().map_or(0, small),
                (gimli::DW_AT_call_column, _) => call.column = attribute.udata_value().map_or(0, small),
                (gimli::DW_AT_GNU_discriminator, _) => {
                    call.discriminator = attribute.udata_value().map_or(0, small);
                }
                _ => seen = seen.and(extent.see(unit, attribute)),
            }
        }
        let found = seen.and_then(|()| {
            extent.ranges(unit, self.reading.text, &mut self.ranges_left, |range| {
                self.ranges.push((range, index))
            })
        });
        if let Err(why) = found {
            self.reading.complaints.add(".debug_info", why);
        }
        self.scopes.push(Scope { name: self.names.of(attributes), parent, call });
        index
    }
}

/// The stretches of code that `ranges` divide the addresses into. Where several cover one, the scope
/// of the highest number counts: children come behind their parents.
fn flatten(mut ranges: Vec<(AddrRange, u32)>) -> Vec<(LinkAddr, u32)> {
    ranges.sort_unstable_by_key(|&(range, _)| range.start);
    let mut next = ranges.into_iter().peekable();
    let mut open: BinaryHeap<(u32, LinkAddr)> = BinaryHeap::new();
    let mut stretches: Vec<(LinkAddr, u32)> = Vec::new();
    let mut at = LinkAddr(0);
    loop {
        while open.peek().is_some_and(|&(_, end)| end <= at) {
            open.pop();
        }
        let innermost = open.peek().copied();
        let scope = innermost.map_or(NONE, |(scope, _)| scope);
        if stretches.last().is_none_or(|&(_, last)| last != scope) {
            match stretches.last_mut() {
                Some(last) if last.0 == at => last.1 = scope,
                _ => stretches.push((at, scope)),
            }
        }
        at = match (innermost, next.peek()) {
            (Some((_, end)), Some((range, _))) => end.min(range.start),
            (Some((_, end)), None) => end,
            (None, Some((range, _))) => range.start,
            (None, None) => return stretches,
        };
        while let Some((range, scope)) = next.next_if(|(range, _)| range.start <= at) {
            open.push((scope, range.end));
        }
    }
}

/// The names of functions, each kept once.
struct Names<'r, 'a> {
    reading: &'r Reading<'a>,
    /// The unit that is being read.
    home: Rc<DwarfUnit<'a>>,
    /// Where the units of the file begin.
    headers: &'r [usize],
    /// Where the units of the supplement begin, once they are needed.
    supplement_headers: Option<Vec<usize>>,
    /// Other units that entries referred to.
    others: HashMap<(File, usize), Option<Rc<DwarfUnit<'a>>>>,
    /// Names by the entry that was referred to.
    known: HashMap<(File, usize), u32>,
    found: Vec<Name>,
    left: Budget,
}

/// Which file an offset is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum File {
    Main,
    Supplement,
}

/// An entry in some unit.
#[derive(Clone)]
struct Place<'a> {
    file: File,
    unit: Rc<DwarfUnit<'a>>,
    at: UnitOffset,
}

impl<'r, 'a> Names<'r, 'a> {
    fn new(reading: &'r Reading<'a>, home: Rc<DwarfUnit<'a>>, headers: &'r [usize]) -> Self {
        Self {
            reading,
            home,
            headers,
            supplement_headers: None,
            others: HashMap::new(),
            known: HashMap::new(),
            found: Vec::new(),
            left: Budget::new(reading.size),
        }
    }

    /// The name of the entry that has these attributes.
    fn of(&mut self, attributes: &[Attribute<Slice<'a>>]) -> u32 {
        let mut seen = Seen::default();
        seen.look(&self.reading.dwarf, &self.home, attributes);
        let elsewhere = seen.elsewhere.filter(|_| seen.linkage.is_none() || seen.declared == 0);
        let target = elsewhere.and_then(|value| self.follow(File::Main, &Rc::clone(&self.home), value));
        let Some(target) = target else { return self.keep(seen.linkage.or(seen.short), seen.declared) };
        if seen.linkage.is_some() {
            // Several functions may be of one declaration: only its line is theirs too.
            let (_, declared) = self.find(target).unwrap_or_default();
            return self.keep(seen.linkage, declared);
        }
        let key = (target.file, target.unit.header.offset().0.wrapping_add(target.at.0));
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let (found, declared) = self.find(target).unwrap_or_default();
        let declared = if seen.declared > 0 { seen.declared } else { declared };
        let name = self.keep(found.or(seen.short), declared);
        self.known.insert(key, name);
        name
    }

    /// The name of the entry at `place`: the linker's name of any entry it refers to, else the first
    /// plain name on the way. And the first line of a declaration on the way: that of the definition, if it has one.
    fn find(&mut self, mut place: Place<'a>) -> Option<(Option<Slice<'a>>, u32)> {
        let (mut linkage, mut short, mut declared) = (None, None, 0);
        let mut attributes = Vec::new();
        for _ in 0..MOST_REFERENCES {
            let mut entries = place.unit.entries_raw(Some(place.at)).ok()?;
            let abbreviation = entries.read_abbreviation().ok()??;
            entries.read_attributes(abbreviation.attributes(), &mut attributes).ok()?;
            let mut seen = Seen::default();
            let dwarf = match place.file {
                File::Main => &self.reading.dwarf,
                File::Supplement => self.reading.dwarf.sup()?,
            };
            seen.look(dwarf, &place.unit, &attributes);
            short = short.or(seen.short);
            declared = if declared > 0 { declared } else { seen.declared };
            linkage = linkage.or(seen.linkage);
            if linkage.is_some() && declared > 0 {
                break;
            }
            let next = seen.elsewhere.and_then(|value| self.follow(place.file, &place.unit, value));
            match next {
                Some(next) => place = next,
                None => break,
            }
        }
        Some((linkage.or(short), declared))
    }

    /// The entry that `value` refers to from a unit of `file`.
    fn follow(
        &mut self,
        file: File,
        from: &Rc<DwarfUnit<'a>>,
        value: AttributeValue<Slice<'a>>,
    ) -> Option<Place<'a>> {
        match value {
            AttributeValue::UnitRef(at) => Some(Place { file, unit: Rc::clone(from), at }),
            AttributeValue::DebugInfoRef(to) => self.place(file, to),
            AttributeValue::DebugInfoRefSup(to) => self.place(File::Supplement, to),
            _ => None,
        }
    }

    fn place(&mut self, file: File, to: DebugInfoOffset) -> Option<Place<'a>> {
        let dwarf = match file {
            File::Main => &self.reading.dwarf,
            File::Supplement => self.reading.dwarf.sup()?,
        };
        let headers = match file {
            File::Main => self.headers,
            File::Supplement => self.supplement_headers.get_or_insert_with(|| {
                let mut units = dwarf.units();
                let headers = std::iter::from_fn(|| units.next().ok()?);
                headers.filter_map(|header| header.debug_info_offset()).map(|at| at.0).collect()
            }),
        };
        let header = headers[..headers.partition_point(|&header| header <= to.0)].last().copied()?;
        let unit = self.others.entry((file, header)).or_insert_with(|| {
            let header = dwarf.unit_header(DebugInfoOffset(header)).ok()?;
            dwarf.unit(header).ok().map(Rc::new)
        });
        let unit = unit.clone()?;
        let at = to.to_unit_offset(&unit.header)?;
        Some(Place { file, unit, at })
    }

    fn keep(&mut self, name: Option<Slice<'a>>, declared: u32) -> u32 {
        match name {
            Some(name) if self.left.spend(name.len()) => {
                let linkage = name.to_string_lossy().into();
                self.found.push(Name { linkage, shown: OnceLock::new(), declared });
                u32::try_from(self.found.len() - 1).unwrap_or(NONE)
            }
            _ => NONE,
        }
    }
}

/// The attributes of an entry that lead to its name.
#[derive(Default)]
struct Seen<'a> {
    linkage: Option<Slice<'a>>,
    short: Option<Slice<'a>>,
    elsewhere: Option<AttributeValue<Slice<'a>>>,
    declared: u32,
}

impl<'a> Seen<'a> {
    fn look(
        &mut self,
        dwarf: &gimli::Dwarf<Slice<'a>>,
        unit: &DwarfUnit<'a>,
        attributes: &[Attribute<Slice<'a>>],
    ) {
        let text = |attribute: &Attribute<Slice<'a>>| dwarf.attr_string(unit, attribute.value()).ok();
        for attribute in attributes {
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => self.linkage = text(attribute),
                gimli::DW_AT_name => self.short = text(attribute),
                gimli::DW_AT_decl_line => {
                    let line = attribute.udata_value().and_then(|line| u32::try_from(line).ok());
                    self.declared = line.unwrap_or(0);
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    self.elsewhere = Some(attribute.value());
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(ranges: &[(u64, u64, u32)]) -> Vec<(u64, Option<u32>)> {
        let range = |&(start, end, scope)| (AddrRange::new(LinkAddr(start), LinkAddr(end)), scope);
        let flat = flatten(ranges.iter().map(range).collect());
        flat.into_iter().map(|(at, scope)| (at.0, (scope != NONE).then_some(scope))).collect()
    }

    #[test]
    fn children_cover_their_parents() {
        let ranges = [(10, 50, 0), (20, 30, 1), (22, 25, 2), (30, 40, 3), (60, 70, 4)];
        let found = [
            (0, None),
            (10, Some(0)),
            (20, Some(1)),
            (22, Some(2)),
            (25, Some(1)),
            (30, Some(3)),
            (40, Some(0)),
            (50, None),
            (60, Some(4)),
            (70, None),
        ];
        assert_eq!(stretches(&ranges), found);
    }

    #[test]
    fn ranges_that_make_no_sense_do_no_harm() {
        assert_eq!(stretches(&[]), [(0, None)]);
        // The same code twice, a child outside its parent, and one that ends behind it.
        let ranges = [(10, 20, 0), (10, 20, 1), (5, 12, 2), (18, 25, 3)];
        let found = [(0, None), (5, Some(2)), (12, Some(1)), (18, Some(3)), (25, None)];
        assert_eq!(stretches(&ranges), found);
        assert_eq!(stretches(&[(0, u64::MAX, 0)]), [(0, Some(0)), (u64::MAX, None)]);
    }
}
