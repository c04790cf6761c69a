//! Writes the file of a trace, chunk by chunk.

use super::{ChunkHead, END, HEAD_LEN, MAGIC, Segment, VERSION, kind};
use crate::columns::put_number;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// A file that is being written. What was written last is there when somebody ends this process.
pub(crate) struct Writer {
    file: File,
    /// How much of it holds whole chunks.
    len: u64,
    /// Where all chunks are but segments.
    chunks: Vec<u64>,
    segments: Vec<Segment>,
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
    /// A new file; of its segments, only the last so many bytes are kept if a number is given.
    pub(crate) fn new(file: File, ring: Option<u64>) -> Self {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.resize(HEAD_LEN as usize, 0);
        let failed = file.write_all_at(&head, 0).err();
        let ring = ring.map(|most| Ring { most, len: 0, segments: VecDeque::new() });
        Self { file, len: HEAD_LEN, chunks: Vec::new(), segments: Vec::new(), ring, failed }
    }

    /// How long the file is, with what is kept for it.
    pub(crate) fn len(&self) -> u64 {
        self.len + self.ring.as_ref().map_or(0, |ring| ring.len)
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
        if self.failed.is_some() {
            return None;
        }
        let at = self.len;
        let head = ChunkHead::of(kind, process, body).to_bytes();
        let written = self
            .file
            .write_all_at(&head, at)
            .and_then(|()| self.file.write_all_at(body, at + ChunkHead::LEN));
        match written {
            Ok(()) => {
                self.len = at + ChunkHead::LEN + body.len() as u64;
                Some(at)
            }
            Err(error) => {
                // What is there stays whole.
                let _ = self.file.set_len(at);
                self.failed = Some(error);
                None
            }
        }
    }

    /// Appends a segment, whose parts follow its description.
    pub(crate) fn segment(&mut self, segment: Segment, parts: [&[u8]; 4]) {
        let mut body = Vec::with_capacity(256 + parts.iter().map(|part| part.len()).sum::<usize>());
        segment.put(&mut body);
        parts.iter().for_each(|part| body.extend_from_slice(part));
        match &mut self.ring {
            Some(ring) => ring.add(segment, body),
            None => self.write_segment(segment, &body),
        }
    }

    fn write_segment(&mut self, mut segment: Segment, body: &[u8]) {
        if let Some(at) = self.append(kind::SEGMENT, segment.process, body) {
            (segment.at, segment.len) = (at, body.len() as u64);
            self.segments.push(segment);
        }
    }

    /// Writes what was kept, and the index.
    ///
    /// # Errors
    /// If something could not be written, now or before. What was written can be read.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        for (segment, body) in self.ring.take().map_or_else(VecDeque::new, |ring| ring.segments) {
            self.write_segment(segment, &body);
        }
        let mut index = Vec::new();
        put_number(&mut index, self.chunks.len() as u64);
        self.chunks.iter().for_each(|&at| put_number(&mut index, at));
        put_number(&mut index, self.segments.len() as u64);
        for segment in &self.segments {
            [segment.process.into(), segment.at, segment.len]
                .into_iter()
                .for_each(|number| put_number(&mut index, number));
            segment.put(&mut index);
        }
        let packed = zstd::bulk::compress(&index, 3)?;
        let at = self.append(kind::INDEX, 0, &packed);
        if let Some(at) = at {
            let mut tail = at.to_le_bytes().to_vec();
            tail.extend_from_slice(&END);
            let result = self.file.write_all_at(&tail, self.len);
            self.failed = result.err();
            self.len += tail.len() as u64;
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.file.flush().map(|()| self.len),
        }
    }
}
