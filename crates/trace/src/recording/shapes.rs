//! What is known of each tag without looking at its unit.

use crate::control::Kept;
use crate::replay::Wrong;
use crate::units::{Out, Units};
use relive_abi::trace::{payload, stopped_values, tag_of, word};

/// What a tag says of its record. Two words, as there are many, and they are copied all the time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Shape {
    /// The tag, and above it the slot of its first value.
    tag_and_slot: u64,
    /// How many instructions were executed; in the next 16 bits, which exit it is; in the highest 16, how many values there are, and flags.
    steps_and_values: u64,
}

/// There is such a tag.
const EXISTS: u16 = 1 << 15;
/// There are at most [`FEW`] values.
const PLAIN: u16 = 1 << 14;
/// What is left for the number of values.
const VALUES: u16 = PLAIN - 1;
/// Where that is.
const ABOVE: u32 = 48;
/// And where it is said which exit it is.
const OUT: u32 = 32;

/// How many values a plain shape has at most.
pub(super) const FEW: u16 = 15;

impl Shape {
    /// Of an exit.
    fn new(tag: u32, slot: u32, steps: u32, values: u16, out: Out) -> Option<Self> {
        // No unit is so long that its numbers do not fit.
        let values = Some(values).filter(|&values| values <= VALUES)?;
        let flags = EXISTS | if values <= FEW { PLAIN } else { 0 };
        let tag_and_slot = u64::from(tag) | u64::from(slot) << 32;
        let steps_and_values =
            u64::from(steps) | u64::from(out.0) << OUT | u64::from(values | flags) << ABOVE;
        Some(Self { tag_and_slot, steps_and_values })
    }

    /// Of a special tag.
    pub(super) fn special(tag: u32) -> Self {
        Self { tag_and_slot: tag.into(), ..Self::default() }
    }

    #[inline(always)]
    pub(super) fn tag(&self) -> u32 {
        self.tag_and_slot as u32
    }

    #[inline(always)]
    fn flags(&self) -> u16 {
        (self.steps_and_values >> ABOVE) as u16
    }

    /// Whether it is one.
    #[inline]
    fn exists(&self) -> bool {
        self.flags() & EXISTS != 0
    }

    /// The slot of its first value.
    #[inline(always)]
    pub(super) fn slot(&self) -> u32 {
        (self.tag_and_slot >> 32) as u32
    }

    /// How many values there are.
    #[inline(always)]
    pub(super) fn values(&self) -> usize {
        usize::from(self.flags() & VALUES)
    }

    /// Whether there are few values, and nothing else belongs to it.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.flags() & PLAIN != 0
    }

    /// Whether it is one, and has so many values.
    #[inline(always)]
    pub(super) fn has_values(&self, count: usize) -> bool {
        usize::from(self.flags() & !PLAIN) == usize::from(EXISTS) | count
    }

    /// How many instructions were executed.
    #[inline(always)]
    pub(super) fn steps(&self) -> u64 {
        self.steps_and_values as u32 as u64
    }

    /// Which exit of its unit it is.
    #[inline(always)]
    pub(super) fn out(&self) -> Out {
        Out((self.steps_and_values >> OUT) as u16)
    }
}

/// What is kept of a record that was packed, for when it comes again.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Passed {
    /// The first word of the record.
    pub(super) word: u32,
    /// Where in the segment it was, as it was written down, modulo 2³².
    pub(super) at: u32,
    /// How many instructions were executed.
    pub(super) steps: u32,
    /// How long it is; 0 if it has more than [`FEW`] values, or something else belongs to it.
    pub(super) len: u32,
}

impl Kept for Passed {
    #[inline(always)]
    fn tag(&self) -> u32 {
        tag_of(self.word)
    }
}

impl Passed {
    /// A record at some place.
    pub(super) fn new(shape: Shape, at: u32) -> Self {
        let len = if shape.is_plain() { (size_of::<u32>() + shape.values() * 8) as u32 } else { 0 };
        Self { word: word(shape.tag(), shape.values() as u16), at, steps: shape.steps() as u32, len }
    }
}

/// The same where no values are written down: half as much.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Brief {
    tag: u32,
    /// How many instructions were executed; 0 for a special tag.
    steps: u32,
}

impl Kept for Brief {
    #[inline(always)]
    fn tag(&self) -> u32 {
        self.tag
    }
}

impl From<Shape> for Brief {
    fn from(shape: Shape) -> Self {
        Self { tag: shape.tag(), steps: shape.steps() as u32 }
    }
}

impl Brief {
    /// How many instructions were executed.
    #[inline(always)]
    pub(super) fn steps(&self) -> u64 {
        self.steps.into()
    }

    /// Whether it is not a special tag.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.tag.cast_signed() > 0
    }
}

/// By tag.
#[derive(Default)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    units: usize,
}

impl Shapes {
    /// Takes in units that are new.
    pub(super) fn update(&mut self, units: &Units) {
        for unit in &units.all()[self.units..] {
            let (first, operations) = (unit.first as usize, &unit.operations);
            self.all.resize(self.all.len().max(first + unit.exits.len()), Shape::default());
            for (n, (exit, way)) in unit.exits.iter().zip(&operations.ways).enumerate() {
                let tag = (first + n) as u32;
                let out = units.exits().out(tag).unwrap_or_default();
                let shape = Shape::new(tag, operations.slot, exit.steps, way.values, out);
                self.all[first + n] = shape.unwrap_or_default();
            }
        }
        self.units = units.all().len();
    }

    /// Of tags from 0 on, each with the slot of its first value, how many instructions it stands for and how many values it has.
    #[cfg(test)]
    pub(super) fn of(tags: impl Iterator<Item = (u32, u32, u16)>) -> Self {
        let shape = |(tag, (slot, steps, values))| {
            Shape::new(tag as u32, slot, steps, values, Out::default()).unwrap_or_default()
        };
        Self { all: tags.enumerate().map(shape).collect(), units: 0 }
    }

    /// How much belongs to a tag: values, if there are some, and what special tags have behind them.
    pub(super) fn len_behind(&self, tag: u32, memory: bool) -> Result<usize, Wrong> {
        match self.get(tag) {
            Some(shape) => Ok(if memory { shape.values() * 8 } else { 0 }),
            None => {
                let own = payload(tag).ok_or(Wrong::UnknownTag(tag))?;
                Ok(own + usize::from(stopped_values(tag).unwrap_or(0)) * 8)
            }
        }
    }

    /// How many there may be.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// By tag. Not all exist.
    pub(super) fn all(&self) -> &[Shape] {
        &self.all
    }

    /// Of a tag.
    #[inline]
    pub(super) fn get(&self, tag: u32) -> Option<Shape> {
        self.all.get(tag as usize).copied().filter(Shape::exists)
    }
}
