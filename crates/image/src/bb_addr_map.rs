//! `.llvm_bb_addr_map`: the basic blocks of each function, as the compiler laid them out.
//!
//! Clang writes it with `-fbasic-block-address-map`, before LLVM 18 with `-fbasic-block-sections=labels`. One entry a function, back to back, each with
//! its own version and feature bits (LLVM `docs/Extensions.rst`, `lib/Object/BBAddrMap.cpp`):
//!
//! | version | brings | seen written by |
//! |---|---|---|
//! | 0 | has no version and another section type; blocks by their distance from the function's start | LLVM 14 |
//! | 1 | distances from block to block | |
//! | 2 | block ids, profile data, several address ranges | LLVM 19 |
//! | 3 | where calls return to, inside a block | |
//! | 4 | a hash of each block's instructions | |
//! | 5 | two feature bytes instead of one; counts of a post-link profile | LLVM 22 |
//!
//! The section is not loaded, so the linker has resolved its addresses even in a
//! position-independent file and the section has no link address of its own; in an object file the
//! relocations must be applied first.

use core::fmt;

use relive_code::addr::{AddrRange, LinkAddr};

use crate::cursor::{Cursor, FieldError};

/// The section's type, `SHT_LLVM_BB_ADDR_MAP`.
pub const SECTION_TYPE: u32 = 0x6fff_4c0a;
/// The section's type before entries had versions, `SHT_LLVM_BB_ADDR_MAP_V0`.
pub const SECTION_TYPE_0: u32 = 0x6fff_4c08;

/// Whether sections of a type are maps of blocks.
#[must_use]
pub const fn is_map(section_type: u32) -> bool {
    matches!(section_type, SECTION_TYPE | SECTION_TYPE_0)
}

/// What stands for certainty in [`Successor::probability`].
pub const PROBABILITY_ONE: u32 = 1 << 31;

/// The blocks of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionMap {
    /// Offset of the entry in the section.
    pub at: usize,
    /// The entry's format version.
    pub version: u8,
    /// What the entry contains.
    pub features: Features,
    /// The function's parts, never empty; the first begins with the function's entry.
    pub ranges: Vec<BlockRange>,
    /// What the compiler knew of execution counts.
    pub profile: Profile,
}

impl FunctionMap {
    /// The function's first instruction.
    #[must_use]
    pub fn entry(&self) -> LinkAddr {
        self.ranges.first().map_or(LinkAddr(0), |range| range.start)
    }

    /// All blocks, in the order of [`Profile::blocks`].
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.ranges.iter().flat_map(|range| &range.blocks)
    }
}

/// Blocks that follow each other in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Address of the first block.
    pub start: LinkAddr,
    /// How many blocks the compiler placed here, also if it left their entries out
    /// ([`Features::OMIT_BLOCKS`]).
    pub block_count: u32,
    /// The blocks, by rising address.
    pub blocks: Vec<Block>,
}

impl BlockRange {
    /// From the first block to the end of the last.
    #[must_use]
    pub fn extent(&self) -> AddrRange {
        AddrRange::new(self.start, self.blocks.last().map_or(self.start, |block| block.range.end))
    }
}

/// One basic block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The compiler's number for it, unique in the function and stable under reordering; before version 2, which it is in
    /// its range.
    pub id: u32,
    /// Where its instructions lie. May be empty, and may leave a gap of padding to the next block.
    pub range: AddrRange,
    /// What it ends with and how it is entered.
    pub flags: BlockFlags,
    /// The return address of each of its calls, rising.
    pub call_ends: Vec<LinkAddr>,
    /// A hash of its instructions, for matching against another build.
    pub hash: Option<u64>,
}

/// Properties of a block. Bits unknown to this reader are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockFlags(pub u32);

impl BlockFlags {
    /// The block returns from the function.
    #[must_use]
    pub const fn has_return(self) -> bool {
        self.0 & 1 != 0
    }

    /// The block leaves the function by a tail call.
    #[must_use]
    pub const fn has_tail_call(self) -> bool {
        self.0 & 1 << 1 != 0
    }

    /// The block is a landing pad.
    #[must_use]
    pub const fn is_eh_pad(self) -> bool {
        self.0 & 1 << 2 != 0
    }

    /// Control may run over the block's end into the next one.
    #[must_use]
    pub const fn can_fall_through(self) -> bool {
        self.0 & 1 << 3 != 0
    }

    /// The block ends with an indirect branch.
    #[must_use]
    pub const fn has_indirect_branch(self) -> bool {
        self.0 & 1 << 4 != 0
    }
}

impl fmt::Debug for BlockFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What a function's entry contains.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(u16);

impl Features {
    /// The number of times the function was entered.
    pub const ENTRY_COUNT: Self = Self(1);
    /// A frequency for each block.
    pub const FREQUENCIES: Self = Self(1 << 1);
    /// Successors and their probabilities for each block.
    pub const PROBABILITIES: Self = Self(1 << 2);
    /// The function has been split: more than one address range may follow.
    pub const MULTIPLE_RANGES: Self = Self(1 << 3);
    /// Blocks are counted but not listed.
    pub const OMIT_BLOCKS: Self = Self(1 << 4);
    /// Return addresses of the calls in each block (version 3).
    pub const CALL_ENDS: Self = Self(1 << 5);
    /// A hash for each block (version 4).
    pub const HASHES: Self = Self(1 << 6);
    /// Counts from a profile of the linked program (version 5).
    pub const POST_LINK_COUNTS: Self = Self(1 << 7);

    /// The known features by the version that brought them. A bit outside has an unknown effect on
    /// the layout.
    const SINCE: [(u8, Self); 4] =
        [(2, Self(0x1f)), (3, Self::CALL_ENDS), (4, Self::HASHES), (5, Self::POST_LINK_COUNTS)];

    /// The features' bits as found in the file.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether at least one of `other` is among these.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits that no entry of `version` may have.
    fn foreign_to(self, version: u8) -> u16 {
        let known = Self::SINCE.iter().filter(|(since, _)| *since <= version);
        self.0 & !known.fold(0, |bits, (_, feature)| bits | feature.0)
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What the compiler knew of a function's execution counts; empty where it was not asked.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Profile {
    /// How often the function was entered.
    pub entry_count: Option<u64>,
    /// One for each of [`FunctionMap::blocks`], or none at all.
    pub blocks: Vec<BlockProfile>,
}

/// What the compiler knew of a block's execution counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BlockProfile {
    /// Relative frequency; compare it with that of the function's entry block.
    pub frequency: Option<u64>,
    /// Count in the post-link profile.
    pub post_link_count: Option<u32>,
    /// Where control may go, if probabilities were written.
    pub successors: Vec<Successor>,
}

/// One way out of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// [`Block::id`] of the target.
    pub id: u32,
    /// In parts of [`PROBABILITY_ONE`].
    pub probability: u32,
    /// Count in the post-link profile.
    pub post_link_count: Option<u32>,
}

/// Why a section could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field is cut short or too large.
    #[error(".llvm_bb_addr_map: {0}")]
    Field(#[from] FieldError),
    /// The entry's layout is not known.
    #[error(".llvm_bb_addr_map: at byte {at:#x}: this reader knows versions 1 to 5, not {version}")]
    Version {
        /// Offset of the version.
        at: usize,
        /// The version found.
        version: u8,
    },
    /// The entry claims features that its version does not have, so its layout is not known.
    #[error(".llvm_bb_addr_map: at byte {at:#x}: version {version} has no features {unknown:#x}")]
    Features {
        /// Offset of the features.
        at: usize,
        /// The entry's version.
        version: u8,
        /// The bits that should be zero.
        unknown: u16,
    },
    /// A function must lie somewhere.
    #[error(".llvm_bb_addr_map: at byte {at:#x}: a function without address ranges")]
    NoRanges {
        /// Offset of the count that is zero.
        at: usize,
    },
}

/// Reads a whole section of one of the types.
pub fn parse_typed(section_type: u32, section: &[u8]) -> Result<Vec<FunctionMap>, Error> {
    if section_type != SECTION_TYPE_0 {
        return parse(section);
    }
    let mut cursor = Cursor::new(section);
    let mut functions = Vec::new();
    while !cursor.is_empty() {
        let at = cursor.position();
        let ranges = vec![range(&mut cursor, 0, Features::default())?];
        let (features, profile) = Default::default();
        functions.push(FunctionMap { at, version: 0, features, ranges, profile });
    }
    Ok(functions)
}

/// Reads a whole section whose entries have versions.
pub fn parse(section: &[u8]) -> Result<Vec<FunctionMap>, Error> {
    let mut cursor = Cursor::new(section);
    let mut functions = Vec::new();
    while !cursor.is_empty() {
        functions.push(function(&mut cursor)?);
    }
    Ok(functions)
}

fn function(cursor: &mut Cursor<'_>) -> Result<FunctionMap, Error> {
    let at = cursor.position();
    let version = version(cursor)?;
    let features = features(cursor, version)?;
    let range_count = range_count(cursor, features)?;
    let ranges: Vec<BlockRange> =
        (0..range_count).map(|_| range(cursor, version, features)).collect::<Result<_, _>>()?;
    let blocks = ranges.iter().map(|range| range.blocks.len()).sum();
    let profile = profile(cursor, features, blocks)?;
    Ok(FunctionMap { at, version, features, ranges, profile })
}

fn version(cursor: &mut Cursor<'_>) -> Result<u8, Error> {
    let at = cursor.position();
    match cursor.u8("version")? {
        version @ 1..=5 => Ok(version),
        version => Err(Error::Version { at, version }),
    }
}

fn features(cursor: &mut Cursor<'_>, version: u8) -> Result<Features, Error> {
    let at = cursor.position();
    let features = Features(if version < 5 {
        cursor.u8("feature byte")?.into()
    } else {
        cursor.u16("feature bytes")?
    });
    match features.foreign_to(version) {
        0 => Ok(features),
        unknown => Err(Error::Features { at, version, unknown }),
    }
}

fn range_count(cursor: &mut Cursor<'_>, features: Features) -> Result<u32, Error> {
    if !features.intersects(Features::MULTIPLE_RANGES) {
        return Ok(1);
    }
    let at = cursor.position();
    match cursor.uleb32("number of address ranges")? {
        0 => Err(Error::NoRanges { at }),
        count => Ok(count),
    }
}

fn range(cursor: &mut Cursor<'_>, version: u8, features: Features) -> Result<BlockRange, FieldError> {
    let start = LinkAddr(cursor.u64("address of the range")?);
    let block_count = cursor.uleb32("number of blocks")?;
    let mut blocks = Vec::new();
    if !features.intersects(Features::OMIT_BLOCKS) {
        let mut previous_end = start;
        for number in 0..block_count {
            let id = if version < 2 { number } else { cursor.uleb32("block id")? };
            let from = if version == 0 { start } else { previous_end };
            let block = block(cursor, id, features, from)?;
            previous_end = block.range.end;
            blocks.push(block);
        }
    }
    Ok(BlockRange { start, block_count, blocks })
}

fn block(cursor: &mut Cursor<'_>, id: u32, features: Features, from: LinkAddr) -> Result<Block, FieldError> {
    let start = from.offset(cursor.uleb32("gap before the block")?.into());
    // Calls cut the block into pieces, and it is the pieces whose lengths are written.
    let mut call_ends = Vec::new();
    let mut piece_start = start;
    if features.intersects(Features::CALL_ENDS) {
        for _ in 0..cursor.uleb32("number of calls")? {
            piece_start = piece_start.offset(cursor.uleb32("distance to the end of a call")?.into());
            call_ends.push(piece_start);
        }
    }
    let end = piece_start.offset(cursor.uleb32("block size")?.into());
    let flags = BlockFlags(cursor.uleb32("block metadata")?);
    let hash = features.intersects(Features::HASHES).then(|| cursor.u64("block hash")).transpose()?;
    Ok(Block { id, range: AddrRange::new(start, end), flags, call_ends, hash })
}

fn profile(cursor: &mut Cursor<'_>, features: Features, blocks: usize) -> Result<Profile, FieldError> {
    let entry_count = features
        .intersects(Features::ENTRY_COUNT)
        .then(|| cursor.uleb("function entry count"))
        .transpose()?;
    // Post-link counts ride along with the compiler's own numbers and are never alone.
    let per_block = Features(Features::FREQUENCIES.0 | Features::PROBABILITIES.0);
    let blocks = if features.intersects(per_block) { blocks } else { 0 };
    let blocks = (0..blocks).map(|_| block_profile(cursor, features)).collect::<Result<_, _>>()?;
    Ok(Profile { entry_count, blocks })
}

fn block_profile(cursor: &mut Cursor<'_>, features: Features) -> Result<BlockProfile, FieldError> {
    let frequency =
        features.intersects(Features::FREQUENCIES).then(|| cursor.uleb("block frequency")).transpose()?;
    let post_link_count = post_link_count(cursor, features)?;
    let mut successors = Vec::new();
    if features.intersects(Features::PROBABILITIES) {
        for _ in 0..cursor.uleb("number of successors")? {
            let id = cursor.uleb32("successor id")?;
            let probability = cursor.uleb32("successor probability")?;
            let post_link_count = self::post_link_count(cursor, features)?;
            successors.push(Successor { id, probability, post_link_count });
        }
    }
    Ok(BlockProfile { frequency, post_link_count, successors })
}

fn post_link_count(cursor: &mut Cursor<'_>, features: Features) -> Result<Option<u32>, FieldError> {
    features.intersects(Features::POST_LINK_COUNTS).then(|| cursor.uleb32("post-link count")).transpose()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cursor::FieldFault;

    /// The bytes of one entry, written as a table of fields: fixed-width numbers name their width.
    fn entry(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    fn block(id: u32, range: core::ops::Range<u64>, flags: u32) -> Block {
        let range = AddrRange::new(LinkAddr(range.start), LinkAddr(range.end));
        Block { id, range, flags: BlockFlags(flags), call_ends: vec![], hash: None }
    }

    #[test]
    fn before_version_2_blocks_have_no_ids() {
        let start = 0x40_1000u64.to_le_bytes();
        // Sixteen bytes, and after three of padding seven more: by the distance from the start, and from the end before.
        let entries = [
            (SECTION_TYPE_0, entry(&[&start, &[2], &[0, 0x10, 0x08], &[0x13, 7, 1]])),
            (SECTION_TYPE, entry(&[&[1, 0], &start, &[2], &[0, 0x10, 0x08], &[3, 7, 1]])),
        ];
        for (version, (section_type, bytes)) in entries.into_iter().enumerate() {
            let functions = parse_typed(section_type, &[&bytes[..], &bytes].concat()).unwrap();
            assert_eq!(functions.len(), 2);
            assert_eq!(usize::from(functions[1].version), version);
            let blocks: Vec<Block> = functions[1].blocks().cloned().collect();
            assert_eq!(blocks, [block(0, 0x40_1000..0x40_1010, 8), block(1, 0x40_1013..0x40_101a, 1)]);
            assert!(parse_typed(section_type, &bytes[..bytes.len() - 1]).is_err());
        }
        assert!(parse(&[1, 1]).is_err(), "version 1 has no features");
    }

    #[test]
    fn version_2_offsets_run_from_the_end_of_the_previous_block() {
        let bytes = entry(&[
            &[2, 0],
            &0x40_1000u64.to_le_bytes(),
            &[2],
            &[0, 0, 0x10, 0x08],           // bb0: at once, 16 bytes, falls through
            &[7, 3, 0x85, 0x01, 0b1_0011], // bb7: after 3 bytes of padding, 133 bytes
        ]);
        let functions = parse(&bytes).unwrap();
        let expected = FunctionMap {
            at: 0,
            version: 2,
            features: Features::default(),
            ranges: vec![BlockRange {
                start: LinkAddr(0x40_1000),
                block_count: 2,
                blocks: vec![block(0, 0x40_1000..0x40_1010, 0x08), block(7, 0x40_1013..0x40_1098, 0b1_0011)],
            }],
            profile: Profile::default(),
        };
        assert_eq!(functions, [expected]);
        assert_eq!(functions[0].entry(), LinkAddr(0x40_1000));
        assert_eq!(functions[0].ranges[0].extent(), AddrRange::new(LinkAddr(0x40_1000), LinkAddr(0x40_1098)));
        let flags = functions[0].ranges[0].blocks[1].flags;
        assert!(flags.has_return() && flags.has_tail_call() && flags.has_indirect_branch());
        assert!(!flags.is_eh_pad() && !flags.can_fall_through());
    }

    #[test]
    fn version_2_split_function_with_profile() {
        let bytes = entry(&[
            &[2, 0b1111],
            &[2], // ranges
            &0x1000u64.to_le_bytes(),
            &[1, 0, 0, 4, 8],
            &0x9000u64.to_le_bytes(),
            &[1, 1, 0, 2, 1],
            &[100],                                            // entry count
            &[0x80, 0x02, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x08], // bb0: frequency 256, to bb1 for certain
            &[5, 0],                                           // bb1: frequency 5, no successors
        ]);
        let functions = parse(&bytes).unwrap();
        let starts: Vec<_> = functions[0].ranges.iter().map(|range| range.start).collect();
        assert_eq!(starts, [LinkAddr(0x1000), LinkAddr(0x9000)]);
        assert_eq!(
            functions[0].blocks().cloned().collect::<Vec<_>>(),
            [block(0, 0x1000..0x1004, 8), block(1, 0x9000..0x9002, 1)]
        );
        let expected = Profile {
            entry_count: Some(100),
            blocks: vec![
                BlockProfile {
                    frequency: Some(256),
                    post_link_count: None,
                    successors: vec![Successor {
                        id: 1,
                        probability: PROBABILITY_ONE,
                        post_link_count: None,
                    }],
                },
                BlockProfile { frequency: Some(5), ..BlockProfile::default() },
            ],
        };
        assert_eq!(functions[0].profile, expected);
    }

    #[test]
    fn omitted_blocks_are_counted_only() {
        let bytes = entry(&[&[2, 0b1_0001], &0x1000u64.to_le_bytes(), &[0x80, 0x01], &[9]]);
        let functions = parse(&bytes).unwrap();
        assert_eq!(functions[0].ranges[0].block_count, 128);
        assert!(functions[0].ranges[0].blocks.is_empty());
        assert_eq!(functions[0].profile, Profile { entry_count: Some(9), blocks: vec![] });
    }

    #[test]
    fn version_3_call_ends_cut_the_block_into_pieces() {
        let bytes = entry(&[
            &[3, 0b10_0000],
            &0x1000u64.to_le_bytes(),
            &[2],
            &[0, 0, 2, 5, 7, 3, 8], // bb0: calls end at +5 and +12, 3 bytes more
            &[1, 1, 0, 4, 1],       // bb1: a byte of padding, no calls
        ]);
        let functions = parse(&bytes).unwrap();
        let expected =
            Block { call_ends: vec![LinkAddr(0x1005), LinkAddr(0x100c)], ..block(0, 0x1000..0x100f, 8) };
        assert_eq!(functions[0].ranges[0].blocks, [expected, block(1, 0x1010..0x1014, 1)]);
    }

    #[test]
    fn version_4_hash_follows_the_metadata() {
        let bytes = entry(&[
            &[4, 0b110_0000],
            &0x1000u64.to_le_bytes(),
            &[1],
            &[0, 0, 1, 5, 0, 1],
            &0x1122_3344_5566_7788u64.to_le_bytes(),
        ]);
        let functions = parse(&bytes).unwrap();
        let expected = Block {
            call_ends: vec![LinkAddr(0x1005)],
            hash: Some(0x1122_3344_5566_7788),
            ..block(0, 0x1000..0x1005, 1)
        };
        assert_eq!(functions[0].ranges[0].blocks, [expected]);
    }

    #[test]
    fn version_5_has_two_feature_bytes_and_post_link_counts() {
        let bytes = entry(&[
            &[5, 0b1000_0111, 0],
            &0x1000u64.to_le_bytes(),
            &[1, 0, 0, 5, 1],
            &[3],           // entry count
            &[64, 11, 2],   // frequency, post-link count, successors
            &[1, 0x20, 10], // id, probability, post-link count
            &[2, 0x40, 1],
            &[2, 0], // and an entry of another version behind
            &0x2000u64.to_le_bytes(),
            &[0],
        ]);
        let functions = parse(&bytes).unwrap();
        let expected = BlockProfile {
            frequency: Some(64),
            post_link_count: Some(11),
            successors: vec![
                Successor { id: 1, probability: 0x20, post_link_count: Some(10) },
                Successor { id: 2, probability: 0x40, post_link_count: Some(1) },
            ],
        };
        assert_eq!(functions[0].profile, Profile { entry_count: Some(3), blocks: vec![expected] });
        assert_eq!((functions[1].version, functions[1].entry()), (2, LinkAddr(0x2000)));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        assert_eq!(parse(&[6]), Err(Error::Version { at: 0, version: 6 }));
        assert_eq!(parse(&[0]), Err(Error::Version { at: 0, version: 0 }));
        assert_eq!(parse(&[2, 0x20]), Err(Error::Features { at: 1, version: 2, unknown: 0x20 }));
        assert_eq!(parse(&[3, 0x40]), Err(Error::Features { at: 1, version: 3, unknown: 0x40 }));
        assert_eq!(parse(&[5, 0, 1]), Err(Error::Features { at: 1, version: 5, unknown: 0x100 }));
        assert_eq!(parse(&[2, 8, 0]), Err(Error::NoRanges { at: 2 }));
    }

    #[test]
    fn a_count_beyond_the_section_ends_with_the_section() {
        let bytes = entry(&[&[2, 0], &[0; 8], &[0xff, 0xff, 0xff, 0xff, 0x0f]]);
        let fault = FieldError { at: 15, field: "block id", fault: FieldFault::CutShort };
        assert_eq!(parse(&bytes), Err(Error::Field(fault)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            version in 0u8..8,
            rest in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut bytes = vec![version];
            bytes.extend(rest);
            let _ = parse(&bytes);
        }
    }
}
