//! What can be wrong with a stream.

/// Why a stream cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StreamError {
    /// It ends before all that it should hold was read.
    #[error("it ends in the middle")]
    CutShort,
    /// There is something behind what it should hold.
    #[error("it goes on behind its end")]
    TooLong,
    /// A number has more bytes than any writer needs.
    #[error("a number has no end")]
    EndlessNumber,
    /// A part of it cannot be unpacked, or not into as little as a writer puts there.
    #[error("a part cannot be unpacked")]
    Compression,
    /// No unit has such a slot.
    #[error("no slot has the number {0}")]
    UnknownSlot(u64),
    /// No exit of a unit has such a tag.
    #[error("no code belongs to the tag {0:#x}")]
    UnknownTag(u32),
    /// A byte that no writer puts there.
    #[error("a code of {0} means nothing")]
    UnknownCode(u8),
}
