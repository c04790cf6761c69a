//! Unwind and exception tables of old and new code, looked up by address and compared.

use relive_code::addr::{AddrRange, LinkAddr};
use relive_image::image::Image;
use relive_image::lsda::{CallSite, Lsda, Pointer};
use relive_image::unwind_rows::{Cfa, Row, Rule, Treatment};
use std::cell::RefCell;
use std::rc::Rc;

/// What the tables say of one frame.
pub(super) struct Frame {
    range: AddrRange,
    rows: Vec<(AddrRange, Row)>,
    /// How it is treated.
    pub(super) treatment: Treatment,
    /// What it throws.
    pub(super) lsda: Option<Lsda>,
}

impl Frame {
    /// The row for `at`.
    pub(super) fn row(&self, at: LinkAddr) -> Option<&Row> {
        let behind = self.rows.partition_point(|(range, _)| range.start <= at);
        self.rows[..behind].last().filter(|(range, _)| range.contains(at)).map(|(_, row)| row)
    }

    /// What becomes of an exception from an instruction that covers `at`: the outer `None` if there are no
    /// exceptions here, the inner one if it ends the program.
    pub(super) fn site(&self, at: LinkAddr) -> Option<Option<&CallSite>> {
        let lsda = self.lsda.as_ref()?;
        let first = lsda.call_sites.partition_point(|site| site.range.end <= at);
        Some(lsda.call_sites.get(first).filter(|site| site.range.contains(at)))
    }
}

/// The frames of one file, read as they are asked for.
pub(super) struct Frames<'a, 'd> {
    image: &'a Image<'d>,
    known: RefCell<Vec<Rc<Frame>>>,
}

impl<'a, 'd> Frames<'a, 'd> {
    /// Frames of `image`.
    pub(super) fn new(image: &'a Image<'d>) -> Self {
        Self { image, known: RefCell::default() }
    }

    /// The frame that covers `at`.
    ///
    /// # Errors
    /// What is damaged.
    pub(super) fn at(&self, at: LinkAddr) -> Result<Option<Rc<Frame>>, &'static str> {
        let known = self.known.borrow().iter().rev().find(|f| f.range.contains(at)).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let unwind = &self.image.unwind;
        let Some(frame) = unwind.frame_holding(at) else { return Ok(None) };
        let (treatment, rows) = unwind.rows(frame).map_err(|_| "the unwind entry is damaged")?;
        let lsda = unwind.lsda(&self.image.elf, frame).map_err(|_| "the exception table is damaged")?;
        let frame = Rc::new(Frame { range: frame.range, rows, treatment, lsda });
        self.known.borrow_mut().push(frame.clone());
        Ok(Some(frame))
    }
}

/// Whether `new` says what `old` does while the stack is `deeper` than there. Of what the old tables did not
/// describe nothing can be said.
pub(super) fn rows_agree(old: Option<&Row>, new: Option<&Row>, deeper: i64) -> bool {
    const STACK_POINTER: u16 = 7;
    let Some(old) = old else { return true };
    let Some(new) = new else { return false };
    let cfa = match (&old.cfa, &new.cfa) {
        (Cfa::Register(STACK_POINTER, old), Cfa::Register(STACK_POINTER, new)) => old + deeper == *new,
        (Cfa::Expression(expression), _) if deeper != 0 && starts_at_stack(expression) => false,
        (old, new) => old == new,
    };
    let moved = |(_, rule): &(u16, Rule)| match rule {
        Rule::Expression(e) | Rule::ValExpression(e) => deeper != 0 && starts_at_stack(e),
        _ => false,
    };
    cfa && old.registers == new.registers
        && old.args_size == new.args_size
        && !old.registers.iter().any(moved)
}

/// Whether a DWARF expression computes with the stack pointer.
fn starts_at_stack(expression: &[u8]) -> bool {
    const BREG_RSP: u8 = 0x77;
    expression.first() == Some(&BREG_RSP)
}

/// Whether exceptions are tried against the same types in the same order. Landing pads are for the caller to
/// compare.
pub(super) fn actions_agree(old: (&Lsda, &CallSite), new: (&Lsda, &CallSite)) -> bool {
    let type_of = |pointer: Option<&Pointer>| match pointer {
        Some(Pointer { value: 0, .. }) | None => None,
        Some(pointer) => Some((pointer.address, pointer.encoding.is_indirect())),
    };
    let list = |lsda: &Lsda, filter: i64| -> Vec<_> {
        lsda.type_list(filter).map(|n| type_of(lsda.catch_type(n as i64))).collect()
    };
    if old.1.action.is_some() != new.1.action.is_some() {
        return false;
    }
    let (mut old_actions, mut new_actions) = (old.0.actions_of(old.1), new.0.actions_of(new.1));
    loop {
        let (a, b) = match (old_actions.next(), new_actions.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) => (a.filter, b.filter),
            _ => return false,
        };
        // The landing pad sees the number itself.
        let same = a == b
            && if a > 0 {
                old.0.catch_type(a).is_some() == new.0.catch_type(b).is_some()
                    && type_of(old.0.catch_type(a)) == type_of(new.0.catch_type(b))
            } else {
                a == 0 || list(old.0, a) == list(new.0, b)
            };
        if !same {
            return false;
        }
    }
}

/// What is wrong with the table by which the unwinder finds entries.
pub(super) fn check_search_table(image: &Image<'_>) -> Result<(), (LinkAddr, String)> {
    let Some(range) = image.elf.eh_frame_hdr else {
        let none = image.unwind.frames.is_empty();
        return if none { Ok(()) } else { Err((LinkAddr(0), "there is no search table".into())) };
    };
    let at = range.start;
    let wrong = |what: &str| Err((at, format!("the search table of unwind entries {what}")));
    let Some(bytes) = image.elf.bytes_in(at, range.len()) else { return wrong("is not in the file") };
    let word = |i: usize| bytes.get(i..).and_then(|b| b.first_chunk()).map(|b| i32::from_le_bytes(*b));
    let (Some(section), Some(count)) = (word(4), word(8)) else { return wrong("is cut short") };
    if bytes[..4] != [1, 0x1b, 0x03, 0x3b] {
        return wrong("is not encoded as expected");
    }
    let frames = image.elf.section(".eh_frame").map(|s| s.range.start);
    if frames != Some(LinkAddr(at.0.wrapping_add(4).wrapping_add(i64::from(section) as u64))) {
        return wrong("leads to another section");
    }
    let mut last = i64::MIN;
    let mut listed = std::collections::HashMap::new();
    for i in 0..count as u32 as usize {
        let (Some(code), Some(entry)) = (word(12 + 8 * i), word(16 + 8 * i)) else {
            return wrong("is cut short");
        };
        if i64::from(code) < last {
            return wrong("is not sorted");
        }
        last = i64::from(code);
        // Behind the entry's length and the way to its header is the distance to the code.
        let entry_at = LinkAddr(at.0.wrapping_add(i64::from(entry) as u64));
        let start = image.elf.bytes_at(entry_at).get(8..).and_then(|b| b.first_chunk());
        let start = start.map(|b| i64::from(i32::from_le_bytes(*b)) as u64);
        let begins = start.map(|distance| entry_at.0.wrapping_add(8).wrapping_add(distance));
        if begins != Some(at.0.wrapping_add(i64::from(code) as u64)) {
            return wrong("leads to an entry of other code");
        }
        listed.insert(at.0.wrapping_add(i64::from(code) as u64), at.0.wrapping_add(i64::from(entry) as u64));
    }
    for frame in &image.unwind.frames {
        let entry = frames.map(|f| f.0 + frame.offset as u64);
        if listed.get(&frame.range.start.0).copied() != entry {
            return Err((frame.range.start, "the search table does not lead to its unwind entry".into()));
        }
    }
    Ok(())
}
