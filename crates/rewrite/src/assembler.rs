//! Puts machine code together: bytes, jumps that are as short as they can be, and fields to be filled in
//! once everything has its address.

use relive_code::addr::LinkAddr;

/// A place inside the code, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Label(pub u32);

/// Where a jump or an operand leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dest {
    /// A place in the same chunk.
    Label(Label),
    /// Where a function is entered that lay at that address: its new place if it has moved.
    Entry(LinkAddr),
    /// Where a block is that lay at that address, in another chunk of the same function.
    Block(LinkAddr),
    /// An address that does not move: data, or code that was left alone.
    Fixed(LinkAddr),
    /// Somewhere in the first thread's area, by offset.
    Area(u64),
    /// A routine of the runtime.
    Runtime(Routine),
    /// A copy of a jump table, by number.
    Table(u32),
}

/// What code can ask of the runtime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Routine {
    /// This thread, or this process, has no area of its own yet.
    Enter,
    /// An indirect call went somewhere new.
    Call,
}

/// Four bytes that hold a distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fix {
    /// Where they are, from the start of the chunk.
    pub at: u32,
    /// What the distance is counted from: the end of the instruction.
    pub from: u32,
    /// Where it leads.
    pub to: Dest,
}

/// A place in code that is not finished: bytes before it, and jumps before it whose length is not settled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pos {
    bytes: u32,
    breaks: u32,
}

/// What has no settled length.
#[derive(Clone, Copy, Debug)]
enum Break {
    /// A jump, on a condition or not.
    Jump { condition: Option<u8>, to: Dest, len: u8 },
    /// A branch that exists with a distance of one byte only (`loop`, `jrcxz`): what comes before the distance,
    /// and how much of it counts. If that does not reach, it leads to a jump behind it.
    Loop { start: [u8; 2], start_len: u8, to: Dest, len: u8 },
    /// Fill up to a multiple.
    Align { to: u32, len: u8 },
    /// Fill up to the next line, if what comes before the label would otherwise lie on two but fits on one.
    Line { end: Label, len: u8 },
}

impl Break {
    fn len(self) -> u32 {
        u32::from(match self {
            Self::Jump { len, .. }
            | Self::Loop { len, .. }
            | Self::Align { len, .. }
            | Self::Line { len, .. } => len,
        })
    }
}

const SHORT: u8 = 2;

/// `jmp` over the `jmp` that a short branch leads to.
const ROUND: u8 = 2 + 5;

/// What the processor fetches at once, and keeps decoded together.
pub const LINE: u32 = 64;

/// Code in the making.
#[derive(Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// Each with the number of bytes before it.
    breaks: Vec<(u32, Break)>,
    fixes: Vec<(Pos, u8, Dest)>,
    labels: Vec<Option<Pos>>,
}

/// Finished code.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Fields to fill in.
    pub fixes: Vec<Fix>,
    /// Its start must be a multiple of this.
    pub align: u32,
    labels: Vec<u32>,
    /// The number of bytes all breaks before the n-th have.
    before: Vec<u32>,
}

impl Code {
    /// Where a label came to lie.
    #[must_use]
    pub fn label(&self, label: Label) -> u32 {
        self.labels[label.0 as usize]
    }

    /// Where a place came to lie.
    #[must_use]
    pub fn offset(&self, pos: Pos) -> u32 {
        pos.bytes + self.before[pos.breaks as usize]
    }
}

impl Assembler {
    /// Where the next byte goes.
    #[must_use]
    pub fn pos(&self) -> Pos {
        Pos { bytes: self.bytes.len() as u32, breaks: self.breaks.len() as u32 }
    }

    /// A label to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds a label to the next byte.
    pub fn bind(&mut self, label: Label) {
        let pos = self.pos();
        debug_assert!(self.labels[label.0 as usize].is_none(), "bound twice");
        self.labels[label.0 as usize] = Some(pos);
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An instruction with a four-byte distance at `field`.
    pub fn with_distance(&mut self, bytes: &[u8], field: usize, to: Dest) {
        let start = self.pos();
        self.raw(bytes);
        let at = Pos { bytes: start.bytes + field as u32, ..start };
        self.fixes.push((at, (bytes.len() - field) as u8, to));
    }

    /// A jump, on a condition or not.
    pub fn jump(&mut self, condition: Option<u8>, to: Dest) {
        let long = if condition.is_some() { 6 } else { 5 };
        let len = if matches!(to, Dest::Label(_)) { SHORT } else { long };
        self.breaks.push((self.bytes.len() as u32, Break::Jump { condition, to, len }));
    }

    /// A branch that exists with a distance of one byte only; `start` is what comes before that.
    pub fn short_branch(&mut self, start: &[u8], to: Dest) {
        let start_len = start.len() as u8;
        let start = [start[0], start.get(1).copied().unwrap_or(0)];
        let len = start_len + if matches!(to, Dest::Label(_)) { 1 } else { 1 + ROUND };
        self.breaks.push((self.bytes.len() as u32, Break::Loop { start, start_len, to, len }));
    }

    /// Fill up to a multiple of `to`.
    pub fn align(&mut self, to: u32) {
        self.breaks.push((self.bytes.len() as u32, Break::Align { to, len: 0 }));
    }

    /// What comes now up to `end` stays on one line, if it fits.
    pub fn keep_together(&mut self, end: Label) {
        self.breaks.push((self.bytes.len() as u32, Break::Line { end, len: 0 }));
    }

    /// Settles the length of every jump and puts the bytes together. Every label must be bound.
    #[must_use]
    pub fn finish(mut self) -> Code {
        let before = self.settle();
        let has_lines = self.breaks.iter().any(|(_, broken)| matches!(broken, Break::Line { .. }));
        let mut code = Code { before, align: if has_lines { LINE } else { 16 }, ..Code::default() };
        code.labels = self.labels.iter().map(|pos| code.offset(pos.expect("bound"))).collect();
        let mut copied = 0;
        for &(at, broken) in &self.breaks {
            code.bytes.extend_from_slice(&self.bytes[copied..at as usize]);
            copied = at as usize;
            match broken {
                Break::Align { len, .. } | Break::Line { len, .. } => fill(&mut code.bytes, len),
                Break::Loop { start, start_len, to, len } => {
                    code.bytes.extend(&start[..usize::from(start_len)]);
                    if let (true, Dest::Label(label)) = (len == start_len + 1, to) {
                        let distance = i64::from(code.label(label)) - (code.bytes.len() as i64 + 1);
                        code.bytes.push(distance as u8);
                    } else {
                        code.bytes.extend([2, 0xeb, 5, 0xe9, 0, 0, 0, 0]);
                        let from = code.bytes.len() as u32;
                        code.fixes.push(Fix { at: from - 4, from, to });
                    }
                }
                Break::Jump { condition, to, len: SHORT } => {
                    let Dest::Label(label) = to else { unreachable!("only labels are near") };
                    let distance = i64::from(code.label(label)) - (code.bytes.len() as i64 + 2);
                    code.bytes.push(condition.map_or(0xeb, |c| 0x70 | c));
                    code.bytes.push(distance as u8);
                }
                Break::Jump { condition, to, .. } => {
                    match condition {
                        None => code.bytes.push(0xe9),
                        Some(c) => code.bytes.extend([0x0f, 0x80 | c]),
                    }
                    let at = code.bytes.len() as u32;
                    code.bytes.extend([0; 4]);
                    code.fixes.push(Fix { at, from: at + 4, to });
                }
            }
        }
        code.bytes.extend_from_slice(&self.bytes[copied..]);
        for &(pos, from, to) in &self.fixes {
            let at = code.offset(pos);
            code.fixes.push(Fix { at, from: at + u32::from(from), to });
        }
        // Distances inside the chunk are known now.
        let Code { bytes, fixes, labels, .. } = &mut code;
        fixes.retain(|fix| {
            let Dest::Label(label) = fix.to else { return true };
            let distance = labels[label.0 as usize].wrapping_sub(fix.from);
            bytes[fix.at as usize..][..4].copy_from_slice(&distance.to_le_bytes());
            false
        });
        code
    }

    /// How much lies between break number `i` and a label behind it.
    fn size_up_to(&self, end: Label, i: usize) -> u32 {
        let end = self.labels[end.0 as usize].expect("bound");
        let breaks = self.breaks[i + 1..end.breaks as usize].iter();
        end.bytes - self.breaks[i].0 + breaks.map(|(_, broken)| broken.len()).sum::<u32>()
    }

    /// Lets jumps grow until every short one reaches. A jump never shrinks again, so this ends.
    fn settle(&mut self) -> Vec<u32> {
        loop {
            let mut before = Vec::with_capacity(self.breaks.len() + 1);
            let mut sum = 0;
            for i in 0..self.breaks.len() {
                before.push(sum);
                let here = self.breaks[i].0 + sum;
                let filled = |to: u32| (here.next_multiple_of(to) - here) as u8;
                match self.breaks[i].1 {
                    Break::Align { to, .. } => self.breaks[i].1 = Break::Align { to, len: filled(to) },
                    Break::Line { end, .. } => {
                        let size = self.size_up_to(end, i);
                        let crosses = here % LINE + size > LINE && size <= LINE;
                        self.breaks[i].1 = Break::Line { end, len: if crosses { filled(LINE) } else { 0 } };
                    }
                    Break::Jump { .. } | Break::Loop { .. } => {}
                }
                sum += self.breaks[i].1.len();
            }
            before.push(sum);
            let offset = |pos: Pos| i64::from(pos.bytes) + i64::from(before[pos.breaks as usize]);
            let mut grown = false;
            for (i, (at, broken)) in self.breaks.iter_mut().enumerate() {
                let (label, len, short, long) = match broken {
                    Break::Jump { condition, to: Dest::Label(label), len } => {
                        (*label, len, SHORT, if condition.is_some() { 6 } else { 5 })
                    }
                    Break::Loop { start_len, to: Dest::Label(label), len, .. } => {
                        (*label, len, *start_len + 1, *start_len + 1 + ROUND)
                    }
                    _ => continue,
                };
                let end = i64::from(*at) + i64::from(before[i]) + i64::from(short);
                let target = offset(self.labels[label.0 as usize].expect("bound"));
                if *len == short && i8::try_from(target - end).is_err() {
                    *len = long;
                    grown = true;
                }
            }
            if !grown {
                return before;
            }
        }
    }
}

/// Instructions without effect, as few as possible.
fn fill(bytes: &mut Vec<u8>, mut len: u8) {
    const NOPS: [&[u8]; 11] = [
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
        &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        &[0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    ];
    while len > 0 {
        let part = len.min(NOPS.len() as u8);
        bytes.extend_from_slice(NOPS[usize::from(part) - 1]);
        len -= part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_branches_reach_or_go_round() {
        for (between, len) in [(100, 2), (200, 9)] {
            let mut a = Assembler::default();
            let there = a.label();
            a.bind(there);
            a.raw(&vec![0x90; between]);
            a.short_branch(&[0xe2], Dest::Label(there));
            let code = a.finish();
            assert_eq!(code.bytes.len(), between + len);
            assert!(code.fixes.is_empty());
            let branch = &code.bytes[between..];
            match len {
                2 => assert_eq!(branch, &[0xe2, -102i8 as u8]),
                _ => {
                    assert_eq!(branch[..5], [0xe2, 2, 0xeb, 5, 0xe9]);
                    assert_eq!(branch[5..], (-209i32).to_le_bytes());
                }
            }
        }
    }

    #[test]
    fn what_belongs_together_stays_on_a_line() {
        for (before, size, filled) in [(0, 64, 0), (10, 54, 0), (10, 55, 54), (50, 20, 14), (10, 65, 0)] {
            let mut a = Assembler::default();
            let end = a.label();
            a.raw(&vec![0x90; before]);
            a.keep_together(end);
            let start = a.pos();
            a.raw(&vec![0x90; size]);
            a.bind(end);
            let code = a.finish();
            assert_eq!(code.offset(start), before as u32 + filled, "{before} {size}");
            assert_eq!(code.align, LINE);
        }
    }

    #[test]
    fn jumps_are_short_where_they_reach() {
        let mut a = Assembler::default();
        let (near, far) = (a.label(), a.label());
        a.bind(near);
        a.jump(Some(4), Dest::Label(far));
        a.jump(None, Dest::Label(near));
        a.raw(&[0x90; 200]);
        a.bind(far);
        a.raw(&[0xc3]);
        let code = a.finish();
        assert_eq!(code.bytes[..2], [0x0f, 0x84]);
        assert_eq!(i32::from_le_bytes(code.bytes[2..6].try_into().unwrap()), 202);
        assert_eq!(code.bytes[6..8], [0xeb, 0xf8]);
        assert_eq!(code.label(far), 208);
        assert!(code.fixes.is_empty());
    }

    #[test]
    fn fill_reaches_the_multiple() {
        let mut a = Assembler::default();
        a.raw(&[0xc3]);
        a.align(16);
        let pos = a.pos();
        a.raw(&[0xc3]);
        let code = a.finish();
        assert_eq!(code.offset(pos), 16);
        assert_eq!(code.bytes.len(), 17);
    }

    #[test]
    fn distances_to_elsewhere_stay_open() {
        let mut a = Assembler::default();
        a.with_distance(&[0xc7, 0x05, 0, 0, 0, 0, 1, 0, 0, 0], 2, Dest::Fixed(LinkAddr(0x5000)));
        a.jump(None, Dest::Entry(LinkAddr(0x6000)));
        let code = a.finish();
        assert!(code.fixes.contains(&Fix { at: 2, from: 10, to: Dest::Fixed(LinkAddr(0x5000)) }));
        assert!(code.fixes.contains(&Fix { at: 11, from: 15, to: Dest::Entry(LinkAddr(0x6000)) }));
    }
}
