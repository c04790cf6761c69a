//! The control stream: by which exit a thread left each piece of code, one *tag* after the other.
//!
//! # The stream
//!
//! It begins with how many tags there are, as a number of 7 bits in a byte, lowest first, the highest bit set
//! in all but the last byte. Then come six columns (see `columns`):
//!
//! | column | holds |
//! |---|---|
//! | 0 | runs: how many tags, one after the other, were as expected |
//! | 1 | codes: what a tag was that was not expected |
//! | 2 to 5 | the bytes of differences, the lowest first |
//!
//! Runs and codes alternate. First comes a run, then a code for the tag behind it, then another run, and so
//! on; the last is a run. Each code stands for one tag:
//!
//! | code | the tag |
//! |---|---|
//! | 0 | what came after the same four tags the last time, if that is in `places`; 0 if that is the tag itself |
//! | 1 to 4 | what came after the last tag when something else was expected: the latest such, the one before it, … |
//! | 5 to 7 | the last tag and a difference of 2, 3 or 4 bytes, modulo 2³² |
//!
//! If several would do, it is the first of them.
//!
//! # What is expected
//!
//! Threads go the same ways again. A pointer, `again`, follows an earlier part of the same stream, and what
//! was there is expected here too. It starts at 0, and goes on by one with each tag. After a tag that was not
//! expected, it moves to behind the latest tag that was not expected either and came after the same three.
//! Tables, all zero at first:
//!
//! | table | entries | index | holds |
//! |---|---|---|---|
//! | `past` | 2¹⁵ | number of the tag in the stream | the tag |
//! | `places` | 2¹⁴ | hash of four tags | number of the tag that came after them, 32 bits |
//! | `followers` | 2¹³ | a tag | four tags that were not expected after it |
//!
//! Indices are modulo the number of entries; nothing tells entries apart that meet. A tag is expected if it equals
//! `past[again]` and is not 0. A step, with a tag:
//!
//! 1. If the tag was not expected, it goes to the front of the `followers` of the tag before, which is 0 at first: it moves
//!    there if it is among them, otherwise the last of the four falls out.
//! 2. `past[number]` becomes the tag, and `again` goes on by one.
//! 3. If the tag was not expected, the hash of the last four tags is made: with `a` the last of them, `b` the one before and so
//!    on, the upper 16 bits of `(a · M xor b · M · 2⁸ xor c · M · 2¹⁶ xor d · M · 2²⁴) · M` modulo 2³², where `M` is 0x9e3779b1.
//!    `again` becomes `places[hash]`, and `places[hash]` the number of the next tag.
//!
//! # Why so
//!
//! Tables of what followed the last few tags, with counters that say how far to trust them, were tried first.
//! They took 30 % more room than a pointer, and twice the time to read: a pointer finds what it needs next to
//! what it had, and looks up something only where the unexpected happens. Tables are small enough for a processor's own cache: four times as
//! large, they save 1 % of the room, and take up to a tenth more time.

use crate::columns::{ColumnReaders, ColumnWriters, put_number, take_number};
use crate::difference;
use crate::error::StreamError;
use crate::runs::{CODES, next_run, put_run};
use crate::table::zeroed;

/// The column of the lowest bytes of differences; three more follow.
const BYTES: usize = 2;
const COLUMNS: usize = 6;

/// The first code of a difference, for [`difference::LEAST`] bytes.
const DIFFERENCE: u8 = 5;

/// How many tags are kept.
pub(crate) const PAST: usize = 1 << 15;
const PLACES: usize = 1 << 14;
/// How many of the last tags are asked for where one was not expected.
pub(crate) const LOOKS_BACK: usize = 4;
const FOLLOWERS: usize = 1 << 13;

const MIX: u32 = 0x9e37_79b1;

/// How many tags are looked at at once.
pub(crate) const BLOCK: usize = 8;

/// Something that is kept of each of the latest tags: the tag, and what else somebody wants to know when it comes again.
pub(crate) trait Kept: Copy + Default {
    fn tag(&self) -> u32;
}

impl Kept for u32 {
    #[inline(always)]
    fn tag(&self) -> u32 {
        *self
    }
}

/// What foretells tags, the same in writer and reader.
struct Foresight<K> {
    past: Box<[K; PAST]>,
    places: Box<[u32; PLACES]>,
    followers: Box<[[u32; 4]; FOLLOWERS]>,
    /// The number of the next tag.
    now: u32,
    again: u32,
}

impl<K: Kept> Foresight<K> {
    fn new() -> Self {
        Self { past: zeroed(), places: zeroed(), followers: zeroed(), now: 0, again: 0 }
    }

    fn forget(&mut self) {
        // Of the past, only this is asked for before it is written: what is expected first, and what comes before the first tags.
        self.past[0] = K::default();
        self.past[PAST - 4..].fill(K::default());
        self.places.fill(0);
        self.followers.fill([0; 4]);
        (self.now, self.again) = (0, 0);
    }

    #[inline(always)]
    fn expected(&self) -> K {
        self.past[self.again as usize % PAST]
    }

    /// The tag that many tags ago.
    fn ago(&self, distance: u32) -> u32 {
        self.past[self.now.wrapping_sub(distance) as usize % PAST].tag()
    }

    fn place(&self) -> usize {
        let mixed = (0..LOOKS_BACK as u32).map(|i| self.ago(i + 1).wrapping_mul(MIX) << (8 * i));
        (mixed.fold(0, |all, one| all ^ one).wrapping_mul(MIX) >> 16) as usize % PLACES
    }

    /// What else it may be, by code.
    fn others(&self) -> [u32; DIFFERENCE as usize] {
        let [a, b, c, d] = self.followers[self.ago(1) as usize % FOLLOWERS];
        let place = self.places[self.place()];
        let again = if place == self.now { 0 } else { self.past[place as usize % PAST].tag() };
        [again, a, b, c, d]
    }

    #[inline(always)]
    fn learn(&mut self, kept: K) {
        self.past[self.now as usize % PAST] = kept;
        self.now = self.now.wrapping_add(1);
        self.again = self.again.wrapping_add(1);
    }

    /// Learns a tag that was not expected. Gives back where in `places` is what comes after it.
    fn learn_new(&mut self, kept: K) -> usize {
        let tag = kept.tag();
        let followers = &mut self.followers[self.ago(1) as usize % FOLLOWERS];
        let from = followers[..3].iter().position(|&follower| follower == tag).unwrap_or(3);
        followers[..=from].rotate_right(1);
        followers[0] = tag;
        self.learn(kept);
        let place = self.place();
        self.again = std::mem::replace(&mut self.places[place], self.now);
        place
    }
}

/// Writes a control stream. With each tag, something is kept.
pub struct ControlEncoder<K = u32> {
    foresight: Foresight<K>,
    columns: ColumnWriters<COLUMNS>,
    /// How many tags there were before the last run.
    before: u64,
    len: u64,
}

impl<K: Kept> Default for ControlEncoder<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// What is expected, as long as that is what comes.
pub(crate) struct Following<'a, K> {
    /// At hand for as long as this takes.
    past: &'a mut [K; PAST],
    to: u32,
    from: u32,
}

impl<K: Copy> Following<'_, K> {
    /// What was kept of the tag that is expected.
    #[inline(always)]
    pub(crate) fn expected(&self) -> K {
        self.past[self.from as usize % PAST]
    }

    /// It has come, and this is kept of it.
    #[inline(always)]
    pub(crate) fn keep(&mut self, kept: K) {
        self.past[self.to as usize % PAST] = kept;
        self.to = self.to.wrapping_add(1);
        self.from = self.from.wrapping_add(1);
    }

    /// The number of the next tag.
    #[inline(always)]
    pub(crate) fn now(&self) -> u32 {
        self.to
    }
}

#[expect(private_bounds, reason = "others keep tags alone")]
impl<K: Kept> ControlEncoder<K> {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self { foresight: Foresight::new(), columns: ColumnWriters::new(), before: 0, len: 0 }
    }

    /// Appends a tag. If it was not expected, gives back where what comes after it is in `places`.
    #[inline]
    pub fn push(&mut self, kept: K) -> Option<usize> {
        let tag = kept.tag();
        if self.foresight.expected().tag() == tag && tag != 0 {
            self.len += 1;
            self.foresight.learn(kept);
            None
        } else {
            Some(self.push_new(kept))
        }
    }

    /// To append tags as long as they are expected. Afterwards it has to be said [how many](Self::go_on) these were.
    #[inline(always)]
    pub(crate) fn follow(&mut self) -> Following<'_, K> {
        let Foresight { past, now, again, .. } = &mut self.foresight;
        Following { past, to: *now, from: *again }
    }

    /// Goes on behind so many tags that were expected.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, count: u32) {
        let Foresight { now, again, .. } = &mut self.foresight;
        (*now, *again) = (now.wrapping_add(count), again.wrapping_add(count));
        self.len += u64::from(count);
    }

    /// Appends as many of these tags as were expected, [`BLOCK`] at a time if they are all there and `is_next` says so.
    #[inline(always)]
    pub(crate) fn push_blocks(
        &mut self,
        tags: &[[u8; 4]],
        mut is_next: impl FnMut(&[K; BLOCK]) -> bool,
    ) -> usize {
        let Foresight { past, now, again, .. } = &mut self.foresight;
        let (mut to, mut from) = (*now, *again);
        let mut count = 0;
        for tags in tags.as_chunks::<BLOCK>().0 {
            let (here, there) = (to as usize % PAST, from as usize % PAST);
            // What lies around the end of the table, or is just being written, is for others. That may be expected, too, instead of what was so
            // long ago that it has been written over.
            if here.max(there) > PAST - BLOCK || (PAST + here - there) % PAST < BLOCK {
                break;
            }
            let block: [K; BLOCK] = std::array::from_fn(|i| past[there + i]);
            let differs = block
                .iter()
                .zip(tags)
                .fold(0, |differs, (kept, tag)| differs | (kept.tag() ^ u32::from_le_bytes(*tag)));
            if differs != 0 || !is_next(&block) {
                break;
            }
            past[here..here + BLOCK].copy_from_slice(&block);
            to = to.wrapping_add(BLOCK as u32);
            from = from.wrapping_add(BLOCK as u32);
            count += BLOCK;
        }
        (*now, *again) = (to, from);
        self.len += count as u64;
        count
    }

    /// Appends a tag that was not expected.
    fn push_new(&mut self, kept: K) -> usize {
        put_run(&mut self.columns, self.len - self.before);
        self.len += 1;
        self.before = self.len;
        let tag = kept.tag();
        if let Some(code) = self.foresight.others().iter().position(|&other| other == tag) {
            self.columns.push(CODES, code as u8);
        } else {
            let folded = difference::fold((tag.wrapping_sub(self.foresight.ago(1)) as i32).into());
            self.columns.push(CODES, DIFFERENCE + difference::len(folded) - difference::LEAST);
            difference::put(&mut self.columns, BYTES, folded);
        }
        self.foresight.learn_new(kept)
    }

    /// The stream. From here on, it is a new one.
    #[must_use]
    pub fn finish(&mut self) -> Vec<u8> {
        put_run(&mut self.columns, self.len - self.before);
        let mut stream = Vec::new();
        put_number(&mut stream, self.len);
        self.columns.finish(&mut stream);
        self.foresight.forget();
        (self.before, self.len) = (0, 0);
        stream
    }
}

/// Reads a control stream.
pub struct ControlDecoder<'a> {
    foresight: Foresight<u32>,
    columns: ColumnReaders<'a, COLUMNS>,
    run: u64,
    left: u64,
}

impl<'a> ControlDecoder<'a> {
    /// From the bytes that [`ControlEncoder::finish`] gave.
    pub fn new(mut stream: &'a [u8]) -> Result<Self, StreamError> {
        let left = take_number(&mut stream)?;
        let mut columns = ColumnReaders::new(stream)?;
        let run = next_run(&mut columns)?;
        Ok(Self { foresight: Foresight::new(), columns, run, left })
    }

    /// How many tags are left. A damaged stream may have fewer than it says.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next tag, none at the end; and if it was not expected, where what comes after it is in `places`.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an iterator goes on after an error")]
    pub fn next(&mut self) -> Result<Option<(u32, Option<usize>)>, StreamError> {
        if self.left == 0 {
            return self.end();
        }
        self.left -= 1;
        if self.run > 0 {
            self.run -= 1;
            let tag = self.foresight.expected();
            self.foresight.learn(tag);
            return Ok(Some((tag, None)));
        }
        let (tag, place) = self.next_new()?;
        Ok(Some((tag, Some(place))))
    }

    fn next_new(&mut self) -> Result<(u32, usize), StreamError> {
        let code = self.columns.next(CODES)?;
        let tag = match code {
            0..DIFFERENCE => self.foresight.others()[usize::from(code)],
            DIFFERENCE..8 => {
                let len = code - DIFFERENCE + difference::LEAST;
                let folded = difference::next(&mut self.columns, BYTES, len)?;
                self.foresight.ago(1).wrapping_add(difference::unfold(folded) as u32)
            }
            _ => return Err(StreamError::UnknownCode(code)),
        };
        self.run = next_run(&mut self.columns)?;
        Ok((tag, self.foresight.learn_new(tag)))
    }

    #[cold]
    fn end<T>(&self) -> Result<Option<T>, StreamError> {
        if self.run > 0 {
            return Err(StreamError::TooLong);
        }
        self.columns.finish()?;
        Ok(None)
    }
}
