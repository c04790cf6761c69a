//! Variables that the source says are atomic.
//!
//! In code, a plain load of an atomic variable looks like any other. The debug information knows better: `_Atomic` has a type of its own, and
//! C++ has classes for it. Variables with an address of their own are found, and the atomic parts of arrays and structures.

use super::reading::{DwarfUnit, Reading, Slice};
use gimli::{AttributeValue, DebuggingInformationEntry, EntriesTreeNode, UnitOffset};
use relive_code::addr::{AddrRange, LinkAddr};

/// Types inside of types that are looked into.
const MOST_LEVELS: usize = 16;
/// Elements of an array, and parts altogether of a variable.
const MOST_PARTS: u64 = 1 << 16;

/// The atomic parts of all variables, in no order.
pub(super) fn read(reading: &Reading<'_>) -> gimli::Result<Vec<AddrRange>> {
    let mut found = Vec::new();
    let mut headers = reading.dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = reading.dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() == gimli::DW_TAG_variable {
                let variable = Variable { reading, unit: &unit };
                if let Some((address, kind)) = variable.place(entry)? {
                    variable.parts(kind, address, 0, &mut found)?;
                }
            }
        }
    }
    Ok(found)
}

struct Variable<'r, 'a> {
    reading: &'r Reading<'a>,
    unit: &'r DwarfUnit<'a>,
}

type Entry<'e> = DebuggingInformationEntry<Slice<'e>>;

impl<'a> Variable<'_, 'a> {
    /// Where a variable is, if it has an address, and its type.
    fn place(&self, entry: &Entry<'a>) -> gimli::Result<Option<(u64, UnitOffset)>> {
        let Some(AttributeValue::Exprloc(place)) = entry.attr_value(gimli::DW_AT_location) else {
            return Ok(None);
        };
        let mut operations = place.operations(self.unit.encoding());
        let address = match (operations.next()?, operations.next()?) {
            (Some(gimli::Operation::Address { address }), None) => address,
            (Some(gimli::Operation::AddressIndex { index }), None) => {
                self.reading.dwarf.address(self.unit, index)?
            }
            _ => return Ok(None),
        };
        let kind = match self.kind(entry) {
            Some(kind) => Some(kind),
            // A member of a class is declared there.
            None => match entry.attr_value(gimli::DW_AT_specification) {
                Some(AttributeValue::UnitRef(declared)) => self.kind(&self.unit.entry(declared)?),
                _ => None,
            },
        };
        Ok(kind.map(|kind| (address, kind)))
    }

    fn kind(&self, entry: &Entry<'a>) -> Option<UnitOffset> {
        match entry.attr_value(gimli::DW_AT_type)? {
            AttributeValue::UnitRef(kind) => Some(kind),
            _ => None,
        }
    }

    /// The atomic parts of something of a type.
    fn parts(
        &self,
        kind: UnitOffset,
        at: u64,
        level: usize,
        found: &mut Vec<AddrRange>,
    ) -> gimli::Result<()> {
        if level > MOST_LEVELS || found.len() as u64 > MOST_PARTS {
            return Ok(());
        }
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let root = tree.root()?;
        let entry = root.entry();
        let inner = self.kind(entry);
        match (entry.tag(), inner) {
            (gimli::DW_TAG_atomic_type, Some(inner)) => {
                let len = self.len(inner, 0)?.unwrap_or(8);
                found.push(AddrRange::new(LinkAddr(at), LinkAddr(at.wrapping_add(len))));
            }
            (gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type, Some(inner)) => {
                self.parts(inner, at, level + 1, found)?;
            }
            (gimli::DW_TAG_array_type, Some(inner)) => {
                let (count, before) = (elements(root)?, found.len());
                let Some(len) = self.len(inner, 0)? else { return Ok(()) };
                for element in 0..count.min(MOST_PARTS) {
                    self.parts(inner, at.wrapping_add(element.wrapping_mul(len)), level + 1, found)?;
                    if found.len() == before {
                        break;
                    }
                }
            }
            (gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type, _) => {
                if self.is_atomic_class(entry)? {
                    let len =
                        entry.attr(gimli::DW_AT_byte_size).and_then(|size| size.udata_value()).unwrap_or(8);
                    found.push(AddrRange::new(LinkAddr(at), LinkAddr(at.wrapping_add(len))));
                    return Ok(());
                }
                let mut members = root.children();
                while let Some(member) = members.next()? {
                    let member = member.entry();
                    if !matches!(member.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance) {
                        continue;
                    }
                    let place = member.attr(gimli::DW_AT_data_member_location);
                    let offset = place.and_then(|place| place.udata_value()).unwrap_or(0);
                    if let Some(kind) = self.kind(member) {
                        self.parts(kind, at.wrapping_add(offset), level + 1, found)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a class is one of those of C++ or Rust that are atomic.
    fn is_atomic_class(&self, entry: &Entry<'a>) -> gimli::Result<bool> {
        let Some(name) = entry.attr_value(gimli::DW_AT_name) else { return Ok(false) };
        let name = self.reading.dwarf.attr_string(self.unit, name)?;
        let starts = |start: &[u8]| name.slice().starts_with(start);
        Ok(starts(b"atomic<") || starts(b"atomic_flag") || starts(b"__atomic_base<") || starts(b"Atomic"))
    }

    fn len(&self, kind: UnitOffset, level: usize) -> gimli::Result<Option<u64>> {
        if level > MOST_LEVELS {
            return Ok(None);
        }
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let root = tree.root()?;
        let entry = root.entry();
        if let Some(size) = entry.attr(gimli::DW_AT_byte_size).and_then(|size| size.udata_value()) {
            return Ok(Some(size));
        }
        let (tag, inner) = (entry.tag(), self.kind(entry));
        match (tag, inner) {
            (gimli::DW_TAG_pointer_type, _) => Ok(Some(8)),
            (gimli::DW_TAG_array_type, Some(inner)) => {
                let count = elements(root)?;
                Ok(self.len(inner, level + 1)?.map(|len| len.saturating_mul(count)))
            }
            (_, Some(inner)) => self.len(inner, level + 1),
            _ => Ok(None),
        }
    }
}

/// How many elements an array has, over all its dimensions.
fn elements(array: EntriesTreeNode<'_, '_, Slice<'_>>) -> gimli::Result<u64> {
    let mut children = array.children();
    let mut count = 1u64;
    while let Some(child) = children.next()? {
        let range = child.entry();
        if range.tag() != gimli::DW_TAG_subrange_type {
            continue;
        }
        let number = |name| range.attr(name).and_then(|value| value.udata_value());
        let dimension = number(gimli::DW_AT_count)
            .or_else(|| number(gimli::DW_AT_upper_bound).map(|last| last.saturating_add(1)));
        count = count.saturating_mul(dimension.unwrap_or(0));
    }
    Ok(count)
}
