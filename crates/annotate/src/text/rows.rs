//! Rows of places that a programmer wrote down: tables to jump through, whose length nobody checks.

use super::kind::Kind;
use super::output::Output;
use super::statements::Statement;
use crate::facts::{Facts, Label};

/// The row that is being read.
#[derive(Default)]
pub(super) struct Rows {
    /// Whether a label is right before this.
    is_at_label: bool,
    /// Where it begins, bytes of a place, how many there are.
    row: Option<(Label, u8, u32)>,
}

impl Rows {
    /// A label: another row begins.
    pub(super) fn label(&mut self, facts: &mut Facts<Label>) {
        self.end(facts);
        self.is_at_label = true;
    }

    /// A statement that was written by hand.
    pub(super) fn statement(
        &mut self,
        kind: Kind,
        statement: &Statement<'_>,
        output: &mut Output<'_>,
        facts: &mut Facts<Label>,
    ) {
        match (places(statement), &mut self.row) {
            (Some((size, count)), Some((_, of, len))) if size == *of => *len = len.saturating_add(count),
            (Some((size, count)), _) if self.is_at_label => {
                self.row = Some((output.label(statement.at), size, count));
            }
            (None, None) if kind == Kind::Remark => return,
            _ => self.end(facts),
        }
        self.is_at_label = false;
    }

    /// The row ends, if this is one.
    pub(super) fn end(&mut self, facts: &mut Facts<Label>) {
        self.is_at_label = false;
        if let Some((at, _, count)) = self.row.take() {
            facts.rows.push((at, count));
        }
    }
}

/// Bytes of a place, and how many there are, if a statement makes places or distances of them and nothing else.
fn places(statement: &Statement<'_>) -> Option<(u8, u32)> {
    let size = match statement.word {
        b".long" | b".int" | b".4byte" => 4,
        b".quad" | b".8byte" => 8,
        _ => return None,
    };
    let mut count = 0;
    for operand in statement.operands.split(|&byte| byte == b',') {
        if !is_place(operand.trim_ascii()) {
            return None;
        }
        count += 1;
    }
    Some((size, count))
}

/// Whether it begins with a name, or with a number that stands for a label: `1f`, `1b`.
fn is_place(operand: &[u8]) -> bool {
    let digits = operand.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match operand.get(digits) {
        Some(b'f' | b'b') if digits > 0 => !operand.get(digits + 1).is_some_and(u8::is_ascii_alphanumeric),
        Some(b'.' | b'_' | b'$') => digits == 0 && operand.len() > 1,
        Some(byte) => digits == 0 && byte.is_ascii_alphabetic(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_no_places() {
        let row = |word: &str, operands: &str| {
            let (word, operands) = (word.as_bytes(), operands.as_bytes());
            places(&Statement { at: 0, word, operands })
        };
        assert_eq!(row(".long", "10f-1b, .Lx - 1b,name"), Some((4, 3)));
        assert_eq!(row(".quad", "1b"), Some((8, 1)));
        for (word, operands) in [
            (".long", "7"),
            (".long", "0x1f"),
            (".long", "1f,2"),
            (".quad", "."),
            (".byte", "a-b"),
            (".quad", ""),
        ] {
            assert_eq!(row(word, operands), None, "{word} {operands}");
        }
    }
}
