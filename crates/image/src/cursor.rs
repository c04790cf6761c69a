//! A place in a section's bytes, from which the format readers take one field after another.
//!
//! Every fault knows the byte it was found at and the field that was wanted there, so that a
//! reader's error can be put beside a hex dump. Readers reserve no memory by a count found in the
//! input before they know that its elements are there; they push each as it is decoded, from at
//! least one byte, so a lying count costs nothing and ends as a field that runs past the end.

use core::fmt;

use gimli::{EndianSlice, LittleEndian, Reader as _};

/// A field that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at:#x}: {field} {fault}")]
pub struct FieldError {
    /// Offset of the field's first byte in the bytes given to the reader.
    pub at: usize,
    /// What was to be read there.
    pub field: &'static str,
    /// What is wrong with it.
    pub fault: FieldFault,
}

/// What can be wrong with a single field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldFault {
    /// The bytes end before the field does.
    CutShort,
    /// The number is wider than the field's type.
    TooLarge,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CutShort => "runs past the end of the section",
            Self::TooLarge => "is larger than its type allows",
        })
    }
}

/// A position in little-endian bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    whole: &'a [u8],
    rest: EndianSlice<'a, LittleEndian>,
}

impl<'a> Cursor<'a> {
    /// At the first of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { whole: bytes, rest: EndianSlice::new(bytes, LittleEndian) }
    }

    /// At `offset` in `bytes`, where `field` should lie; one past the last byte is still a
    /// position.
    pub fn at(bytes: &'a [u8], offset: usize, field: &'static str) -> Result<Self, FieldError> {
        let rest =
            bytes.get(offset..).ok_or(FieldError { at: offset, field, fault: FieldFault::CutShort })?;
        Ok(Self { whole: bytes, rest: EndianSlice::new(rest, LittleEndian) })
    }

    /// Offset of the next byte.
    #[must_use]
    pub fn position(&self) -> usize {
        self.whole.len() - self.rest.len()
    }

    /// Whether all bytes are consumed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, FieldError> {
        self.take(field, |rest| rest.read_u8())
    }

    /// Two bytes.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, FieldError> {
        self.take(field, |rest| rest.read_u16())
    }

    /// Four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, FieldError> {
        self.take(field, |rest| rest.read_u32())
    }

    /// Eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, FieldError> {
        self.take(field, |rest| rest.read_u64())
    }

    /// An unsigned LEB128 number.
    pub fn uleb(&mut self, field: &'static str) -> Result<u64, FieldError> {
        self.take(field, |rest| rest.read_uleb128())
    }

    /// An unsigned LEB128 number that fits 32 bits.
    pub fn uleb32(&mut self, field: &'static str) -> Result<u32, FieldError> {
        let at = self.position();
        u32::try_from(self.uleb(field)?).map_err(|_| FieldError { at, field, fault: FieldFault::TooLarge })
    }

    /// A signed LEB128 number.
    pub fn sleb(&mut self, field: &'static str) -> Result<i64, FieldError> {
        self.take(field, |rest| rest.read_sleb128())
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: u64, field: &'static str) -> Result<&'a [u8], FieldError> {
        let cut_short = FieldError { at: self.position(), field, fault: FieldFault::CutShort };
        let len = usize::try_from(len).map_err(|_| cut_short)?;
        self.rest.split(len).map(|part| part.slice()).map_err(|_| cut_short)
    }

    /// A cursor in the next so many bytes alone, which are behind this one then; positions stay those in the whole.
    pub fn part(&mut self, len: u64, field: &'static str) -> Result<Self, FieldError> {
        let start = self.position();
        let part = self.bytes(len, field)?;
        Self::at(&self.whole[..start + part.len()], start, field)
    }

    fn take<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut EndianSlice<'a, LittleEndian>) -> gimli::Result<T>,
    ) -> Result<T, FieldError> {
        let at = self.position();
        read(&mut self.rest).map_err(|error| {
            let fault = match error {
                gimli::Error::UnexpectedEof(_) => FieldFault::CutShort,
                _ => FieldFault::TooLarge,
            };
            FieldError { at, field, fault }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_little_endian_fields_in_order() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4, 0, 0, 0, 0xe5, 0x8e, 0x26, 0x7f]);
        assert_eq!(cursor.u8("a"), Ok(1));
        assert_eq!(cursor.u16("b"), Ok(0x0302));
        assert_eq!(cursor.u32("c"), Ok(4));
        assert_eq!(cursor.uleb("d"), Ok(624_485));
        assert_eq!(cursor.sleb("e"), Ok(-1));
        assert!(cursor.is_empty());
    }

    #[test]
    fn a_fault_names_the_first_byte_of_its_field() {
        let mut cursor = Cursor::new(&[0, 0x80, 0x80]);
        cursor.u8("a").unwrap();
        let error = cursor.uleb("size").unwrap_err();
        assert_eq!(error, FieldError { at: 1, field: "size", fault: FieldFault::CutShort });
        assert_eq!(error.to_string(), "at byte 0x1: size runs past the end of the section");
    }

    #[test]
    fn a_part_ends_where_it_should_and_knows_where_it_is() {
        let mut cursor = Cursor::new(&[1, 2, 3, 4]);
        cursor.u8("a").unwrap();
        let mut part = cursor.part(2, "b").unwrap();
        assert_eq!((part.position(), cursor.position()), (1, 3));
        assert_eq!(part.bytes(2, "c"), Ok(&[2, 3][..]));
        assert_eq!(part.u8("d").unwrap_err().at, 3);
        assert_eq!(cursor.part(2, "e").unwrap_err().fault, FieldFault::CutShort);
        assert_eq!(cursor.u8("f"), Ok(4));
    }

    #[test]
    fn numbers_wider_than_their_type_are_faults() {
        let wide = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(Cursor::new(&wide).uleb("n").unwrap_err().fault, FieldFault::TooLarge);
        assert_eq!(
            Cursor::new(&[0x80, 0x80, 0x80, 0x80, 0x10]).uleb32("n").unwrap_err().fault,
            FieldFault::TooLarge
        );
        // Assemblers pad a LEB128 they had to reserve room for; that is not a large number.
        assert_eq!(Cursor::new(&[0x85, 0x80, 0x80, 0x80, 0x80, 0x00]).uleb32("n"), Ok(5));
    }
}
