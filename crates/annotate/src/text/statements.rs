//! Assembler text, taken apart into statements.

use memchr::memchr;

/// What comes next in a text. Assignments to symbols are passed over.
pub(super) enum Item<'a> {
    /// A line with nothing but a comment from `#` on; from the start of the line to behind its end.
    Comment { start: usize, end: usize },
    /// A label.
    Label(&'a [u8]),
    /// An instruction or a directive.
    Statement(Statement<'a>),
}

/// An instruction or a directive.
#[derive(Clone, Copy)]
pub(super) struct Statement<'a> {
    /// Where it begins: behind labels and other statements on the line.
    pub at: usize,
    /// Its first word.
    pub word: &'a [u8],
    /// What follows.
    pub operands: &'a [u8],
}

/// Goes through a text.
pub(super) struct Items<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether nothing but blanks came before on this line.
    at_line_start: bool,
}

impl<'a> Items<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, at_line_start: true }
    }

    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(b'\n')
    }

    /// Behind the end of the line that `at` is on.
    fn next_line(&self, at: usize) -> usize {
        memchr(b'\n', &self.text[at..]).map_or(self.text.len(), |len| at + len + 1)
    }

    /// Behind the comment `/* … */` that begins at `at`.
    fn behind_comment(&self, at: usize) -> usize {
        let end = memchr::memmem::find(&self.text[at + 2..], b"*/");
        end.map_or(self.text.len(), |len| at + 2 + len + 2)
    }

    fn skip_blanks(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), b' ' | b'\t') {
            at += 1;
        }
        at
    }

    /// The word at `at`, and behind it.
    fn word(&self, at: usize) -> (&'a [u8], usize) {
        let mut end = at;
        if self.byte(at) == b'"' {
            end = self.behind_string(at);
        } else {
            while end < self.text.len() && CLASSES[usize::from(self.text[end])] == Class::Word {
                end += 1;
            }
        }
        (&self.text[at..end], end)
    }

    /// Behind the string that begins at `at`.
    fn behind_string(&self, at: usize) -> usize {
        let mut at = at + 1;
        while at < self.text.len() {
            match self.text[at] {
                b'"' => return at + 1,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.text.len()
    }

    /// Behind the character that stands for a number, `'a` or `'a'`, at `at`.
    fn behind_character(&self, at: usize) -> usize {
        let end = match self.byte(at + 1) {
            b'\n' => return at + 1,
            b'\\' => at + 3,
            _ => at + 2,
        };
        end + usize::from(self.byte(end) == b'\'')
    }

    /// Where the statement ends whose operands begin at `at`: there is the end of the line, a `;` or a comment.
    fn end_of_statement(&self, mut at: usize) -> usize {
        while at < self.text.len() {
            match CLASSES[usize::from(self.text[at])] {
                Class::Word | Class::Other => at += 1,
                Class::End => return at,
                Class::Quote => at = self.behind_string(at),
                Class::Character => at = self.behind_character(at),
                Class::Slash if self.byte(at + 1) == b'*' => at = self.behind_comment(at),
                Class::Slash => at += 1,
            }
        }
        self.text.len()
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        while self.at < self.text.len() {
            let start = self.at;
            let at = self.skip_blanks(start);
            match self.byte(at) {
                b'\n' => {
                    self.at = at + 1;
                    self.at_line_start = true;
                }
                b';' => {
                    self.at = at + 1;
                    self.at_line_start = false;
                }
                b'#' => {
                    self.at = self.next_line(at);
                    if std::mem::replace(&mut self.at_line_start, true) {
                        return Some(Item::Comment { start, end: self.at });
                    }
                }
                b'/' if self.byte(at + 1) == b'*' => self.at = self.behind_comment(at),
                b'/' if self.at_line_start => self.at = self.next_line(at),
                _ => {
                    if let Some(item) = self.item(start, at) {
                        return Some(item);
                    }
                }
            }
        }
        None
    }
}

impl<'a> Items<'a> {
    /// The item whose first word begins at `at`, behind blanks from `start` on.
    fn item(&mut self, start: usize, at: usize) -> Option<Item<'a>> {
        self.at_line_start = false;
        let (word, end) = self.word(at);
        let operands = self.skip_blanks(end);
        match self.byte(operands) {
            b':' => {
                self.at = operands + 1;
                return Some(Item::Label(word));
            }
            b'=' if word != b"." => {
                self.at = self.end_of_statement(operands).min(self.text.len());
                return None;
            }
            _ => {}
        }
        self.at = self.end_of_statement(operands).min(self.text.len());
        let operands = self.text[operands..self.at].trim_ascii_end();
        Some(Item::Statement(Statement { at: start, word, operands }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Other,
    End,
    Quote,
    Character,
    Slash,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        if matches!(byte as u8, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'$' | 0x80..) {
            classes[byte] = Class::Word;
        }
        byte += 1;
    }
    classes[b'\n' as usize] = Class::End;
    classes[b';' as usize] = Class::End;
    classes[b'#' as usize] = Class::End;
    classes[b'"' as usize] = Class::Quote;
    classes[b'\'' as usize] = Class::Character;
    classes[b'/' as usize] = Class::Slash;
    classes
};
