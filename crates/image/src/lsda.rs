//! The language-specific data area of one function in `.gcc_except_table`: which instructions may
//! throw, where the exception lands, and what is caught there.
//!
//! An LSDA is four tables behind a small header (Itanium C++ ABI, `exceptions.pdf`; what counts is
//! what `libgcc/unwind-pe.h` and `libstdc++-v3/libsupc++/eh_personality.cc` do):
//!
//! ```text
//! header      landing pad base, encodings, where the type tables meet
//! call sites  instruction range -> landing pad, first action
//! actions     chains of (filter, next): 0 cleans up, n > 0 catches type n, n < 0 checks a list of types
//! types       n-th entry counted backwards from where the type tables meet
//! type lists  counted forwards from there: type numbers, zero at the end
//! ```
//!
//! Nothing says how long the last three are: they reach as far as the call sites lead. Only what
//! can be reached is returned, in the form it has in the file, so that a rewriter can move the
//! function and write the same tables again. Types stay pointers to be relocated; see [`Pointer`].

use core::iter;
use std::collections::{BTreeMap, BTreeSet};

use gimli::DwEhPe;
use relive_code::addr::{AddrRange, LinkAddr};

use crate::cursor::{Cursor, FieldError, FieldFault};

/// The addresses that an LSDA is read against, because it does not name them itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bases {
    /// Link address of the section's first byte.
    pub section: LinkAddr,
    /// Where the function begins: the FDE's initial location.
    pub function: LinkAddr,
    /// What `DW_EH_PE_datarel` pointers are relative to, if known: the global offset table.
    pub data: Option<LinkAddr>,
}

/// The exception tables of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lsda {
    /// The part of the section that has been read; it overlaps others where LLVM has split the
    /// function.
    pub range: AddrRange,
    /// What landing pads are relative to: the function, unless the header says otherwise.
    pub landing_pad_base: LinkAddr,
    /// How the header says it; `DW_EH_PE_omit` if it does not.
    pub landing_pad_base_encoding: DwEhPe,
    /// Encoding of the call sites' numbers.
    pub call_site_encoding: DwEhPe,
    /// Instructions that may throw, by rising address as the unwinder needs them. An exception from
    /// an instruction in none of them ends the program.
    pub call_sites: Vec<CallSite>,
    /// The reachable actions by their offset in the action table.
    pub actions: BTreeMap<u64, Action>,
    /// Encoding of the types; `DW_EH_PE_omit` if there are neither types nor type lists.
    pub type_encoding: DwEhPe,
    /// Type `n` at index `n - 1`.
    pub types: Vec<Pointer>,
    /// The type lists, as in the file: see [`Lsda::type_list`].
    pub type_lists: Vec<u8>,
}

/// Instructions that throw to the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The instructions.
    pub range: AddrRange,
    /// Where an exception from them lands; without, it goes on to the caller.
    pub landing_pad: Option<LinkAddr>,
    /// Offset of the first action, for [`Lsda::actions`]; without, the landing pad only cleans up.
    pub action: Option<u64>,
}

/// One step of what happens at a landing pad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// Zero for a cleanup; `n > 0` to catch type `n`; `n < 0` to check the type list of that
    /// number.
    pub filter: i64,
    /// Offset of the action to take if this one does not apply.
    pub next: Option<u64>,
}

/// An encoded pointer, as it stands in the file and resolved as far as that goes without the
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Where it stands.
    pub at: LinkAddr,
    /// How it is to be read.
    pub encoding: DwEhPe,
    /// What is written there, sign-extended if its encoding is signed. Zero is no pointer in every
    /// encoding; as a type it catches everything.
    pub value: u64,
    /// The address meant. If [`DwEhPe::is_indirect`], the address of the word that holds the
    /// address meant. `None` for a zero value and for one whose base is not known.
    pub address: Option<LinkAddr>,
}

/// Why an LSDA could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field is cut short or too large.
    #[error(".gcc_except_table: {0}")]
    Field(#[from] FieldError),
    /// The FDE points outside the section.
    #[error(".gcc_except_table: the FDE's LSDA pointer {0} is outside the section")]
    Outside(LinkAddr),
    /// A pointer encoding that is unknown, or makes no sense where it is used.
    #[error(".gcc_except_table: at byte {at:#x}: {table} cannot be encoded as {encoding:?}")]
    Encoding {
        /// Offset of the encoding.
        at: usize,
        /// What is so encoded.
        table: &'static str,
        /// The encoding.
        encoding: DwEhPe,
    },
    /// The base of landing pads is relative to something that is not known.
    #[error(".gcc_except_table: at byte {at:#x}: cannot tell what the landing pad base is relative to")]
    LandingPadBase {
        /// Offset of the base.
        at: usize,
    },
    /// A call site runs over the end of its table, or an action lies before its own.
    #[error(".gcc_except_table: at byte {at:#x}: {what} lies outside its table")]
    Stray {
        /// Offset of the number that leads outside.
        at: usize,
        /// What it leads to.
        what: &'static str,
    },
    /// An action names a type or a type list, but there is no room for it before or behind where
    /// they meet.
    #[error(".gcc_except_table: at byte {at:#x}: the tables have no type {filter}")]
    NoType {
        /// Offset of the place where the type tables meet, or of the missing offset to it.
        at: usize,
        /// The number of the type, or of the type list if negative.
        filter: i64,
    },
}

impl Lsda {
    /// The actions of a call site in the order they are tried. Ends also if a malformed chain does
    /// not.
    pub fn actions_of(&self, site: &CallSite) -> impl Iterator<Item = Action> {
        let action_at = |offset: Option<u64>| offset.and_then(|offset| self.actions.get(&offset)).copied();
        iter::successors(action_at(site.action), move |action| action_at(action.next))
            .take(self.actions.len())
    }

    /// The type that a positive filter catches.
    #[must_use]
    pub fn catch_type(&self, filter: i64) -> Option<&Pointer> {
        self.types.get(usize::try_from(filter).ok()?.checked_sub(1)?)
    }

    /// The numbers of the types that a negative filter lets pass (dynamic exception
    /// specifications).
    pub fn type_list(&self, filter: i64) -> impl Iterator<Item = u64> {
        let start = list_start(filter).unwrap_or(usize::MAX);
        let mut list = Cursor::at(&self.type_lists, start, TYPE_NUMBER).ok();
        iter::from_fn(move || list.as_mut()?.uleb(TYPE_NUMBER).ok().filter(|&number| number != 0))
    }
}

const TYPE_NUMBER: &str = "number in a type list";

/// Reads the LSDA at the address `lsda`, from the bytes of its whole section.
pub fn parse(section: &[u8], lsda: LinkAddr, bases: Bases) -> Result<Lsda, Error> {
    let start = usize::try_from(lsda.since(bases.section)).ok().filter(|&start| start < section.len());
    let start = start.ok_or(Error::Outside(lsda))?;
    let header = Header::read(section, start, bases)?;
    let call_sites = call_sites(section, &header, bases)?;
    let (actions, actions_end) = actions(section, &header, &call_sites)?;
    let (type_lists, highest_listed) = type_lists(section, &header, &actions)?;
    let highest_caught =
        actions.values().map(|action| action.filter).max().unwrap_or(0).try_into().unwrap_or(0);
    let types = types(section, &header, highest_listed.max(highest_caught), bases)?;

    let types_end = header.types_meet.map_or(0, |meet| meet + type_lists.len());
    let end = actions_end.max(types_end);
    Ok(Lsda {
        range: AddrRange::new(lsda, bases.section.offset(end as u64)),
        landing_pad_base: header.landing_pad_base,
        landing_pad_base_encoding: header.landing_pad_base_encoding,
        call_site_encoding: header.call_site_encoding,
        call_sites,
        actions,
        type_encoding: header.type_encoding,
        types,
        type_lists,
    })
}

/// The header; all positions count from the start of the section.
struct Header {
    landing_pad_base: LinkAddr,
    landing_pad_base_encoding: DwEhPe,
    type_encoding: DwEhPe,
    type_encoding_at: usize,
    /// Where types begin backwards and type lists begin forwards.
    types_meet: Option<usize>,
    call_site_encoding: DwEhPe,
    call_site_encoding_at: usize,
    call_sites: usize,
    actions: usize,
}

impl Header {
    fn read(section: &[u8], start: usize, bases: Bases) -> Result<Self, Error> {
        let mut cursor = Cursor::at(section, start, "header")?;

        let base_encoding_at = cursor.position();
        let landing_pad_base_encoding = DwEhPe(cursor.u8("encoding of the landing pad base")?);
        let mut landing_pad_base = bases.function;
        if !landing_pad_base_encoding.is_absent() {
            let at = cursor.position();
            let pointer = pointer(&mut cursor, landing_pad_base_encoding, bases, "landing pad base")?.ok_or(
                Error::Encoding {
                    at: base_encoding_at,
                    table: "landing pad base",
                    encoding: landing_pad_base_encoding,
                },
            )?;
            // A base of zero is a base: BOLT writes it to make landing pads absolute.
            landing_pad_base = match pointer {
                Pointer { value: 0, .. } => LinkAddr(0),
                Pointer { address: Some(address), encoding, .. } if !encoding.is_indirect() => address,
                _ => return Err(Error::LandingPadBase { at }),
            };
        }

        let type_encoding_at = cursor.position();
        let type_encoding = DwEhPe(cursor.u8("encoding of the types")?);
        let mut types_meet = None;
        if !type_encoding.is_absent() {
            let at = cursor.position();
            let distance = usize::try_from(cursor.uleb("distance to the types")?).unwrap_or(usize::MAX);
            let meet = cursor.position().saturating_add(distance);
            if meet > section.len() {
                return Err(Error::Stray { at, what: "the end of the types" });
            }
            types_meet = Some(meet);
        }

        let call_site_encoding_at = cursor.position();
        let call_site_encoding = DwEhPe(cursor.u8("encoding of the call sites")?);
        let at = cursor.position();
        let length = usize::try_from(cursor.uleb("length of the call site table")?).unwrap_or(usize::MAX);
        let call_sites = cursor.position();
        let actions = call_sites.saturating_add(length);
        if actions > section.len() {
            return Err(Error::Stray { at, what: "the end of the call sites" });
        }
        Ok(Self {
            landing_pad_base,
            landing_pad_base_encoding,
            type_encoding,
            type_encoding_at,
            types_meet,
            call_site_encoding,
            call_site_encoding_at,
            call_sites,
            actions,
        })
    }

    /// Whether the LSDA of another part of the same function begins at `at`, or behind the zeros
    /// that align it to four bytes: one that names the same places in the same way.
    ///
    /// The parts of a split function always name the base of their landing pads; without it, four
    /// bytes of a call site could pass for a header.
    fn sibling_follows(&self, section: &[u8], at: usize, bases: Bases) -> bool {
        if self.landing_pad_base_encoding.is_absent() {
            return false;
        }
        let zeros = section[at..].iter().take(3).take_while(|&&byte| byte == 0).count();
        (at..=at + zeros).any(|at| {
            Self::read(section, at, bases).is_ok_and(|other| {
                let places = |header: &Self| (header.landing_pad_base, header.types_meet, header.actions);
                let ways = |header: &Self| {
                    [header.landing_pad_base_encoding, header.type_encoding, header.call_site_encoding]
                };
                places(self) == places(&other) && ways(self) == ways(&other)
            })
        })
    }
}

/// Reads call sites up to the end of their table, or to where the table of another part begins.
///
/// LLVM gives each part of a split function an LSDA of its own but lets them share the tables of
/// actions and types behind the last one, and the length of every part's call site table reaches up
/// to there, over the LSDAs between. Unwinders do not notice because they look no further than the
/// instruction that threw.
fn call_sites(section: &[u8], header: &Header, bases: Bases) -> Result<Vec<CallSite>, Error> {
    let table = &section[..header.actions];
    let mut cursor = Cursor::at(table, header.call_sites, "call site")?;
    let mut sites = Vec::new();
    while !cursor.is_empty() && !header.sibling_follows(section, cursor.position(), bases) {
        let at = cursor.position();
        sites.push(call_site(&mut cursor, header, bases.function).map_err(|error| match error {
            Error::Field(FieldError { fault: FieldFault::CutShort, .. }) => {
                Error::Stray { at, what: "the end of a call site" }
            }
            error => error,
        })?);
    }
    Ok(sites)
}

fn call_site(cursor: &mut Cursor<'_>, header: &Header, function: LinkAddr) -> Result<CallSite, Error> {
    // These are distances: the encoding may say how wide they are, not what they are relative to.
    let encoding = header.call_site_encoding;
    let wrong_encoding = Error::Encoding { at: header.call_site_encoding_at, table: "call sites", encoding };
    if encoding != encoding.format() {
        return Err(wrong_encoding);
    }
    let mut distance = |field| value(cursor, encoding, field)?.ok_or(wrong_encoding);
    let start = distance("start of a call site")?;
    let length = distance("length of a call site")?;
    let landing_pad = distance("landing pad")?;
    let action = cursor.uleb("action of a call site")?;
    Ok(CallSite {
        range: AddrRange::sized(function.offset(start), length),
        // Zero is none whatever it is relative to: all personality routines test the number before
        // they add the base, and compilers put a `nop` before a landing pad at the base.
        landing_pad: (landing_pad != 0).then(|| header.landing_pad_base.offset(landing_pad)),
        action: action.checked_sub(1),
    })
}

/// Follows all chains, each action once; also returns where the last one ends.
fn actions(
    section: &[u8],
    header: &Header,
    sites: &[CallSite],
) -> Result<(BTreeMap<u64, Action>, usize), Error> {
    let mut actions = BTreeMap::new();
    let mut end = header.actions;
    for site in sites {
        let mut next = site.action;
        while let Some(offset) = next.filter(|offset| !actions.contains_key(offset)) {
            let at = header.actions.saturating_add(usize::try_from(offset).unwrap_or(usize::MAX));
            let mut cursor = Cursor::at(section, at, "action")?;
            let filter = cursor.sleb("filter of an action")?;
            let next_at = cursor.position();
            let distance = cursor.sleb("distance to the next action")?;
            end = end.max(cursor.position());
            next = None;
            if distance != 0 {
                // The distance counts from itself.
                let offset = ((next_at - header.actions) as u64).checked_add_signed(distance);
                next = Some(offset.ok_or(Error::Stray { at: next_at, what: "the next action" })?);
            }
            actions.insert(offset, Action { filter, next });
        }
    }
    Ok((actions, end))
}

/// Where the type list of a negative filter begins, from where the type tables meet.
fn list_start(filter: i64) -> Option<usize> {
    usize::try_from(filter.checked_add(1)?.checked_neg()?).ok()
}

/// All type lists that filters refer to, and the highest type number in them. Lists may share their
/// ends, so a number that has been seen is not followed again.
fn type_lists(
    section: &[u8],
    header: &Header,
    actions: &BTreeMap<u64, Action>,
) -> Result<(Vec<u8>, u64), Error> {
    let mut seen = BTreeSet::new();
    let mut highest = 0;
    let mut end = 0;
    let filters = actions.values().map(|action| action.filter).filter(|&filter| filter < 0);
    for filter in filters {
        let meet = header.types_meet.ok_or(Error::NoType { at: header.type_encoding_at, filter })?;
        let lists = &section[meet..];
        let mut cursor = list_start(filter)
            .and_then(|start| Cursor::at(lists, start, TYPE_NUMBER).ok())
            .ok_or(Error::NoType { at: meet, filter })?;
        while seen.insert(cursor.position()) {
            // Positions count from `meet` here, errors from the start of the section.
            let number =
                cursor.uleb(TYPE_NUMBER).map_err(|error| FieldError { at: meet + error.at, ..error })?;
            end = end.max(cursor.position());
            highest = highest.max(number);
            if number == 0 {
                break;
            }
        }
    }
    let meet = header.types_meet.unwrap_or(0);
    Ok((section[meet..meet + end].to_vec(), highest))
}

fn types(section: &[u8], header: &Header, count: u64, bases: Bases) -> Result<Vec<Pointer>, Error> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let filter = i64::try_from(count).unwrap_or(i64::MAX);
    let meet = header.types_meet.ok_or(Error::NoType { at: header.type_encoding_at, filter })?;
    let encoding = header.type_encoding;
    let wrong_encoding = Error::Encoding { at: header.type_encoding_at, table: "types", encoding };
    let size = size(encoding).ok_or(wrong_encoding)?;
    // The types share the space between the call sites and the meeting point with the actions.
    let room = meet.saturating_sub(header.actions) / size;
    let count = usize::try_from(count).ok().filter(|&count| count <= room);
    let count = count.ok_or(Error::NoType { at: meet, filter })?;
    (1..=count)
        .map(|number| {
            let mut cursor = Cursor::at(section, meet - number * size, "type")?;
            pointer(&mut cursor, encoding, bases, "type")?.ok_or(wrong_encoding)
        })
        .collect()
}

/// How many bytes a pointer of this encoding has, if that does not depend on its value.
fn size(encoding: DwEhPe) -> Option<usize> {
    match encoding.format() {
        gimli::DW_EH_PE_udata2 | gimli::DW_EH_PE_sdata2 => Some(2),
        gimli::DW_EH_PE_udata4 | gimli::DW_EH_PE_sdata4 => Some(4),
        gimli::DW_EH_PE_absptr | gimli::DW_EH_PE_udata8 | gimli::DW_EH_PE_sdata8 => Some(8),
        _ => None,
    }
}

/// The number that an encoding's format describes; `None` if there is no such format.
fn value(cursor: &mut Cursor<'_>, encoding: DwEhPe, field: &'static str) -> Result<Option<u64>, FieldError> {
    Ok(Some(match encoding.format() {
        gimli::DW_EH_PE_absptr | gimli::DW_EH_PE_udata8 | gimli::DW_EH_PE_sdata8 => cursor.u64(field)?,
        gimli::DW_EH_PE_uleb128 => cursor.uleb(field)?,
        gimli::DW_EH_PE_udata2 => cursor.u16(field)?.into(),
        gimli::DW_EH_PE_udata4 => cursor.u32(field)?.into(),
        gimli::DW_EH_PE_sleb128 => cursor.sleb(field)?.cast_unsigned(),
        gimli::DW_EH_PE_sdata2 => i64::from(cursor.u16(field)?.cast_signed()).cast_unsigned(),
        gimli::DW_EH_PE_sdata4 => i64::from(cursor.u32(field)?.cast_signed()).cast_unsigned(),
        _ => return Ok(None),
    }))
}

/// A pointer in any encoding; `None` if there is no such encoding.
fn pointer(
    cursor: &mut Cursor<'_>,
    encoding: DwEhPe,
    bases: Bases,
    field: &'static str,
) -> Result<Option<Pointer>, FieldError> {
    let at = bases.section.offset(cursor.position() as u64);
    let base = match encoding.application() {
        gimli::DW_EH_PE_absptr => Some(LinkAddr(0)),
        gimli::DW_EH_PE_pcrel => Some(at),
        gimli::DW_EH_PE_datarel => bases.data,
        gimli::DW_EH_PE_funcrel => Some(bases.function),
        // Nothing on x86-64 is relative to the text.
        gimli::DW_EH_PE_textrel => None,
        _ => return Ok(None),
    };
    let Some(value) = value(cursor, encoding, field)? else { return Ok(None) };
    let address = base.filter(|_| value != 0).map(|base| base.offset(value));
    Ok(Some(Pointer { at, encoding, value, address }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BASES: Bases =
        Bases { section: LinkAddr(0x2000), function: LinkAddr(0x1000), data: Some(LinkAddr(0x8000)) };

    /// As GCC writes it for a destructor inside `try { f(); } catch (A&) {} catch (...) {}`.
    const GCC: [u8; 28] = [
        0xff, // landing pads are relative to the function
        0x9b,
        25, // types: 4 bytes, signed, relative to themselves, indirect; the tables meet at byte 28
        0x01, 8, // call sites: uleb128, 8 bytes in all
        0x02, 0x05, 0x20, 5, // 1002..1007 lands at 1020, the first action is at 4
        0x0a, 0x03, 0x00, 0, // 100a..100d goes on to the caller
        0x02, 0x00, // action 0: catch type 2; the last
        0x01, 0x7d, // action 2: catch type 1; next is 3 bytes back from the 7d
        0x00, 0x7d, // action 4: cleanup; next is 3 bytes back
        0x00, // padding
        0x00, 0x00, 0x00, 0x00, // type 2: everything
        0xf0, 0xff, 0xff, 0xff, // type 1: 16 bytes back
    ];

    /// A table of one call site with landing pad 0x10, of the given encodings.
    fn one_site(base: &[u8], call_site_encoding: DwEhPe, call_site: &[u8]) -> Vec<u8> {
        let length = u8::try_from(call_site.len()).unwrap();
        [base, &[0xff, call_site_encoding.0, length], call_site].concat()
    }

    fn range(start: u64, end: u64) -> AddrRange {
        AddrRange::new(LinkAddr(start), LinkAddr(end))
    }

    #[test]
    fn a_table_as_gcc_writes_it() {
        let lsda = parse(&GCC, BASES.section, BASES).unwrap();
        assert_eq!(lsda.range, range(0x2000, 0x201c));
        assert_eq!(lsda.landing_pad_base, LinkAddr(0x1000));
        let landing_pad = Some(LinkAddr(0x1020));
        let expected = [
            CallSite { range: range(0x1002, 0x1007), landing_pad, action: Some(4) },
            CallSite { range: range(0x100a, 0x100d), landing_pad: None, action: None },
        ];
        assert_eq!(lsda.call_sites, expected);
        let filters: Vec<i64> = lsda.actions_of(&lsda.call_sites[0]).map(|action| action.filter).collect();
        assert_eq!(filters, [0, 1, 2]);
        assert_eq!(lsda.actions_of(&lsda.call_sites[1]).count(), 0);

        let encoding = DwEhPe(0x9b);
        let value = (-16i64).cast_unsigned();
        let first = Pointer { at: LinkAddr(0x2018), encoding, value, address: Some(LinkAddr(0x2008)) };
        let second = Pointer { at: LinkAddr(0x2014), encoding, value: 0, address: None };
        assert_eq!(lsda.types, [first, second]);
        assert_eq!(lsda.catch_type(2), Some(&second));
        assert_eq!(lsda.catch_type(0), None);
    }

    #[test]
    fn the_landing_pad_base_comes_in_every_encoding() {
        let cases: [(&[u8], u64); 12] = [
            (&[0xff], 0x1000),
            (&[0x00, 0x00, 0x30, 0, 0, 0, 0, 0, 0], 0x3000), // absptr
            (&[0x01, 0x80, 0x60], 0x3000),                   // uleb128
            (&[0x02, 0x00, 0x30], 0x3000),                   // udata2
            (&[0x03, 0x00, 0x30, 0, 0], 0x3000),             // udata4
            (&[0x04, 0x00, 0x30, 0, 0, 0, 0, 0, 0], 0x3000), // udata8
            (&[0x19, 0x7f], 0x2000),                         // pcrel sleb128: one back from byte 1
            (&[0x1a, 0xff, 0xff], 0x2000),                   // pcrel sdata2
            (&[0x1b, 0xff, 0xf0, 0xff, 0xff], 0x1100),       // pcrel sdata4
            (&[0x3c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], 0x7f00), // datarel sdata8
            (&[0x4b, 0x08, 0, 0, 0], 0x1008),                // funcrel sdata4
            (&[0x03, 0, 0, 0, 0], 0),                        // zero: landing pads are absolute
        ];
        for (base, expected) in cases {
            let bytes = one_site(base, gimli::DW_EH_PE_uleb128, &[4, 1, 0x10, 0, 6, 1, 0, 0]);
            let lsda = parse(&bytes, BASES.section, BASES).unwrap();
            assert_eq!(lsda.landing_pad_base, LinkAddr(expected), "{base:02x?}");
            assert_eq!(lsda.landing_pad_base_encoding, DwEhPe(base[0]));
            let sites = [
                CallSite {
                    range: range(0x1004, 0x1005),
                    landing_pad: Some(LinkAddr(expected + 0x10)),
                    action: None,
                },
                // Without landing pad, however far the base is from the function.
                CallSite { range: range(0x1006, 0x1007), landing_pad: None, action: None },
            ];
            assert_eq!(lsda.call_sites, sites);
        }
    }

    #[test]
    fn call_sites_come_in_every_width() {
        let cases: [(DwEhPe, &[u8]); 7] = [
            (gimli::DW_EH_PE_uleb128, &[0x84, 0x00, 1, 0x10, 0]),
            (gimli::DW_EH_PE_sleb128, &[4, 1, 0x10, 0]),
            (gimli::DW_EH_PE_udata2, &[4, 0, 1, 0, 0x10, 0, 0]),
            (gimli::DW_EH_PE_sdata2, &[4, 0, 1, 0, 0x10, 0, 0]),
            (gimli::DW_EH_PE_udata4, &[4, 0, 0, 0, 1, 0, 0, 0, 0x10, 0, 0, 0, 0]),
            (gimli::DW_EH_PE_sdata4, &[4, 0, 0, 0, 1, 0, 0, 0, 0x10, 0, 0, 0, 0]),
            (
                gimli::DW_EH_PE_absptr,
                &[4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
        ];
        for (encoding, call_site) in cases {
            let bytes = one_site(&[0xff], encoding, call_site);
            let lsda = parse(&bytes, BASES.section, BASES).unwrap();
            let landing_pad = Some(LinkAddr(0x1010));
            let expected = CallSite { range: range(0x1004, 0x1005), landing_pad, action: None };
            assert_eq!(lsda.call_sites, [expected], "{encoding:?}");
        }
    }

    #[test]
    fn type_lists_may_share_their_ends() {
        // Two call sites with specifications: list -1 is {2, 1}, list -2 is {1}.
        let mut bytes = vec![0xff, 0x03, 26, 0x01, 8, 0, 1, 0x10, 1, 2, 1, 0x20, 3];
        bytes.extend([0x7f, 0, 0x7e, 0]);
        bytes.resize(21, 0);
        bytes.extend([0x22, 0, 0, 0, 0x11, 0, 0, 0]);
        bytes.extend([2, 1, 0]);
        bytes.extend([0xaa; 9]); // the next LSDA
        let lsda = parse(&bytes, BASES.section, BASES).unwrap();
        assert_eq!(lsda.type_lists, [2, 1, 0]);
        assert_eq!(lsda.type_list(-1).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(lsda.type_list(-2).collect::<Vec<_>>(), [1]);
        assert_eq!(lsda.type_list(i64::MIN).count() + lsda.type_list(1).count(), 0);
        let addresses: Vec<_> = lsda.types.iter().map(|pointer| pointer.address).collect();
        assert_eq!(addresses, [Some(LinkAddr(0x11)), Some(LinkAddr(0x22))]);
        assert_eq!(lsda.range, range(0x2000, 0x2020));
    }

    #[test]
    fn parts_of_a_split_function_share_their_actions() {
        // As LLVM writes it: landing pads are relative to 0x3000, and the call site table of each
        // part but the last contains the LSDAs of the following parts.
        let bytes = [
            [0x03, 0, 0x30, 0, 0, 0xff, 0x01, 28].as_slice(),
            &[0x02, 0x05, 0x20, 1],
            &[0x03, 0, 0x30, 0, 0, 0xff, 0x01, 16], // a part that cannot throw
            &[0x03, 0, 0x30, 0, 0, 0xff, 0x01, 8],
            &[0x00, 0x06, 0x00, 0],
            &[0x06, 0x03, 0x20, 1],
            &[0, 0], // the action
        ]
        .concat();
        let landing_pad = Some(LinkAddr(0x3020));
        let throws = |start, end| CallSite { range: range(start, end), landing_pad, action: Some(0) };
        let first = parse(&bytes, LinkAddr(0x2000), BASES).unwrap();
        assert_eq!(first.call_sites, [throws(0x1002, 0x1007)]);
        assert_eq!(first.actions[&0], Action { filter: 0, next: None });
        let second = parse(&bytes, LinkAddr(0x200c), BASES).unwrap();
        assert_eq!(second.call_sites, []);
        let third = parse(&bytes, LinkAddr(0x2014), BASES).unwrap();
        let goes_on = CallSite { range: range(0x1000, 0x1006), landing_pad: None, action: None };
        assert_eq!(third.call_sites, [goes_on, throws(0x1006, 0x1009)]);

        // The same with the second part aligned.
        let aligned = [&bytes[..7], &[30], &bytes[8..12], &[0, 0], &bytes[12..]].concat();
        let first = parse(&aligned, LinkAddr(0x2000), BASES).unwrap();
        assert_eq!(first.call_sites, [throws(0x1002, 0x1007)]);
    }

    #[test]
    fn a_chain_without_end_is_cut() {
        // Action 0 goes on with itself.
        let bytes = [one_site(&[0xff], gimli::DW_EH_PE_uleb128, &[0, 1, 2, 1]), vec![0, 0x7f]].concat();
        let lsda = parse(&bytes, BASES.section, BASES).unwrap();
        assert_eq!(lsda.actions_of(&lsda.call_sites[0]).count(), 1);
    }

    #[test]
    fn a_function_that_must_not_throw_has_an_empty_table() {
        let lsda = parse(&[0xff, 0xff, 0x01, 0x00], BASES.section, BASES).unwrap();
        assert!(lsda.call_sites.is_empty());
        assert_eq!(lsda.range, range(0x2000, 0x2004));
    }

    #[test]
    fn faults_have_a_place() {
        let fault = |bytes: &[u8]| parse(bytes, BASES.section, BASES).unwrap_err();
        assert_eq!(parse(&GCC, LinkAddr(0x201c), BASES), Err(Error::Outside(LinkAddr(0x201c))));
        assert_eq!(parse(&GCC, LinkAddr(0x1fff), BASES), Err(Error::Outside(LinkAddr(0x1fff))));
        assert_eq!(
            fault(&[0xff, 0xff]),
            Error::Field(FieldError {
                at: 2,
                field: "encoding of the call sites",
                fault: FieldFault::CutShort
            })
        );
        assert_eq!(
            fault(&[0x06, 0, 0]),
            Error::Encoding { at: 0, table: "landing pad base", encoding: DwEhPe(6) }
        );
        // Relative to the text, and behind a pointer: nothing here knows either.
        assert_eq!(fault(&[0x2b, 1, 0, 0, 0]), Error::LandingPadBase { at: 1 });
        assert_eq!(fault(&[0x9b, 1, 0, 0, 0]), Error::LandingPadBase { at: 1 });
        assert_eq!(
            fault(&one_site(&[0xff], gimli::DW_EH_PE_pcrel, &[0; 25])),
            Error::Encoding { at: 2, table: "call sites", encoding: gimli::DW_EH_PE_pcrel }
        );
        assert_eq!(fault(&[0xff, 0xff, 1, 9, 0]), Error::Stray { at: 3, what: "the end of the call sites" });
        assert_eq!(
            fault(&[0xff, 0xff, 1, 3, 0, 0, 0, 0]),
            Error::Stray { at: 4, what: "the end of a call site" }
        );
        assert_eq!(fault(&[0xff, 0x9b, 9]), Error::Stray { at: 2, what: "the end of the types" });
        let action = |filter: u8, next: u8| {
            let site = one_site(&[0xff], gimli::DW_EH_PE_uleb128, &[0, 1, 2, 1]);
            [site, vec![filter, next]].concat()
        };
        assert_eq!(fault(&action(0, 0x70)), Error::Stray { at: 9, what: "the next action" });
        assert_eq!(fault(&action(1, 0)), Error::NoType { at: 1, filter: 1 });
        assert_eq!(fault(&action(0x7f, 0)), Error::NoType { at: 1, filter: -1 });
        let mut third_type = GCC;
        third_type[13] = 4;
        assert_eq!(fault(&third_type), Error::NoType { at: 28, filter: 4 });
        let mut leb_types = GCC;
        leb_types[1] = 0x01;
        assert_eq!(fault(&leb_types), Error::Encoding { at: 1, table: "types", encoding: DwEhPe(1) });
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            patches in prop::collection::vec((0..GCC.len(), any::<u8>()), 0..8),
            cut in 0..=GCC.len(),
            lsda in 0x1fff_u64..0x2020,
        ) {
            let mut bytes = GCC;
            for (at, byte) in patches {
                bytes[at] = byte;
            }
            if let Ok(lsda) = parse(&bytes[..cut], LinkAddr(lsda), BASES) {
                for site in &lsda.call_sites {
                    for action in lsda.actions_of(site) {
                        prop_assert!(action.filter <= 0 || lsda.catch_type(action.filter).is_some());
                        let mut listed = lsda.type_list(action.filter);
                        prop_assert!(listed.all(|number| number <= lsda.types.len() as u64));
                    }
                }
            }
        }
    }
}
