//! What is known of each tag without looking at its unit.

use crate::units::Units;

/// What a tag says of its record.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Shape {
    /// The unit's number.
    pub(super) unit: u32,
    /// The slot of its first value.
    pub(super) slot: u32,
    /// How many instructions were executed.
    pub(super) steps: u32,
    /// How many values there are.
    pub(super) values: u16,
    /// Which of them says where the stack was, counted from one; zero for none.
    pub(super) stack: u16,
    /// How far the stack has moved since.
    pub(super) moved: i64,
    /// Whether the unit takes nothing for known that is not always known.
    pub(super) is_base: bool,
    /// Whether the direction flag may have changed.
    pub(super) turns: bool,
    /// Whether there is such a tag.
    pub(super) exists: bool,
}

/// By tag.
#[derive(Default)]
pub(super) struct Shapes {
    all: Vec<Shape>,
    /// Units that have been looked at.
    units: usize,
}

impl Shapes {
    /// Whether no unit is new.
    pub(super) fn is_complete(&self, units: &Units) -> bool {
        self.units == units.all().len()
    }

    /// Takes in units that are new.
    pub(super) fn update(&mut self, units: &Units) {
        for unit in &units.all()[self.units..] {
            let (first, operations) = (unit.first as usize, &unit.operations);
            self.all.resize(self.all.len().max(first + unit.exits.len()), Shape::default());
            for (n, (exit, way)) in unit.exits.iter().zip(&operations.ways).enumerate() {
                self.all[first + n] = Shape {
                    unit: unit.number,
                    slot: operations.slot,
                    steps: exit.steps,
                    values: way.values,
                    stack: way.stack.map_or(0, |index| index + 1),
                    moved: way.moved,
                    is_base: unit.known.is_empty(),
                    turns: way.turns,
                    exists: true,
                };
            }
        }
        self.units = units.all().len();
    }

    /// Of a tag.
    #[inline]
    pub(super) fn get(&self, tag: u32) -> Option<&Shape> {
        self.all.get(tag as usize).filter(|shape| shape.exists)
    }
}
