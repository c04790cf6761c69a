//! Traces as text.

use super::inorder::Teller;
use super::select::{Part, Told};
use relive_code::isa::{AccessKind, Syntax};
use relive_trace::visit::Ran;
use std::collections::HashMap;
use std::io::Write as _;

/// Appends a number in hexadecimal.
fn hex(out: &mut Vec<u8>, number: u64) {
    let digits = 16 - (number | 1).leading_zeros() / 4;
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(number >> (digit * 4)) as usize & 15]);
    }
}

/// Appends a number.
fn decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// `--mem`, of a thread.
pub(super) struct Mem(pub(super) u32);

impl Teller for Mem {
    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>) {
        for reference in part.references {
            let kinds: &[u8] = match reference.kind {
                AccessKind::Read => b"r",
                AccessKind::Write => b"w",
                AccessKind::Update => b"rw",
            };
            for &kind in kinds {
                decimal(out, self.0.into());
                out.push(b'\t');
                hex(out, ran.unit.steps[usize::from(reference.step)].pc);
                out.push(b'\t');
                hex(out, reference.address);
                out.push(b'\t');
                decimal(out, reference.size.into());
                out.extend_from_slice(&[b'\t', kind, b'\n']);
            }
        }
    }
}

/// `--blocks`, of a thread.
pub(super) struct Blocks(pub(super) u32);

impl Teller for Blocks {
    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>) {
        let steps = &ran.unit.steps[part.from..part.to];
        for block in steps.chunk_by(|one, next| one.piece == next.piece) {
            let (first, last) = (block[0], block[block.len() - 1]);
            decimal(out, self.0.into());
            out.push(b'\t');
            hex(out, first.pc);
            out.push(b'\t');
            hex(out, last.pc + u64::from(last.len));
            out.push(b'\t');
            decimal(out, block.len() as u64);
            out.push(b'\n');
        }
    }
}

/// `--instructions`, of a thread.
pub(super) struct Instructions {
    thread: u32,
    /// By unit, what its instructions are.
    texts: HashMap<u32, Vec<String>>,
}

impl Instructions {
    pub(super) fn new(thread: u32) -> Self {
        Self { thread, texts: HashMap::new() }
    }
}

impl Teller for Instructions {
    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>) {
        let unit = ran.unit;
        let texts = self.texts.entry(unit.number).or_insert_with(|| {
            let text = |step| {
                unit.decode(step).map_or_else(String::new, |insn| insn.text(Syntax::Intel).to_string())
            };
            (0..unit.steps.len()).map(text).collect()
        });
        for (step, text) in unit.steps.iter().zip(texts).take(part.to).skip(part.from) {
            decimal(out, self.thread.into());
            out.push(b'\t');
            hex(out, step.pc);
            out.push(b'\t');
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
    }
}

/// As `valgrind --tool=lackey --trace-mem=yes` writes it.
pub(super) struct Lackey;

impl Teller for Lackey {
    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>) {
        part.in_order(ran, |told| match told {
            Told::Instruction(step, _) => {
                let _ = writeln!(out, "I  {:08x},{}", step.pc, step.len);
            }
            Told::Reference(reference) => {
                let kind = match reference.kind {
                    AccessKind::Read => 'L',
                    AccessKind::Write => 'S',
                    AccessKind::Update => 'M',
                };
                let _ = writeln!(out, " {kind} {:08x},{}", reference.address, reference.size);
            }
        });
    }
}

/// As dineroIV reads it: 0 a read, 1 a write, 2 an instruction; then the address and the size.
pub(super) struct Dinero;

impl Dinero {
    fn line(out: &mut Vec<u8>, label: u8, address: u64, size: u64) {
        out.extend_from_slice(&[label, b' ']);
        hex(out, address);
        out.push(b' ');
        hex(out, size);
        out.push(b'\n');
    }
}

impl Teller for Dinero {
    fn ran(&mut self, ran: &Ran<'_>, part: &Part<'_>, out: &mut Vec<u8>) {
        part.in_order(ran, |told| match told {
            Told::Instruction(step, _) => Self::line(out, b'2', step.pc, step.len.into()),
            Told::Reference(reference) => {
                if reference.kind != AccessKind::Write {
                    Self::line(out, b'0', reference.address, reference.size.into());
                }
                if reference.kind != AccessKind::Read {
                    Self::line(out, b'1', reference.address, reference.size.into());
                }
            }
        });
    }
}
