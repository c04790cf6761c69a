//! The first page of a profile and the bytes around it: [`relive_abi::rprof`] without `unsafe`.

use crate::error::ProfileError;
use relive_abi::rprof::{FileHeader, MAGIC, SlotLayout, VERSION};

/// How many bytes the header has.
pub(crate) const LEN: usize = size_of::<FileHeader>();

/// Takes little-endian numbers off the front.
pub(crate) struct Bytes<'b>(pub(crate) &'b [u8]);

impl Bytes<'_> {
    /// The next bytes; zeroes if there are no more.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let len = N.min(self.0.len());
        let (now, rest) = self.0.split_at(len);
        bytes[..len].copy_from_slice(now);
        self.0 = rest;
        bytes
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// The header at the start of `bytes`.
pub(crate) fn read(bytes: &[u8]) -> Result<FileHeader, ProfileError> {
    let mut bytes = Bytes(bytes);
    let magic = bytes.take();
    if magic != MAGIC {
        return Err(ProfileError::NotAProfile);
    }
    if bytes.0.len() < LEN - MAGIC.len() {
        return Err(ProfileError::damaged("header", crate::Damage::CutShort));
    }
    let version = bytes.u32();
    if version != VERSION {
        return Err(ProfileError::Version { found: version, known: VERSION });
    }
    let header = FileHeader {
        magic,
        version,
        flags: bytes.u32(),
        checksum: bytes.u64(),
        description_offset: bytes.u64(),
        description_len: bytes.u64(),
        slots_offset: bytes.u64(),
        slot: SlotLayout {
            counters: bytes.u32(),
            sites: bytes.u32(),
            overflows: bytes.u32(),
            modules: bytes.u32(),
        },
        build_id_len: bytes.u32(),
        reserved: bytes.u32(),
        build_id: bytes.take(),
    };
    Ok(header)
}

/// The bytes of a header.
pub(crate) fn write(header: &FileHeader) -> Vec<u8> {
    let slot = &header.slot;
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend(header.magic);
    bytes.extend([header.version, header.flags].map(u32::to_le_bytes).as_flattened());
    let places = [header.checksum, header.description_offset, header.description_len, header.slots_offset];
    bytes.extend(places.map(u64::to_le_bytes).as_flattened());
    let lens =
        [slot.counters, slot.sites, slot.overflows, slot.modules, header.build_id_len, header.reserved];
    bytes.extend(lens.map(u32::to_le_bytes).as_flattened());
    bytes.extend(header.build_id);
    bytes
}
