//! What is known of each tag without looking at its unit.

use crate::control::Kept;
use crate::operations::{Direction, Way};
use crate::units::{Exit, Units};

/// What a tag says of its record. Two words, as there are many, and they are copied all the time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Shape {
    /// The tag, and above it the slot of its first value.
    tag_and_slot: u64,
    /// How far the stack has moved and, 2³² times that, how many instructions were executed: see [`Gone`]. In the highest 16 bits, how
    /// many values there are, and flags.
    gone_and_values: u64,
}

/// There is such a tag.
const EXISTS: u16 = 1 << 15;
/// The unit takes nothing for known that is not always known.
const BASE: u16 = 1 << 14;
/// There is nothing more to know than this, and of everything there is little.
const PLAIN: u16 = 1 << 13;
/// What is left for the number of values.
const VALUES: u16 = PLAIN - 1;

/// How many values a plain shape has at most.
pub(super) const FEW: u16 = 15;

/// How far a thread has gone with plain shapes: the sum of what each of them says.
#[derive(Clone, Copy, Default)]
pub(super) struct Gone(u64);

impl Gone {
    const BITS: u32 = 48;

    #[inline(always)]
    pub(super) fn add(&mut self, shape: &Shape) {
        self.0 += shape.gone_and_values & ((1 << Self::BITS) - 1);
    }

    /// How far the stack has moved.
    pub(super) fn moved(self) -> i64 {
        i64::from(self.0 as i32)
    }

    /// How many instructions were executed.
    pub(super) fn steps(self) -> u64 {
        self.0.wrapping_sub(self.moved() as u64) >> 32
    }
}

impl Kept for Shape {
    #[inline(always)]
    fn tag(&self) -> u32 {
        self.tag_and_slot as u32
    }
}

impl Shape {
    /// Of an exit.
    fn new(tag: u32, slot: u32, exit: &Exit, way: &Way, is_base: bool) -> Option<Self> {
        // No unit is so long that its numbers do not fit.
        let steps = u16::try_from(exit.steps).ok().filter(|_| way.values <= VALUES)?;
        let moved = i16::try_from(way.moved).ok().filter(|_| way.stack.is_none());
        let is_plain = moved.is_some() && steps > 0 && way.direction == Direction::Same && way.values <= FEW;
        let moved = if is_plain { moved.unwrap_or(0) } else { 0 };
        let gone = (u64::from(steps) << 32).wrapping_add_signed(moved.into());
        let flag = |is: bool, flag: u16| if is { flag } else { 0 };
        let values = way.values | EXISTS | flag(is_base, BASE) | flag(is_plain, PLAIN);
        let tag_and_slot = u64::from(tag) | u64::from(slot) << 32;
        Some(Self { tag_and_slot, gone_and_values: gone | u64::from(values) << Gone::BITS })
    }

    /// Of a special tag.
    pub(super) fn special(tag: u32) -> Self {
        Self { tag_and_slot: tag.into(), ..Self::default() }
    }

    #[inline(always)]
    fn flags(&self) -> u16 {
        (self.gone_and_values >> Gone::BITS) as u16
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

    /// Whether the unit takes nothing for known that is not always known.
    #[inline]
    pub(super) fn is_base(&self) -> bool {
        self.flags() & BASE != 0
    }

    /// Whether there is nothing more to know than this.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.flags() & PLAIN != 0
    }

    /// How far the thread has gone.
    pub(super) fn gone(&self) -> Gone {
        let mut gone = Gone::default();
        gone.add(self);
        gone
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
                let (tag, is_base) = ((first + n) as u32, unit.known.is_empty());
                self.all[first + n] =
                    Shape::new(tag, operations.slot, exit, way, is_base).unwrap_or_default();
            }
        }
        self.units = units.all().len();
    }

    /// Of a tag.
    #[inline]
    pub(super) fn get(&self, tag: u32) -> Option<Shape> {
        self.all.get(tag as usize).copied().filter(Shape::exists)
    }
}
