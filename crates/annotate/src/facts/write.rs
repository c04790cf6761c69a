//! Facts as assembler text.

use super::{Facts, Label, SECTION};
use std::io::Write as _;

/// How labels are called. No compiler makes such names, and `.L` keeps them out of the symbol table.
pub(crate) const LABEL: &[u8] = b".Lrelive.";

impl Label {
    /// Appends its name.
    pub(crate) fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(LABEL);
        number(self.0.into(), to);
    }
}

/// Appends the section that holds `facts`.
pub(crate) fn write(facts: &Facts<Label>, to: &mut Vec<u8>) {
    to.extend_from_slice(b"\t.section\t");
    to.extend_from_slice(SECTION.as_bytes());
    to.extend_from_slice(b",\"e\",@progbits\n");
    let mut words = Words { to };
    words.places(&facts.blocks);
    words.places(&facts.no_return);
    words.ranges(&facts.bytes);
    words.ranges(&facts.inline);
    words.number(facts.rows.len() as u64);
    for &(at, count) in &facts.rows {
        words.place(at);
        words.number(count.into());
    }
    words.number(facts.jumps.len() as u64);
    for jump in &facts.jumps {
        words.place(jump.site);
        words.number(jump.leaves.into());
        words.places(&jump.targets);
        words.number(jump.table.iter().len() as u64);
        if let Some(table) = &jump.table {
            words.place(table.at);
            words.number(table.entry_size.into());
            words.number(table.is_relative.into());
            words.number(table.count.into());
        }
    }
}

struct Words<'t> {
    to: &'t mut Vec<u8>,
}

impl Words<'_> {
    fn places(&mut self, places: &[Label]) {
        self.number(places.len() as u64);
        for &place in places {
            self.place(place);
        }
    }

    fn ranges(&mut self, ranges: &[(Label, Label)]) {
        self.number(ranges.len() as u64);
        for &(from, to) in ranges {
            self.place(from);
            self.place(to);
        }
    }

    fn number(&mut self, value: u64) {
        self.to.extend_from_slice(b"\t.quad\t");
        number(value, self.to);
        self.to.push(b'\n');
    }

    fn place(&mut self, label: Label) {
        self.to.extend_from_slice(b"\t.quad\t");
        label.write(self.to);
        self.to.push(b'\n');
    }
}

fn number(value: u64, to: &mut Vec<u8>) {
    write!(to, "{value}").expect("a vector takes all bytes");
}
