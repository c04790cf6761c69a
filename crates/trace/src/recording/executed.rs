//! Which units are executed in a segment.

use crate::columns::put_number;
use crate::units::Unit;
use zstd::bulk::Compressor;

/// Which units are executed.
#[derive(Default)]
pub(super) struct Executed {
    /// Their numbers, in the order in which they are first.
    numbers: Vec<u8>,
    /// Whether one is among them.
    is_in: Vec<bool>,
}

impl Executed {
    /// There are so many units.
    pub(super) fn make_room(&mut self, units: usize) {
        self.is_in.resize(self.is_in.len().max(units), false);
    }

    /// A unit is executed: whether for the first time.
    pub(super) fn note(&mut self, unit: &Unit) -> bool {
        let is_first = !std::mem::replace(&mut self.is_in[unit.number as usize], true);
        if is_first {
            put_number(&mut self.numbers, unit.number.into());
        }
        is_first
    }

    /// All of them. From here on, there are none.
    pub(super) fn finish(&mut self, compressor: &mut Compressor<'_>) -> Vec<u8> {
        let packed = compressor.compress(&self.numbers).expect("memory for what is packed");
        self.forget();
        packed
    }

    /// There are none.
    pub(super) fn forget(&mut self) {
        self.numbers.clear();
        self.is_in.fill(false);
    }
}
