//! Reads and writes `.rcalls`. See `docs/calls-format.md`.

use crate::model::{Body, Function, Item, Kind, Module, NONE, Origin, Sequence, Site, Thread};
use relive_abi::hash;
use std::io::Read as _;

/// How a file begins.
pub const MAGIC: [u8; 8] = *b"RLVCALLS";
/// The version that is read and written.
pub const VERSION: u64 = 1;

/// Magic, version, how long the contents are, packed and not, and the check sum of what is packed.
const HEADER: usize = 40;
/// How much [`zstd`] tries: see `docs/calls-format.md` for what that gives.
const LEVEL: i32 = 9;
/// What contents may unpack to: this, and [`RATIO`] times their length.
const LEAST: u64 = 1 << 20;
const RATIO: u64 = 200;
/// How a frame begins that means nothing; its length follows.
const SKIPPED_FRAME: u32 = 0x184d_2a50;
/// The memory that unpacking may take beside: 2 to this power.
const WINDOW_LOG: u32 = 27;

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It does not begin like one.
    #[error("not a call sequence")]
    NotCalls,
    /// A later version of this tool wrote it.
    #[error("a call sequence of version {0}; this tool reads version {VERSION}")]
    Version(u64),
    /// It is shorter than it says, or longer.
    #[error("damaged: it should have {expected} bytes and has {found}")]
    Length {
        /// How many it should have.
        expected: u64,
        /// How many it has.
        found: u64,
    },
    /// The contents cannot be unpacked.
    #[error("damaged: cannot be unpacked: {0}")]
    Packing(std::io::Error),
    /// It is not what was written.
    #[error("damaged: the packed contents do not have the check sum that the header says")]
    Checksum,
    /// A value contradicts another.
    #[error("damaged: byte {at} of the unpacked contents: {what}")]
    Contents {
        /// Behind which byte.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// The bytes of a sequence.
#[must_use]
pub fn write(sequence: &Sequence) -> Vec<u8> {
    let contents = contents(sequence);
    let packed = pack(&contents);
    let mut bytes = Vec::with_capacity(HEADER + packed.len());
    bytes.extend(MAGIC);
    for number in [VERSION, packed.len() as u64, contents.len() as u64, hash::of(&packed)] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(packed);
    bytes
}

/// Reads a sequence.
///
/// # Errors
/// If it is not one, or damaged.
pub fn read(bytes: &[u8]) -> Result<Sequence, ReadError> {
    if !bytes.starts_with(&MAGIC) {
        return Err(ReadError::NotCalls);
    }
    let found = bytes.len() as u64;
    let short = ReadError::Length { expected: HEADER as u64, found };
    let (header, packed) = bytes.split_at_checked(HEADER).ok_or(short)?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let version = number(8);
    if version != VERSION {
        return Err(ReadError::Version(version));
    }
    let (len, unpacked, checksum) = (number(16), number(24), number(32));
    if len != packed.len() as u64 {
        return Err(ReadError::Length { expected: len.saturating_add(HEADER as u64), found });
    }
    if hash::of(packed) != checksum {
        return Err(ReadError::Checksum);
    }
    let contents = unpack(packed, unpacked)?;
    Contents { bytes: &contents, at: 0 }.sequence()
}

fn pack(contents: &[u8]) -> Vec<u8> {
    let mut packed = zstd::bulk::compress(contents, LEVEL).expect("memory for compression");
    // What is much the same everywhere packs better than readers believe.
    let least = (contents.len() as u64).saturating_sub(LEAST).div_ceil(RATIO) as usize;
    if let Some(missing) = least.checked_sub(packed.len()).filter(|&missing| missing > 0) {
        packed.extend(SKIPPED_FRAME.to_le_bytes());
        packed.extend((missing as u32).to_le_bytes());
        packed.resize(packed.len() + missing, 0);
    }
    packed
}

fn unpack(packed: &[u8], len: u64) -> Result<Vec<u8>, ReadError> {
    let limit = LEAST.saturating_add((packed.len() as u64).saturating_mul(RATIO));
    let mut contents = Vec::new();
    zstd::Decoder::new(packed)
        .and_then(|mut decoder| {
            decoder.window_log_max(WINDOW_LOG)?;
            decoder.single_frame().take(limit.min(len).saturating_add(1)).read_to_end(&mut contents)
        })
        .map_err(ReadError::Packing)?;
    match contents.len() as u64 == len {
        true => Ok(contents),
        false => Err(ReadError::Contents { at: contents.len(), what: "not as long as the header says" }),
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// One more, so that 0 stands for [`NONE`].
fn put_optional(bytes: &mut Vec<u8>, number: u32) {
    put(bytes, if number == NONE { 0 } else { u64::from(number) + 1 });
}

fn contents(sequence: &Sequence) -> Vec<u8> {
    let Sequence { modules, functions, sites, bodies, threads } = sequence;
    let mut bytes = Vec::new();
    let out = &mut bytes;
    put(out, modules.len() as u64);
    for Module { path, build_id } in modules {
        put_text(out, path);
        put_text(out, build_id);
    }
    put(out, functions.len() as u64);
    for Function { module, address, name, exempt } in functions {
        put_optional(out, *module);
        put(out, *address);
        put(out, u64::from(*exempt) << 1 | u64::from(name.is_some()));
        name.iter().for_each(|name| put_text(out, name));
    }
    put(out, sites.len() as u64);
    for Site { module, address, kind } in sites {
        put_optional(out, *module);
        put(out, *address);
        put(out, *kind as u64);
    }
    // A column for each thing that items tell: what is in one is much alike.
    put(out, bodies.len() as u64);
    bodies.iter().for_each(|body| put_optional(out, body.function));
    bodies.iter().for_each(|body| put(out, body.origin as u64));
    bodies.iter().for_each(|body| put(out, body.items.len() as u64));
    for item in bodies.iter().flat_map(|body| &body.items) {
        put_optional(out, item.site);
    }
    for (number, body) in bodies.iter().enumerate() {
        body.items.iter().for_each(|item| put(out, number as u64 - 1 - u64::from(item.body)));
    }
    for item in bodies.iter().flat_map(|body| &body.items) {
        put(out, item.times);
    }
    put(out, threads.len() as u64);
    for Thread { process, thread, calls, handlers } in threads {
        [process, thread, calls, handlers].into_iter().for_each(|&number| put(out, number.into()));
    }
    bytes
}

/// Contents that are read.
struct Contents<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Contents<'_> {
    fn wrong<T>(&self, what: &'static str) -> Result<T, ReadError> {
        Err(ReadError::Contents { at: self.at, what })
    }

    fn number(&mut self) -> Result<u64, ReadError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else { return self.wrong("it ends in the middle") };
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        self.wrong("a number of more than 64 bits")
    }

    /// How many of something follow, each of at least so many bytes.
    fn count(&mut self, least: usize) -> Result<usize, ReadError> {
        let count = self.number()?;
        let room = (self.bytes.len() - self.at) / least;
        if count > room as u64 {
            self.wrong("more of them than there is room for")
        } else {
            Ok(count as usize)
        }
    }

    fn text(&mut self) -> Result<String, ReadError> {
        let len = self.count(1)?;
        let Ok(text) = std::str::from_utf8(&self.bytes[self.at..self.at + len]) else {
            return self.wrong("a name that is not UTF-8");
        };
        self.at += len;
        Ok(text.to_string())
    }

    /// The number of one of so many.
    fn one_of(&mut self, count: usize) -> Result<u32, ReadError> {
        let number = self.number()?;
        if number >= count as u64 { self.wrong("a number of what is not there") } else { Ok(number as u32) }
    }

    /// The same, or none.
    fn optional(&mut self, count: usize) -> Result<u32, ReadError> {
        Ok(self.one_of(count + 1)?.checked_sub(1).unwrap_or(NONE))
    }

    fn word(&mut self) -> Result<u32, ReadError> {
        let number = self.number()?;
        u32::try_from(number).or_else(|_| self.wrong("a number of more than 32 bits"))
    }

    fn several<T>(
        &mut self,
        least: usize,
        mut one: impl FnMut(&mut Self) -> Result<T, ReadError>,
    ) -> Result<Vec<T>, ReadError> {
        (0..self.count(least)?).map(|_| one(self)).collect()
    }

    fn sequence(mut self) -> Result<Sequence, ReadError> {
        let modules = self.several(2, |c| Ok(Module { path: c.text()?, build_id: c.text()? }))?;
        let functions = self.several(3, |c| {
            let (module, address, flags) = (c.optional(modules.len())?, c.number()?, c.one_of(4)?);
            let name = if flags & 1 != 0 { Some(c.text()?) } else { None };
            Ok(Function { module, address, name, exempt: flags & 2 != 0 })
        })?;
        let sites = self.several(3, |c| {
            let (module, address) = (c.optional(modules.len())?, c.number()?);
            Ok(Site { module, address, kind: Kind::ALL[c.one_of(Kind::ALL.len())? as usize] })
        })?;
        let bodies = self.bodies(functions.len(), sites.len())?;
        let threads = self.several(4, |c| {
            let thread =
                Thread { process: c.word()?, thread: c.word()?, calls: c.word()?, handlers: c.word()? };
            let is_part = |body: u32| bodies.get(body as usize).is_some_and(|body| body.function == NONE);
            if is_part(thread.calls) && is_part(thread.handlers) { Ok(thread) } else { c.wrong("not a list") }
        })?;
        if self.at != self.bytes.len() {
            return self.wrong("more than was expected");
        }
        Ok(Sequence { modules, functions, sites, bodies, threads })
    }

    fn bodies(&mut self, functions: usize, sites: usize) -> Result<Vec<Body>, ReadError> {
        let count = self.count(3)?;
        let mut bodies = Vec::with_capacity(count);
        for _ in 0..count {
            bodies.push(Body { function: self.optional(functions)?, ..Body::default() });
        }
        for body in &mut bodies {
            body.origin = Origin::ALL[self.one_of(Origin::ALL.len())? as usize];
        }
        let mut lens = Vec::with_capacity(count);
        let mut sum = 0;
        for _ in 0..count {
            let len = self.count(3)?;
            sum += len;
            lens.push(len);
        }
        if sum > (self.bytes.len() - self.at) / 3 {
            return self.wrong("more calls than there is room for");
        }
        for (body, len) in bodies.iter_mut().zip(lens) {
            for _ in 0..len {
                body.items.push(Item { site: self.optional(sites)?, body: 0, times: 0 });
            }
        }
        for number in 0..count {
            for item in 0..bodies[number].items.len() {
                // Behind this one, none is known yet: so there are no circles.
                let back = self.one_of(number)? as usize;
                let called = number - 1 - back;
                if bodies[called].function == NONE && bodies[called].items.is_empty() {
                    return self.wrong("a part without calls");
                }
                if (bodies[called].function == NONE) != (bodies[number].items[item].site == NONE) {
                    return self.wrong("a call without a function, or the other way round");
                }
                bodies[number].items[item].body = called as u32;
            }
        }
        for item in bodies.iter_mut().flat_map(|body| &mut body.items) {
            item.times = self.number()?;
            if item.times == 0 {
                return self.wrong("a call that did not happen");
            }
        }
        Ok(bodies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;
    use crate::builder::Stack;
    use proptest::prelude::*;

    /// Steps as numbers: calls of functions, and returns.
    fn sequence(steps: &[u8]) -> Sequence {
        let mut builder = Builder::default();
        let module = builder.module(&Module { path: "/opt/thing".into(), build_id: "abcd".into() });
        let mut stack = Stack::default();
        for &step in steps {
            match step % 4 {
                0 => builder.leave(&mut stack),
                which => {
                    let name = Some("f").filter(|_| which == 1);
                    let function = builder.function(module, u64::from(step), name);
                    let kind = Kind::ALL[usize::from(step % 3)];
                    let site = builder.site(Site { module, address: 1000 + u64::from(step), kind });
                    builder.enter(&mut stack, site, function, Origin::ALL[usize::from(which)]);
                }
            }
        }
        builder.thread(0, 77, stack, Stack::default());
        builder.finish()
    }

    fn check(bytes: &[u8]) {
        match read(bytes) {
            // It can be gone through, though it may be long.
            Ok(sequence) => {
                let _ = sequence.len();
                for thread in &sequence.threads {
                    let _ = sequence.steps(thread.calls).take(1000).count();
                }
                assert_eq!(read(&write(&sequence)).expect("as written"), sequence);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(steps in prop::collection::vec(any::<u8>(), 0..300)) {
            let sequence = sequence(&steps);
            prop_assert_eq!(read(&write(&sequence)).expect("as written"), sequence);
        }

        #[test]
        fn damage_is_noticed(
            steps in prop::collection::vec(any::<u8>(), 0..100),
            at in any::<prop::sample::Index>(),
            bit in 0u8..8,
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = write(&sequence(&steps));
            let mut flipped = bytes.clone();
            flipped[at.index(bytes.len())] ^= 1u8 << bit;
            prop_assert!(read(&flipped).is_err());
            prop_assert!(read(&bytes[..cut.index(bytes.len())]).is_err());
        }

        /// With a check sum that is right, so that what is behind it is reached.
        #[test]
        fn any_contents_are_read_or_refused(
            steps in prop::collection::vec(any::<u8>(), 0..60),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut contents = contents(&sequence(&steps));
            for (at, byte) in changes {
                let at = at.index(contents.len());
                contents[at] = byte;
            }
            let packed = pack(&contents);
            let mut bytes = write(&Sequence::default());
            bytes.truncate(16);
            for number in [packed.len() as u64, contents.len() as u64, hash::of(&packed)] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend(packed);
            check(&bytes);
        }
    }

    #[test]
    fn bodies_that_cannot_be_are_refused() {
        let of = |bodies: &[(u32, &[(u32, u8)])]| {
            // No modules; one function and one site in none of them.
            let mut bytes = vec![0, 1, 0, 9, 0, 1, 0, 9, 0, bodies.len() as u8];
            bytes.extend(bodies.iter().map(|body| body.0 as u8));
            bytes.extend(vec![0; bodies.len()]);
            bytes.extend(bodies.iter().map(|body| body.1.len() as u8));
            let items = || bodies.iter().flat_map(|body| body.1);
            bytes.extend(items().map(|item| item.0 as u8));
            bytes.extend(items().map(|item| item.1));
            bytes.extend(items().map(|_| 1));
            bytes.push(0);
            Contents { bytes: &bytes, at: 0 }.sequence()
        };
        assert!(of(&[(1, &[]), (0, &[(1, 0)])]).is_ok());
        assert!(of(&[(1, &[(1, 0)])]).is_err(), "before the first is none");
        assert!(of(&[(1, &[]), (1, &[(1, 1)])]).is_err(), "nor before that");
        assert!(of(&[(0, &[]), (1, &[(0, 0)])]).is_err(), "a part without calls");
        assert!(of(&[(1, &[]), (1, &[(0, 0)])]).is_err(), "a function without a site");
    }

    #[test]
    fn what_is_no_sequence_is_refused() {
        assert!(matches!(read(b"RLV"), Err(ReadError::NotCalls)));
        assert!(matches!(read(&MAGIC), Err(ReadError::Length { .. })));
        let mut later = write(&Sequence::default());
        later[8] = 2;
        assert!(matches!(read(&later), Err(ReadError::Version(2))));
    }
}
