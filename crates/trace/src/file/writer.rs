//! Writes the file of a trace, chunk by chunk.

use super::{ChunkHead, END, HEAD_LEN, MAGIC, Segment, VERSION, kind};
use crate::columns::put_number;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file that is being written. What was written last is there when somebody ends this process.
pub(crate) struct Writer {
    /// None if nothing is stored.
    file: Option<File>,
    /// How long it may get.
    most: u64,
    /// How much of it holds whole chunks.
    len: u64,
    /// Where all chunks are but segments.
    chunks: Vec<u64>,
    /// How many segments there are, and what the index says of each.
    segments: u64,
    described: Vec<u8>,
    /// If only the last part is to be kept.
    ring: Option<Ring>,
    /// Why nothing more is written.
    failed: Option<io::Error>,
}

/// The last segments, which are written at the end.
struct Ring {
    /// How much of them is kept.
    most: u64,
    /// How much that is now.
    len: u64,
    segments: VecDeque<(Segment, Vec<u8>)>,
}

impl Ring {
    /// Keeps a segment, and gives up the oldest.
    fn add(&mut self, segment: Segment, body: Vec<u8>) {
        self.len += body.len() as u64;
        self.segments.push_back((segment, body));
        while self.len > self.most && self.segments.len() > 1 {
            self.len -= self.segments.pop_front().map_or(0, |(_, body)| body.len() as u64);
        }
    }
}

impl Writer {
    /// A new file, of a limited length if a number is given; of its segments, only the last so many bytes are kept if another is given.
    pub(crate) fn new(file: Option<File>, most: Option<u64>, ring: Option<u64>) -> Self {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.resize(HEAD_LEN as usize, 0);
        let failed = file.as_ref().and_then(|file| file.write_all_at(&head, 0).err());
        let ring = ring.map(|most| Ring { most, len: 0, segments: VecDeque::new() });
        let most = most.unwrap_or(u64::MAX);
        let len = if file.is_some() { HEAD_LEN } else { 0 };
        Self { file, most, len, chunks: Vec::new(), segments: 0, described: Vec::new(), ring, failed }
    }

    /// How long the file is, with what is kept for it.
    pub(crate) fn len(&self) -> u64 {
        self.len + self.ring.as_ref().map_or(0, |ring| ring.len)
    }

    /// Whether what is written goes anywhere.
    pub(crate) fn is_wanted(&self) -> bool {
        self.file.is_some() && self.failed.is_none()
    }

    /// Why nothing more is written, if so.
    pub(crate) fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Appends a chunk.
    pub(crate) fn chunk(&mut self, kind: u32, process: u32, body: &[u8]) {
        if let Some(at) = self.append(kind, process, body) {
            self.chunks.push(at);
        }
    }

    fn append(&mut self, kind: u32, process: u32, body: &[u8]) -> Option<u64> {
        let file = self.file.as_ref().filter(|_| self.failed.is_none())?;
        let at = self.len;
        let head = ChunkHead::of(kind, process, body).to_bytes();
        let is_too_long = kind != kind::INDEX && at + body.len() as u64 > self.most;
        let written = match is_too_long {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => {
                let head = file.write_all_at(&head, at);
                head.and_then(|()| file.write_all_at(body, at + ChunkHead::LEN))
            }
        };
        match written {
            Ok(()) => {
                self.len = at + ChunkHead::LEN + body.len() as u64;
                Some(at)
            }
            Err(error) => {
                // What is there stays whole.
                let _ = file.set_len(at);
                self.failed = Some(error);
                None
            }
        }
    }

    /// Appends a segment, whose parts follow its description.
    pub(crate) fn segment(&mut self, segment: Segment, parts: [&[u8]; 4]) {
        if !self.is_wanted() {
            return;
        }
        let mut body = Vec::with_capacity(256 + parts.iter().map(|part| part.len()).sum::<usize>());
        segment.put(&mut body);
        parts.iter().for_each(|part| body.extend_from_slice(part));
        match &mut self.ring {
            Some(ring) => ring.add(segment, body),
            None => self.write_segment(&segment, &body),
        }
    }

    fn write_segment(&mut self, segment: &Segment, body: &[u8]) {
        if let Some(at) = self.append(kind::SEGMENT, segment.process, body) {
            let numbers = [segment.process.into(), at, body.len() as u64];
            numbers.into_iter().for_each(|number| put_number(&mut self.described, number));
            segment.put(&mut self.described);
            self.segments += 1;
        }
    }

    /// Writes what was kept, and the index.
    ///
    /// # Errors
    /// If something could not be written, now or before. What was written can be read.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        if self.file.is_none() {
            return Ok(0);
        }
        for (segment, body) in self.ring.take().map_or_else(VecDeque::new, |ring| ring.segments) {
            self.write_segment(&segment, &body);
        }
        let mut index = Vec::new();
        put_number(&mut index, self.chunks.len() as u64);
        self.chunks.iter().for_each(|&at| put_number(&mut index, at));
        put_number(&mut index, self.segments);
        index.append(&mut self.described);
        let packed = zstd::bulk::compress(&index, 3)?;
        let at = self.append(kind::INDEX, 0, &packed);
        if let (Some(at), Some(file)) = (at, &self.file) {
            let mut tail = at.to_le_bytes().to_vec();
            tail.extend_from_slice(&END);
            let result = file.write_all_at(&tail, self.len);
            self.failed = result.err();
            self.len += tail.len() as u64;
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.len),
        }
    }
}
