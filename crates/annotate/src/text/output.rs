//! The text that is handed on: the old one with labels put in and comments left out.

use crate::facts::Label;
use memchr::memchr2_iter;

pub(super) struct Output<'a> {
    text: &'a [u8],
    out: Vec<u8>,
    /// How much of the text is dealt with.
    done: usize,
    labels: u32,
    /// Where the last label was put.
    last: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(text: &'a [u8], name: &str) -> Self {
        let mut out = Vec::with_capacity(text.len() + text.len() / 4 + name.len());
        // The assembler goes by this name and counts lines from here, whatever the file is that it reads.
        out.extend_from_slice(b"# 1 \"");
        let mut copied = 0;
        for special in memchr2_iter(b'"', b'\\', name.as_bytes()) {
            out.extend_from_slice(&name.as_bytes()[copied..special]);
            out.push(b'\\');
            copied = special;
        }
        out.extend_from_slice(&name.as_bytes()[copied..]);
        out.extend_from_slice(b"\"\n");
        Self { text, out, done: 0, labels: 0, last: usize::MAX }
    }

    /// Puts a label at `at` of the text, unless one is there already.
    pub(super) fn label(&mut self, at: usize) -> Label {
        if self.last != at {
            self.last = at;
            self.labels += 1;
            self.out.extend_from_slice(&self.text[self.done..at]);
            self.done = at;
            Label(self.labels).write(&mut self.out);
            self.out.push(b':');
        }
        Label(self.labels)
    }

    /// Leaves out what is between `from` and `to`.
    pub(super) fn leave_out(&mut self, from: usize, to: usize) {
        self.out.extend_from_slice(&self.text[self.done..from]);
        self.done = to;
    }

    /// The text, up to its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(&self.text[self.done..]);
        if self.out.last() != Some(&b'\n') {
            self.out.push(b'\n');
        }
        self.out
    }
}
