//! The control stream: which way a thread took out of each piece of code, one *tag* after the other.
use crate::columns::{ColumnReaders, ColumnWriters, put_number, take_number};
use crate::difference;
use crate::error::StreamError;
use crate::runs::{CODES, next_run, put_run};

/// The column of the lowest bytes of differences; three more follow.
const BYTES: usize = 2;
const COLUMNS: usize = 6;

/// The first code of a difference, which has one byte.
const DIFFERENCE: u8 = 5;

const PAST: usize = 1 << 17;
const PLACES: usize = 1 << 16;
const TAGS: usize = 1 << 15;

/// What foretells tags, the same in writer and reader.
struct Foresight {
    past: Box<[u32; PAST]>,
    places: Box<[u32; PLACES]>,
    followers: Box<[[u32; 4]; TAGS]>,
    now: u32,
    again: u32,
    last: u32,
    path: u32,
}

impl Foresight {
    fn new() -> Self {
        Self { past: zeroed(), places: zeroed(), followers: zeroed(), now: 0, again: 0, last: 0, path: 0 }
    }

    #[inline(always)]
    fn expected(&self) -> u32 {
        self.past[self.again as usize % PAST]
    }

    #[inline(always)]
    fn place(&self) -> usize {
        (self.path.wrapping_mul(0x9e37_79b1) >> 16) as usize % PLACES
    }

    fn candidates(&self) -> [u32; DIFFERENCE as usize] {
        let [a, b, c, d] = self.followers[self.last as usize % TAGS];
        [self.past[self.places[self.place()] as usize % PAST], a, b, c, d]
    }

    #[inline(always)]
    fn learn(&mut self, tag: u32) {
        self.places[self.place()] = self.now;
        self.past[self.now as usize % PAST] = tag;
        self.now = self.now.wrapping_add(1);
        self.again = self.again.wrapping_add(1);
        self.last = tag;
        self.path = (self.path << SHIFT) ^ tag.wrapping_mul(0x9e37_79b1);
    }

    fn surprise(&mut self, tag: u32) {
        let followers = &mut self.followers[self.last as usize % TAGS];
        if followers[0] != tag {
            let [a, b, c, d] = *followers;
            *followers = if b == tag {
                [b, a, c, d]
            } else if c == tag {
                [c, a, b, d]
            } else {
                [tag, a, b, c]
            };
        }
        self.learn(tag);
        self.again = self.places[self.place()];
    }
}

const SHIFT: u32 = 6;

fn zeroed<T: Copy + Default, const N: usize>() -> Box<[T; N]> {
    vec![T::default(); N].try_into().ok().expect("as many as that")
}

/// Writes.
pub struct ControlEncoder {
    foresight: Foresight,
    columns: ColumnWriters<COLUMNS>,
    run: u64,
    len: u64,
}

impl Default for ControlEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ControlEncoder {
    /// n
    #[must_use]
    pub fn new() -> Self {
        Self { foresight: Foresight::new(), columns: ColumnWriters::new(), run: 0, len: 0 }
    }

    /// p
    #[inline]
    pub fn push(&mut self, tag: u32) {
        self.len += 1;
        if self.foresight.expected() == tag {
            self.run += 1;
            self.foresight.learn(tag);
        } else {
            self.event(tag);
            self.foresight.surprise(tag);
        }
    }

    fn event(&mut self, tag: u32) {
        put_run(&mut self.columns, self.run);
        self.run = 0;
        if let Some(code) = self.foresight.candidates().iter().position(|&candidate| candidate == tag) {
            self.columns.push(CODES, code as u8);
        } else {
            let folded = difference::fold(tag.wrapping_sub(self.foresight.last) as i32 as i64);
            self.columns.push(CODES, DIFFERENCE - 1 + difference::len(folded));
            difference::put(&mut self.columns, BYTES, folded);
        }
    }

    /// f
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        put_run(&mut self.columns, self.run);
        let mut stream = Vec::new();
        put_number(&mut stream, self.len);
        self.columns.finish(&mut stream);
        stream
    }
}

/// Reads.
pub struct ControlDecoder<'a> {
    foresight: Foresight,
    columns: ColumnReaders<'a, COLUMNS>,
    run: u64,
    left: u64,
}

impl<'a> ControlDecoder<'a> {
    /// n
    pub fn new(mut stream: &'a [u8]) -> Result<Self, StreamError> {
        let left = take_number(&mut stream)?;
        let mut columns = ColumnReaders::new(stream)?;
        let run = next_run(&mut columns)?;
        Ok(Self { foresight: Foresight::new(), columns, run, left })
    }

    /// n
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<u32>, StreamError> {
        if self.left == 0 {
            return self.end();
        }
        self.left -= 1;
        let tag = if self.run > 0 {
            self.run -= 1;
            let tag = self.foresight.expected();
            self.foresight.learn(tag);
            tag
        } else {
            let tag = self.event()?;
            self.foresight.surprise(tag);
            tag
        };
        Ok(Some(tag))
    }

    #[cold]
    fn end(&mut self) -> Result<Option<u32>, StreamError> {
        if self.run > 0 {
            return Err(StreamError::TooLong);
        }
        self.columns.finish()?;
        Ok(None)
    }

    fn event(&mut self) -> Result<u32, StreamError> {
        let code = self.columns.next(CODES)?;
        let tag = match self.foresight.candidates().get(usize::from(code)) {
            Some(&tag) => tag,
            None if code - DIFFERENCE < 4 => {
                let folded = difference::next(&mut self.columns, BYTES, code - DIFFERENCE + 1)?;
                self.foresight.last.wrapping_add(difference::unfold(folded) as u32)
            }
            None => return Err(StreamError::UnknownCode(code)),
        };
        self.run = next_run(&mut self.columns)?;
        Ok(tag)
    }
}
