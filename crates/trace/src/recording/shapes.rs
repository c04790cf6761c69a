//! What is known of each tag without looking at its unit.

use crate::control::Kept;
use crate::replay::Wrong;
use crate::units::{Out, Units};
use crate::values::LANES;
use relive_abi::trace::{MANY, count_of, payload, stopped_values, tag_of, word};

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
/// What is left for the number of values.
const VALUES: u16 = EXISTS - 1;
/// Where that is.
const ABOVE: u32 = 48;
/// And where it is said which exit it is.
const OUT: u32 = 32;

impl Shape {
    /// Of an exit.
    fn new(tag: u32, slot: u32, steps: u32, values: u16, out: Out) -> Self {
        // No unit is so long that its numbers do not fit.
        let tag_and_slot = u64::from(tag) | u64::from(slot) << 32;
        let what = if values <= VALUES { values | EXISTS } else { 0 };
        let steps_and_values = u64::from(steps) | u64::from(out.0) << OUT | u64::from(what) << ABOVE;
        Self { tag_and_slot, steps_and_values }
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

    /// Whether it is one, and has so many values.
    #[inline(always)]
    pub(super) fn has_values(&self, count: usize) -> bool {
        usize::from(self.flags()) == usize::from(EXISTS) | count
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
    /// In which line of [`LANES`] the slot of its first value is, which begins with it.
    pub(super) line: u32,
    /// How many instructions were executed.
    pub(super) steps: u32,
}

impl Kept for Passed {
    #[inline(always)]
    fn tag(&self) -> u32 {
        tag_of(self.word)
    }
}

impl From<Shape> for Passed {
    fn from(shape: Shape) -> Self {
        let word = word(shape.tag(), shape.values() as u16);
        Self { word, line: shape.slot() / LANES as u32, steps: shape.steps() as u32 }
    }
}

impl Passed {
    /// How many values it has, if it is of a unit and says so.
    #[inline(always)]
    pub(super) fn values(&self) -> Option<usize> {
        // Nothing has been written down where there is a zero.
        let is_plain = self.word != 0 && count_of(self.word) < MANY.into();
        is_plain.then_some(count_of(self.word) as usize)
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
    /// Where the slots of the next unit begin. Those of each begin with a line of their own, so these are not the numbers that units give them.
    slots: u32,
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
                self.all[first + n] = Shape::new(tag, self.slots, exit.steps, way.values, out);
            }
            self.slots += operations.values().next_multiple_of(LANES as u32);
        }
        self.units = units.all().len();
    }

    /// Of tags from 0 on, each with the slot of its first value, how many instructions it stands for and how many values it has.
    #[cfg(test)]
    pub(super) fn of(tags: impl Iterator<Item = (u32, u32, u16)>) -> Self {
        let shape =
            |(tag, (slot, steps, values))| Shape::new(tag as u32, slot, steps, values, Out::default());
        let all: Vec<Shape> = tags.enumerate().map(shape).collect();
        let slots = all.iter().map(|shape| shape.slot() + shape.values() as u32).max().unwrap_or_default();
        Self { all, units: 0, slots }
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

    /// How many slots there are.
    pub(super) fn slots(&self) -> usize {
        self.slots as usize
    }

    /// The first slot of the unit that has this tag.
    pub(super) fn first_slot(&self, tag: u32) -> u32 {
        self.all.get(tag as usize).map_or(0, Shape::slot)
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
