//! Reads the file of a trace.

use super::{About, Begun, ChunkHead, END, HEAD_LEN, MAGIC, Module, Segment, TAIL_LEN, VERSION, kind};
use crate::columns::take_number;
use crate::process::Process;
use crate::replay::{Replay, Source, Wrong, words};
use crate::units::{State, Units, Words};
use crate::visit::Visitor;
use crate::{ControlDecoder, StreamError, ValueDecoder, local};
use relive_abi::trace::{Call, CallResult, Stop, Tag};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// How long the index of a trace may be when it is unpacked; a longer one is not looked at.
const MOST_INDEX: usize = 1 << 30;
/// The same for one chunk of code.
const MOST_CODE: usize = 1 << 28;
/// No segment has more records: three times as many as a thread can write down before one is closed.
const MOST_RECORDS: u64 = 1 << 26;

/// A trace that can be replayed.
pub struct Trace {
    file: File,
    about: About,
    modules: Vec<Module>,
    segments: Vec<Segment>,
    processes: BTreeMap<u32, Known>,
    cut_at: Option<u64>,
}

/// A process, and where its code is in the file.
struct Known {
    begun: Begun,
    code: Vec<(u64, u64)>,
    process: OnceLock<Result<Process, String>>,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It is something else.
    #[error("this is not a trace: it does not begin like one")]
    NotATrace,
    /// It is of another version of relive.
    #[error("this is a trace of version {0}, and only version {VERSION} can be read")]
    Version(u32),
    /// A part of it cannot be read.
    #[error("at byte {at}: {what}")]
    Damaged {
        /// Where.
        at: u64,
        /// What is wrong.
        what: String,
    },
}

fn damaged(at: u64, what: impl ToString) -> TraceError {
    TraceError::Damaged { at, what: what.to_string() }
}

impl Trace {
    /// Opens a file. If it was cut off, what comes before the cut can be read: see [`Trace::cut_at`].
    ///
    /// # Errors
    /// If it is not a trace, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::of(File::open(path)?)
    }

    /// The same for a file that is open already.
    ///
    /// # Errors
    /// As above.
    pub fn of(file: File) -> Result<Self, TraceError> {
        let len = file.metadata()?.len();
        let mut head = [0; HEAD_LEN as usize];
        file.read_exact_at(&mut head, 0).map_err(|_| TraceError::NotATrace)?;
        if head[..8] != MAGIC {
            return Err(TraceError::NotATrace);
        }
        let version = Words(&head[8..]).u32().unwrap_or(0);
        if version != VERSION {
            return Err(TraceError::Version(version));
        }
        let mut trace = Self {
            file,
            about: About::default(),
            modules: Vec::new(),
            segments: Vec::new(),
            processes: BTreeMap::new(),
            cut_at: None,
        };
        match trace.index(len)? {
            Some(index) => {
                trace.read_index(&index).ok_or_else(|| damaged(len, "the index makes no sense"))??
            }
            None => trace.scan(len)?,
        }
        Ok(trace)
    }

    /// How it was made.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Files that code came from.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// All segments, in the order in which they were written: those of a thread one behind the other.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The numbers of all processes.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.processes.keys().copied()
    }

    /// The number that the kernel gave a process.
    #[must_use]
    pub fn pid(&self, process: u32) -> Option<u32> {
        self.processes.get(&process).map(|known| known.begun.pid)
    }

    /// If the file was not finished, where what can be read ends.
    #[must_use]
    pub fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// A process. Its code is read the first time.
    ///
    /// # Errors
    /// If its code cannot be read.
    pub fn process(&self, number: u32) -> Result<&Process, TraceError> {
        let unknown = || damaged(0, format_args!("there is no process {number}"));
        let known = self.processes.get(&number).ok_or_else(unknown)?;
        // Those that it was forked off come first, the oldest of all before the others.
        let mut line = vec![known];
        while let Some(parent) = line.last().and_then(|last| self.processes.get(&last.begun.older()?.0))
            && parent.process.get().is_none()
        {
            line.push(parent);
        }
        let read = |known: &Known| self.read_process(known).map_err(|error| error.to_string());
        while let Some(next) = line.pop() {
            next.process.get_or_init(|| read(next));
        }
        let read = known.process.get_or_init(|| read(known));
        read.as_ref().map_err(|what| damaged(known.code.first().map_or(0, |(at, _)| *at), what))
    }

    fn read_process(&self, known: &Known) -> Result<Process, TraceError> {
        let Begun { number, pid, .. } = known.begun;
        let mut process = Process::new(number, pid, self.about.kind());
        if let Some((parent, units, mappings)) = known.begun.older() {
            process.inherit(self.process(parent)?, units as usize, mappings as usize);
        }
        for &(at, len) in &known.code {
            let packed = self.bytes(at + ChunkHead::LEN, len)?;
            let code = zstd::bulk::decompress(&packed, MOST_CODE).map_err(|error| damaged(at, error))?;
            let mut rest = &*code;
            while !rest.is_empty() {
                let mut words = Words(rest);
                let head = words.u32().zip(words.u32());
                let record = head.and_then(|(kind, len)| Some((kind, words.0.get(..len as usize)?)));
                let (kind, body) = record.ok_or_else(|| damaged(at, "a record of code is cut short"))?;
                process.add(kind, body);
                rest = &words.0[body.len()..];
            }
        }
        Ok(process)
    }

    /// Tells a visitor of everything that happens in a segment.
    ///
    /// # Errors
    /// If a part of it cannot be read. What comes before has been told.
    pub fn replay(&self, segment: &Segment, visitor: &mut impl Visitor) -> Result<(), TraceError> {
        let mut replay = segment.state.as_ref().map_or_else(Replay::begin, Replay::with);
        self.unpacked(segment, |units, mut source| replay.run(units, &mut source, visitor))
    }

    /// The same without accesses to memory, of which nothing is read.
    ///
    /// # Errors
    /// As above.
    pub fn replay_control(&self, segment: &Segment, visitor: &mut impl Visitor) -> Result<(), TraceError> {
        self.unpacked(segment, |units, mut source| Replay::control().run(units, &mut source, visitor))
    }

    /// Hands out what a thread has written down in a segment.
    pub(super) fn unpacked(
        &self,
        segment: &Segment,
        read: impl FnOnce(&Units, Packed<'_>) -> Result<(), Wrong>,
    ) -> Result<(), TraceError> {
        let units = &self.process(segment.process)?.units;
        let body = self.body(segment)?;
        let [_, control, values, rest] =
            parts(segment, &body).ok_or_else(|| damaged(segment.at, "a segment is shorter than it says"))?;
        let wrong = |error: Wrong| damaged(segment.at, error);
        let rest = zstd::bulk::decompress(rest, MOST_CODE).map_err(|error| damaged(segment.at, error))?;
        let streams = Streams::new(segment, control, values, units).map_err(|error| wrong(error.into()))?;
        if streams.left() > MOST_RECORDS {
            return Err(damaged(segment.at, "a segment says that it has more records than any can have"));
        }
        read(units, Packed { streams, rest: &rest }).map_err(wrong)
    }

    /// The numbers of the units that are executed in a segment, in the order in which they are first.
    ///
    /// # Errors
    /// If that part of it cannot be read.
    pub fn executed(&self, segment: &Segment) -> Result<Vec<u32>, TraceError> {
        let body = self.body(segment)?;
        let packed = parts(segment, &body).map(|[executed, ..]| executed);
        let packed = packed.ok_or_else(|| damaged(segment.at, "a segment is shorter than it says"))?;
        let bytes = zstd::bulk::decompress(packed, MOST_CODE).map_err(|error| damaged(segment.at, error))?;
        let mut rest = &*bytes;
        let mut all = Vec::new();
        while !rest.is_empty() {
            let number = take_number(&mut rest).map_err(|error| damaged(segment.at, error))?;
            all.push(number as u32);
        }
        Ok(all)
    }

    fn body(&self, segment: &Segment) -> Result<Vec<u8>, TraceError> {
        let head =
            self.chunk_head(segment.at)?.ok_or_else(|| damaged(segment.at, "no segment begins here"))?;
        let body = self.bytes(segment.at + ChunkHead::LEN, head.len)?;
        if crc32fast::hash(&body) != head.sum {
            return Err(damaged(segment.at, "the check sum of a segment is wrong"));
        }
        Ok(body)
    }

    fn bytes(&self, at: u64, len: u64) -> Result<Vec<u8>, TraceError> {
        // Nobody is made to take memory for what is not there.
        if at.saturating_add(len) > self.file.metadata()?.len() {
            return Err(damaged(at, "the file is shorter than this says"));
        }
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    fn chunk_head(&self, at: u64) -> Result<Option<ChunkHead>, TraceError> {
        let bytes = match self.bytes(at, ChunkHead::LEN) {
            Err(TraceError::Damaged { .. }) => return Ok(None),
            bytes => bytes?,
        };
        Ok(ChunkHead::from_bytes(&bytes))
    }

    /// The index, if the file was finished.
    fn index(&self, len: u64) -> Result<Option<Vec<u8>>, TraceError> {
        let Some(tail_at) = len.checked_sub(TAIL_LEN).filter(|&at| at >= HEAD_LEN) else { return Ok(None) };
        let tail = self.bytes(tail_at, TAIL_LEN)?;
        if tail[8..] != END {
            return Ok(None);
        }
        let at = Words(&tail).u64().unwrap_or(0);
        let Some(head) = self.chunk_head(at)?.filter(|head| head.kind == kind::INDEX) else {
            return Ok(None);
        };
        let body = self.bytes(at + ChunkHead::LEN, head.len)?;
        if crc32fast::hash(&body) != head.sum {
            return Ok(None);
        }
        Ok(zstd::bulk::decompress(&body, MOST_INDEX).ok())
    }

    fn read_index(&mut self, mut index: &[u8]) -> Option<Result<(), TraceError>> {
        for _ in 0..take_number(&mut index).ok()? {
            let at = take_number(&mut index).ok()?;
            let head = match self.chunk_head(at) {
                Ok(head) => head?,
                Err(error) => return Some(Err(error)),
            };
            if let Err(error) = self.chunk(at, &head) {
                return Some(Err(error));
            }
        }
        for _ in 0..take_number(&mut index).ok()? {
            let mut number = || take_number(&mut index).ok();
            let (process, at, len) = (number()?, number()?, number()?);
            self.segments.push(Segment::take(&mut index, process as u32, at, len)?);
        }
        Some(Ok(()))
    }

    /// Finds all chunks of a file that was not finished.
    fn scan(&mut self, len: u64) -> Result<(), TraceError> {
        let mut at = HEAD_LEN;
        while let Some(head) = self.chunk_head(at)? {
            let end = (at + ChunkHead::LEN).saturating_add(head.len);
            if end > len {
                break;
            }
            let body = self.bytes(at + ChunkHead::LEN, head.len)?;
            if crc32fast::hash(&body) != head.sum {
                break;
            }
            if head.kind == kind::SEGMENT {
                let segment = Segment::take(&mut &*body, head.process, at, head.len);
                self.segments.push(segment.ok_or_else(|| damaged(at, "a segment makes no sense"))?);
            } else {
                self.chunk(at, &head)?;
            }
            at = end;
        }
        self.cut_at = Some(at);
        Ok(())
    }

    /// Takes in a chunk that is no segment.
    fn chunk(&mut self, at: u64, head: &ChunkHead) -> Result<(), TraceError> {
        match head.kind {
            kind::ABOUT => self.about = self.json(at, head)?,
            kind::MODULE => self.modules.push(self.json(at, head)?),
            kind::PROCESS => {
                let begun: Begun = self.json(at, head)?;
                let known = Known { begun, code: Vec::new(), process: OnceLock::new() };
                self.processes.insert(begun.number, known);
            }
            kind::CODE => {
                if let Some(known) = self.processes.get_mut(&head.process) {
                    known.code.push((at, head.len));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn json<T: serde::de::DeserializeOwned>(&self, at: u64, head: &ChunkHead) -> Result<T, TraceError> {
        let body = self.bytes(at + ChunkHead::LEN, head.len)?;
        serde_json::from_slice(&body).map_err(|error| damaged(at, error))
    }
}

/// The parts of a segment.
fn parts<'a>(segment: &Segment, body: &'a [u8]) -> Option<[&'a [u8]; 4]> {
    let mut rest = body;
    Segment::take(&mut rest, 0, 0, 0)?;
    let mut parts = [&[][..]; 4];
    for (part, len) in parts.iter_mut().zip(segment.lens) {
        (*part, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    }
    Some(parts)
}

/// What a thread has written down, unpacked on the way.
pub(super) struct Packed<'a> {
    streams: Streams<'a>,
    /// What belongs to special tags.
    rest: &'a [u8],
}

/// Control flow and values, in either way to pack them.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for a whole segment, which is asked all the time"
)]
enum Streams<'a> {
    Again {
        control: ControlDecoder<'a>,
        /// If the last tag was not expected, where that leads.
        place: Option<usize>,
        values: ValueDecoder,
    },
    Local {
        control: local::control::ControlDecoder<'a>,
        values: local::values::ValueDecoder,
    },
}

impl<'a> Streams<'a> {
    fn new(
        segment: &Segment,
        control: &'a [u8],
        values: &[u8],
        units: &'a Units,
    ) -> Result<Self, StreamError> {
        if !segment.is_local {
            let (control, values) =
                (ControlDecoder::new(control)?, ValueDecoder::new(values, units.slots())?);
            return Ok(Self::Again { control, place: None, values });
        }
        let control = local::control::ControlDecoder::new(control, units.exits())?;
        Ok(Self::Local { control, values: local::values::ValueDecoder::new(values, units.slots())? })
    }

    /// How many records are left.
    fn left(&self) -> u64 {
        match self {
            Self::Again { control, .. } => control.left(),
            Self::Local { control, .. } => control.left(),
        }
    }
}

impl crate::machine::Values for Packed<'_> {
    #[inline]
    fn value(&mut self, slot: u32) -> Result<u64, Wrong> {
        Ok(match &mut self.streams {
            Streams::Again { place, values, .. } => values.next(slot, place.is_some())?,
            Streams::Local { values, .. } => values.next(slot)?,
        })
    }
}

impl Source for Packed<'_> {
    #[inline]
    fn tag(&mut self) -> Result<Option<Tag>, Wrong> {
        match &mut self.streams {
            Streams::Again { control, place, values } => {
                if let Some(place) = place.take() {
                    values.follow(place);
                }
                let Some((tag, next)) = control.next()? else { return Ok(None) };
                *place = next;
                Ok(Some(tag))
            }
            Streams::Local { control, .. } => Ok(control.next()?),
        }
    }

    fn state(&mut self) -> Result<State, Wrong> {
        words(&mut self.rest, Words::state)
    }

    fn call(&mut self) -> Result<Call, Wrong> {
        words(&mut self.rest, Words::call)
    }

    fn result(&mut self) -> Result<CallResult, Wrong> {
        words(&mut self.rest, Words::result)
    }

    fn stop(&mut self, _values: u16) -> Result<Stop, Wrong> {
        words(&mut self.rest, Words::stop)
    }
}
