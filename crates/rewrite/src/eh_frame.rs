//! Writes unwind tables: `.eh_frame`, `.eh_frame_hdr` and exception tables.
//!
//! Every entry is written from its rows, in one canonical form: a few common headers, one per personality,
//! whose state is that of a function's entry, and for each entry only what changes.

use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::lsda::{Lsda, Pointer};
use relive_image::unwind_rows::{Cfa, Row, Rule, Treatment};
use std::borrow::Cow;
use std::collections::HashMap;

const PCREL_SDATA4: u8 = 0x1b;
const INDIRECT: u8 = 0x80;
const DATA_ALIGNMENT: i64 = -8;

/// An entry to be written.
pub struct Entry<'a> {
    /// The code.
    pub range: AddrRange,
    /// How it is treated.
    pub treatment: Treatment,
    /// Where its exception table is.
    pub lsda: Option<LinkAddr>,
    /// What [`program`] made of its rows.
    pub program: &'a [u8],
}

/// The instructions that tell an unwinder of `rows`, each from an offset into the code on: the same wherever
/// the code lies.
#[must_use]
pub fn program<'r>(rows: impl IntoIterator<Item = (u64, Cow<'r, Row>)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = Cow::Owned(Row::at_entry());
    let mut at = 0;
    for (from, row) in rows {
        if row != last {
            advance(&mut bytes, from.wrapping_sub(at));
            at = from;
            change(&mut bytes, &last, &row);
            last = row;
        }
    }
    bytes
}

/// A section being written at a known address.
pub struct Writer {
    at: LinkAddr,
    bytes: Vec<u8>,
    headers: HashMap<(Treatment, bool), usize>,
    /// Where each entry's code begins, and where the entry is.
    index: Vec<(LinkAddr, LinkAddr)>,
}

impl Writer {
    /// A section at `at`.
    #[must_use]
    pub fn new(at: LinkAddr) -> Self {
        Self { at, bytes: Vec::new(), headers: HashMap::new(), index: Vec::new() }
    }

    fn here(&self) -> LinkAddr {
        self.at.offset(self.bytes.len() as u64)
    }

    fn distance(&mut self, to: LinkAddr) {
        let distance = to.0.wrapping_sub(self.here().0) as u32;
        self.bytes.extend(distance.to_le_bytes());
    }

    /// Starts a record; returns where its length goes.
    fn record(&mut self) -> usize {
        self.bytes.extend([0; 4]);
        self.bytes.len()
    }

    fn end_record(&mut self, start: usize) {
        while !self.bytes.len().is_multiple_of(8) {
            self.bytes.push(0); // DW_CFA_nop
        }
        let len = (self.bytes.len() - start) as u32;
        self.bytes[start - 4..start].copy_from_slice(&len.to_le_bytes());
    }

    fn header(&mut self, treatment: Treatment, has_lsda: bool) -> usize {
        if let Some(&at) = self.headers.get(&(treatment, has_lsda)) {
            return at;
        }
        let at = self.bytes.len();
        let start = self.record();
        self.bytes.extend([0; 4]);
        self.bytes.push(1);
        self.bytes.push(b'z');
        if treatment.personality.is_some() {
            self.bytes.push(b'P');
        }
        if has_lsda {
            self.bytes.push(b'L');
        }
        self.bytes.push(b'R');
        if treatment.signal {
            self.bytes.push(b'S');
        }
        self.bytes.push(0);
        uleb(&mut self.bytes, 1);
        sleb(&mut self.bytes, DATA_ALIGNMENT);
        uleb(&mut self.bytes, 16);
        let augmentation =
            if treatment.personality.is_some() { 5 } else { 0 } + if has_lsda { 1 } else { 0 } + 1;
        uleb(&mut self.bytes, augmentation);
        if let Some((personality, indirect)) = treatment.personality {
            self.bytes.push(PCREL_SDATA4 | if indirect { INDIRECT } else { 0 });
            self.distance(personality);
        }
        if has_lsda {
            self.bytes.push(PCREL_SDATA4);
        }
        self.bytes.push(PCREL_SDATA4);
        self.bytes.extend([0x0c, 7, 8]); // def_cfa rsp + 8
        self.bytes.extend([0x80 | 16, 1]); // offset ra, cfa - 8
        self.end_record(start);
        self.headers.insert((treatment, has_lsda), at);
        at
    }

    /// Writes an entry.
    pub fn entry(&mut self, entry: &Entry<'_>) {
        let header = self.header(entry.treatment, entry.lsda.is_some());
        self.index.push((entry.range.start, self.here()));
        let start = self.record();
        let back = (self.bytes.len() - header) as u32;
        self.bytes.extend(back.to_le_bytes());
        self.distance(entry.range.start);
        self.bytes.extend((entry.range.len() as u32).to_le_bytes());
        match entry.lsda {
            Some(lsda) => {
                uleb(&mut self.bytes, 4);
                self.distance(lsda);
            }
            None => uleb(&mut self.bytes, 0),
        }
        self.bytes.extend(entry.program);
        self.end_record(start);
    }

    /// Ends the section: its bytes, and the index for the search table.
    #[must_use]
    pub fn finish(mut self) -> (Vec<u8>, Vec<(LinkAddr, LinkAddr)>) {
        self.bytes.extend([0; 4]);
        self.index.sort_unstable();
        (self.bytes, self.index)
    }
}

/// The length of the search table over `entries` entries.
#[must_use]
pub fn search_table_len(entries: usize) -> u64 {
    12 + 8 * entries as u64
}

/// The search table at `at` for the section at `section`.
#[must_use]
pub fn search_table(at: LinkAddr, section: LinkAddr, index: &[(LinkAddr, LinkAddr)]) -> Vec<u8> {
    let mut bytes = vec![1, PCREL_SDATA4, 0x03, 0x3b];
    let near = |to: LinkAddr, from: u64| (to.0.wrapping_sub(from) as u32).to_le_bytes();
    bytes.extend(near(section, at.0 + 4));
    bytes.extend((index.len() as u32).to_le_bytes());
    for &(code, entry) in index {
        bytes.extend(near(code, at.0));
        bytes.extend(near(entry, at.0));
    }
    bytes
}

fn advance(bytes: &mut Vec<u8>, by: u64) {
    match by {
        0 => {}
        1..0x40 => bytes.push(0x40 | by as u8),
        0x40..0x100 => bytes.extend([0x02, by as u8]),
        0x100..0x1_0000 => {
            bytes.push(0x03);
            bytes.extend((by as u16).to_le_bytes());
        }
        _ => {
            bytes.push(0x04);
            bytes.extend((by as u32).to_le_bytes());
        }
    }
}

/// The instructions that lead from one row to the next.
fn change(bytes: &mut Vec<u8>, from: &Row, to: &Row) {
    if from.cfa != to.cfa {
        match (&from.cfa, &to.cfa) {
            (Cfa::Register(a, _), Cfa::Register(b, offset)) if a == b && *offset >= 0 => {
                bytes.push(0x0e);
                uleb(bytes, *offset as u64);
            }
            (_, Cfa::Register(register, offset)) if *offset >= 0 => {
                bytes.push(0x0c);
                uleb(bytes, u64::from(*register));
                uleb(bytes, *offset as u64);
            }
            (_, Cfa::Register(register, offset)) => {
                bytes.push(0x12);
                uleb(bytes, u64::from(*register));
                sleb(bytes, offset / DATA_ALIGNMENT);
            }
            (_, Cfa::Expression(expression)) => {
                bytes.push(0x0f);
                block(bytes, expression);
            }
        }
    }
    for (register, rule) in &to.registers {
        if !from.registers.iter().any(|(r, old)| r == register && old == rule) {
            set(bytes, *register, rule);
        }
    }
    for (register, _) in from.registers.iter().filter(|(r, _)| to.registers.iter().all(|(kept, _)| kept != r))
    {
        // Back to what the header says, which is nothing.
        if *register < 0x40 {
            bytes.push(0xc0 | *register as u8);
        } else {
            bytes.push(0x06);
            uleb(bytes, u64::from(*register));
        }
    }
    if from.args_size != to.args_size {
        bytes.push(0x2e);
        uleb(bytes, to.args_size);
    }
}

fn set(bytes: &mut Vec<u8>, register: u16, rule: &Rule) {
    let number = u64::from(register);
    let mut opcode = |code: u8| {
        bytes.push(code);
        uleb(bytes, number);
    };
    match rule {
        Rule::Undefined => opcode(0x07),
        Rule::SameValue => opcode(0x08),
        Rule::Offset(offset) if offset % DATA_ALIGNMENT != 0 => {
            // No factor fits: say it as an expression, relative to the caller's stack.
            opcode(0x10);
            let mut expression = vec![0x11];
            sleb(&mut expression, *offset);
            expression.push(0x22);
            block(bytes, &expression);
        }
        Rule::Offset(offset) if *offset <= 0 && register < 0x40 => {
            bytes.push(0x80 | register as u8);
            uleb(bytes, (offset / DATA_ALIGNMENT) as u64);
        }
        Rule::Offset(offset) => {
            opcode(0x11);
            sleb(bytes, offset / DATA_ALIGNMENT);
        }
        Rule::ValOffset(offset) => {
            opcode(0x15);
            sleb(bytes, offset / DATA_ALIGNMENT);
        }
        Rule::Register(other) => {
            opcode(0x09);
            uleb(bytes, u64::from(*other));
        }
        Rule::Expression(expression) => {
            opcode(0x10);
            block(bytes, expression);
        }
        Rule::ValExpression(expression) => {
            opcode(0x16);
            block(bytes, expression);
        }
    }
}

fn block(bytes: &mut Vec<u8>, content: &[u8]) {
    uleb(bytes, content.len() as u64);
    bytes.extend(content);
}

fn uleb(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(byte);
            return;
        }
        bytes.push(byte | 0x80);
    }
}

fn sleb(bytes: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            bytes.push(byte);
            return;
        }
        bytes.push(byte | 0x80);
    }
}

/// A number in exactly `len` bytes.
fn padded_sleb(bytes: &mut Vec<u8>, mut value: i64, len: usize) {
    for i in 1..=len {
        let more = if i < len { 0x80 } else { 0 };
        bytes.push((value & 0x7f) as u8 | more);
        value >>= 7;
    }
}

/// What may throw, relative to the start of the code: start, end, landing pad, first action.
pub type Throws = [(u32, u32, Option<u32>, Option<u64>)];

/// The call sites of an exception table: the same wherever the code lies.
#[must_use]
pub fn call_sites(throws: &Throws) -> Vec<u8> {
    let mut sites = Vec::new();
    let mut merged: Vec<(u32, u32, Option<u32>, Option<u64>)> = Vec::new();
    for &throw in throws.iter().filter(|(from, to, ..)| from < to) {
        match merged.last_mut() {
            Some(last) if (last.1, last.2, last.3) == (throw.0, throw.2, throw.3) => last.1 = throw.1,
            _ => merged.push(throw),
        }
    }
    for (from, to, pad, action) in merged {
        uleb(&mut sites, u64::from(from));
        uleb(&mut sites, u64::from(to - from));
        uleb(&mut sites, u64::from(pad.unwrap_or(0)));
        uleb(&mut sites, action.map_or(0, |offset| offset + 1));
    }
    sites
}

/// The exception table of a moved function, to lie at `at`, with what [`call_sites`] made. Actions, types and
/// type lists are those of `old`.
#[must_use]
pub fn exception_table(at: LinkAddr, old: &Lsda, sites: &[u8]) -> Vec<u8> {
    let actions = action_table(old);
    let has_types = !old.types.is_empty() || !old.type_lists.is_empty();

    let mut bytes = vec![0xff]; // landing pads are relative to the function
    if !has_types {
        bytes.push(0xff);
        bytes.push(0x01);
        uleb(&mut bytes, sites.len() as u64);
        bytes.extend(sites);
        bytes.extend(actions);
        return bytes;
    }
    let indirect = old.types.iter().any(|t| t.encoding.is_indirect());
    bytes.push(PCREL_SDATA4 | if indirect { INDIRECT } else { 0 });
    // The distance to where the types meet depends on its own length, and so does the fill in front of
    // them: give it four bytes whatever it is.
    let mut behind = vec![0x01];
    uleb(&mut behind, sites.len() as u64);
    behind.extend(sites);
    behind.extend(actions);
    let start = bytes.len() + 4 + behind.len();
    let fill = (at.0 as usize + start).next_multiple_of(4) - (at.0 as usize + start);
    let meet = behind.len() + fill + 4 * old.types.len();
    for i in 0..4 {
        bytes.push((meet >> (7 * i) & 0x7f) as u8 | if i < 3 { 0x80 } else { 0 });
    }
    bytes.extend(behind);
    bytes.extend(std::iter::repeat_n(0, fill));
    for pointer in old.types.iter().rev() {
        let distance = match pointer {
            Pointer { value: 0, .. } => 0,
            Pointer { address: Some(to), .. } => to.0.wrapping_sub(at.0 + bytes.len() as u64) as u32,
            Pointer { value, .. } => value.wrapping_sub(at.0 + bytes.len() as u64) as u32,
        };
        bytes.extend(distance.to_le_bytes());
    }
    bytes.extend(&old.type_lists);
    bytes
}

/// The actions at their old offsets, so that call sites need not change.
fn action_table(old: &Lsda) -> Vec<u8> {
    let mut bytes = Vec::new();
    let offsets: Vec<u64> = old.actions.keys().copied().collect();
    for (i, (&offset, action)) in old.actions.iter().enumerate() {
        bytes.resize(offset as usize, 0);
        let mut filter = Vec::new();
        sleb(&mut filter, action.filter);
        bytes.extend(&filter);
        let next_at = offset as i64 + filter.len() as i64;
        let next = action.next.map_or(0, |next| next as i64 - next_at);
        match offsets.get(i + 1) {
            // As long as it was, so that the next begins where it did.
            Some(&end) => padded_sleb(&mut bytes, next, (end as i64 - next_at).clamp(1, 9) as usize),
            None => sleb(&mut bytes, next),
        }
    }
    bytes
}
