//! What is known of each tag without looking at its unit.

use crate::operations::Direction;
use crate::units::{Unit, Units};
use relive_abi::trace::Stop;
use std::sync::Arc;

/// What a tag says of its record. Small, as there are many, and each record asks for one.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Shape {
    /// The unit's number.
    pub(super) unit: u32,
    /// The slot of its first value.
    pub(super) slot: u32,
    /// How far the stack has moved.
    pub(super) moved: i32,
    /// How many instructions were executed.
    pub(super) steps: u16,
    /// How many values there are, and flags.
    values: u16,
}

/// There is such a tag.
const EXISTS: u16 = 1 << 15;
/// The unit takes nothing for known that is not always known.
const BASE: u16 = 1 << 14;
/// There is more to know: see [`Shapes::more`].
const MORE: u16 = 1 << 13;
/// What is left for the number of values.
const VALUES: u16 = MORE - 1;

impl Shape {
    /// Whether it is one.
    #[inline]
    pub(super) fn exists(&self) -> bool {
        self.values & EXISTS != 0
    }

    #[inline]
    pub(super) fn values(&self) -> usize {
        usize::from(self.values & VALUES)
    }

    /// Whether the unit takes nothing for known that is not always known.
    #[inline]
    pub(super) fn is_base(&self) -> bool {
        self.values & BASE != 0
    }

    /// Whether there is [more](Shapes::more) to know.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        self.values & MORE != 0
    }
}

/// What else happens on the way to some exits.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct More {
    /// The value that says where the stack was, if one does, and how far it has moved since.
    pub(super) stack: Option<(u16, i64)>,
    /// What becomes of the direction flag.
    pub(super) direction: Direction,
}

/// By tag.
#[derive(Default)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    units: Vec<Arc<Unit>>,
}

impl Shapes {
    /// Takes in units that are new.
    pub(super) fn update(&mut self, units: &Units) {
        for unit in &units.all()[self.units.len()..] {
            let (first, operations) = (unit.first as usize, &unit.operations);
            self.all.resize(self.all.len().max(first + unit.exits.len()), Shape::default());
            for (n, (exit, way)) in unit.exits.iter().zip(&operations.ways).enumerate() {
                let moved = i32::try_from(way.moved).ok().filter(|_| way.stack.is_none());
                // No unit is so long that its numbers do not fit.
                let Some(steps) = u16::try_from(exit.steps).ok().filter(|_| way.values <= VALUES) else {
                    continue;
                };
                let has_more = moved.is_none() || way.direction != Direction::Same;
                let flag = |is: bool, flag: u16| if is { flag } else { 0 };
                let flags = EXISTS | flag(unit.known.is_empty(), BASE) | flag(has_more, MORE);
                let values = way.values | flags;
                let (unit, slot, moved) = (unit.number, operations.slot, moved.unwrap_or(0));
                self.all[first + n] = Shape { unit, slot, moved, steps, values };
            }
            self.units.push(unit.clone());
        }
    }

    /// Of a tag.
    #[inline]
    pub(super) fn get(&self, tag: u32) -> Option<&Shape> {
        self.all.get(tag as usize).filter(|shape| shape.exists())
    }

    fn unit(&self, tag: u32) -> Option<&Unit> {
        self.get(tag).and_then(|shape| self.units.get(shape.unit as usize)).map(|unit| &**unit)
    }

    /// What else is to know of a tag.
    pub(super) fn more(&self, tag: u32) -> More {
        let way = self.unit(tag).and_then(|unit| unit.operations.ways.get((tag - unit.first) as usize));
        way.map_or_else(More::default, |way| More {
            stack: way.stack.map(|value| (value, way.moved)),
            direction: way.direction,
        })
    }

    /// How many instructions of a unit come before the place where it was left in the middle.
    pub(super) fn steps_before(&self, stop: &Stop) -> usize {
        self.unit(stop.unit).map_or(0, |unit| unit.steps_before(stop))
    }
}
