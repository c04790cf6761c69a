//! The file of a trace: see docs/trace-format.md.
//!
//! A head, then chunks one behind the other, each with its own check sum. A file that was cut off anywhere can be read up to the last
//! whole chunk.

pub(crate) mod reader;
pub(crate) mod writer;
pub(crate) mod written;

use crate::columns::{put_number, take_number};
use crate::layout::Layout;
use crate::units::{Kind, State, Words};

/// The first bytes of a file.
pub(crate) const MAGIC: [u8; 8] = *b"\x7frtrace\n";
/// The last bytes of a file that was finished.
pub(crate) const END: [u8; 8] = *b"\nrtrend\x7f";
/// How the rest is to be understood.
pub(crate) const VERSION: u32 = 3;
/// The length of the head: magic, version, and fill.
pub(crate) const HEAD_LEN: u64 = 16;
/// The length of what comes last in a finished file: where the index is, and magic.
pub(crate) const TAIL_LEN: u64 = 16;

/// What is in a chunk.
pub(crate) mod kind {
    /// How the trace was made, as JSON.
    pub(crate) const ABOUT: u32 = 1;
    /// A process begins, as JSON.
    pub(crate) const PROCESS: u32 = 2;
    /// More of the code of a process, packed.
    pub(crate) const CODE: u32 = 3;
    /// What a thread did for a while.
    pub(crate) const SEGMENT: u32 = 4;
    /// A file that code came from, as JSON.
    pub(crate) const MODULE: u32 = 5;
    /// Where all chunks are, packed.
    pub(crate) const INDEX: u32 = 6;
}

/// What comes before each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHead {
    pub(crate) kind: u32,
    /// The process that it is about, if it is about one.
    pub(crate) process: u32,
    /// How many bytes follow.
    pub(crate) len: u64,
    /// Their check sum.
    pub(crate) sum: u32,
}

impl ChunkHead {
    pub(crate) const LEN: u64 = 24;

    pub(crate) fn of(kind: u32, process: u32, body: &[u8]) -> Self {
        Self { kind, process, len: body.len() as u64, sum: crc32fast::hash(body) }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN as usize] {
        let mut bytes = [0; Self::LEN as usize];
        bytes[..4].copy_from_slice(&self.kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.process.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.sum.to_le_bytes());
        let own = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// None if these are not the bytes of one.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let own = crc32fast::hash(bytes.get(..20)?);
        let mut words = Words(bytes);
        let head = Self { kind: words.u32()?, process: words.u32()?, len: words.u64()?, sum: words.u32()? };
        (words.u32()? == own).then_some(head)
    }
}

/// What a thread did for a while, one thing behind the other. Can be replayed without any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of the process.
    pub process: u32,
    /// The thread, as the kernel numbered it.
    pub thread: u32,
    /// Its number among those of the thread.
    pub number: u32,
    /// How many instructions the thread had executed before.
    pub first_instruction: u64,
    /// How many it executes here.
    pub instructions: u64,
    /// How many records there are.
    pub records: u64,
    /// How many bytes these took before they were packed.
    pub raw: u64,
    /// When it begins: nanoseconds since the beginning of the trace, when what was written down first was taken away.
    pub begins: u64,
    /// When it ends, in the same way.
    pub ends: u64,
    /// What the thread goes on with; none if it begins here.
    pub(crate) state: Option<State>,
    /// Whether it is packed without looking back (`local`).
    pub(crate) is_local: bool,
    /// The lengths of its parts: which units are executed, control flow, values, and the rest.
    pub(crate) lens: [u64; 4],
    /// Where it is in the file.
    pub(crate) at: u64,
    /// How long it is there.
    pub(crate) len: u64,
}

/// What a segment says of itself.
const HAS_STATE: u64 = 1;
const IS_LOCAL: u64 = 2;

impl Segment {
    /// How many bytes it takes in the file.
    #[must_use]
    pub fn packed(&self) -> u64 {
        self.len
    }

    /// Whether it was packed by following earlier parts of itself; otherwise hardly anything in it comes as it came before.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        !self.is_local
    }

    /// How many of these are for control flow alone.
    #[must_use]
    pub fn packed_control(&self) -> u64 {
        self.lens[1] + self.lens[3]
    }

    /// Appends all of it but where it is.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let numbers = [
            self.thread.into(),
            self.number.into(),
            self.first_instruction,
            self.instructions,
            self.records,
            self.raw,
            self.begins,
            self.ends,
        ];
        numbers.into_iter().chain(self.lens).for_each(|number| put_number(bytes, number));
        let has_state = if self.state.is_some() { HAS_STATE } else { 0 };
        put_number(bytes, has_state | if self.is_local { IS_LOCAL } else { 0 });
        if let Some(State { registers, flags, pc, fs, gs }) = &self.state {
            let words = registers.iter().chain([flags, pc, fs, gs]);
            words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        }
    }

    pub(crate) fn take(bytes: &mut &[u8], process: u32, at: u64, len: u64) -> Option<Self> {
        let mut numbers = [0; 12];
        for number in &mut numbers {
            *number = take_number(bytes).ok()?;
        }
        let [thread, number, first_instruction, instructions, records, raw, begins, ends, ..] = numbers;
        let flags = take_number(bytes).ok()?;
        let mut state = None;
        if flags & HAS_STATE != 0 {
            let mut words = Words(bytes);
            state = Some(words.state()?);
            *bytes = words.0;
        }
        Some(Self {
            process,
            thread: thread.try_into().ok()?,
            number: number.try_into().ok()?,
            first_instruction,
            instructions,
            records,
            raw,
            begins,
            ends,
            state,
            is_local: flags & IS_LOCAL != 0,
            lens: *numbers.last_chunk()?,
            at,
            len,
        })
    }
}

/// How a trace was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct About {
    /// The version of relive.
    pub version: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// When it began: seconds since 1970.
    pub began: u64,
    /// Whether accesses to memory were written down.
    pub memory: bool,
    /// Whether the order between threads was.
    #[serde(default)]
    pub order: bool,
    /// How the processor laid out its state in memory.
    #[serde(default)]
    pub layout: Layout,
}

impl About {
    pub(crate) fn kind(&self) -> Kind {
        Kind { memory: self.memory, order: self.order, layout: self.layout.clone().into() }
    }
}

/// A file that code came from.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Module {
    /// Its name.
    pub path: std::path::PathBuf,
    /// Its length.
    pub len: u64,
    /// Its build-id, in hexadecimal; empty if it has none.
    pub build_id: String,
}

impl Module {
    /// A file as it is now. One that is not there has no length.
    #[must_use]
    pub fn read(path: &std::path::Path) -> Self {
        use object::Object as _;
        let bytes = std::fs::read(path).unwrap_or_default();
        let file = object::File::parse(&*bytes).ok();
        let id = file.as_ref().and_then(|file| file.build_id().ok().flatten()).unwrap_or_default();
        let build_id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { path: path.to_owned(), len: bytes.len() as u64, build_id }
    }
}

/// The beginning of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Begun {
    pub(crate) number: u32,
    pub(crate) pid: u32,
    /// The process that it was forked off, and how many units and mappings that had then.
    pub(crate) parent: Option<(u32, u32, u32)>,
}

impl Begun {
    /// The process that it was forked off, as above, if that began before.
    pub(crate) fn older(&self) -> Option<(u32, u32, u32)> {
        self.parent.filter(|(parent, ..)| *parent < self.number)
    }
}
