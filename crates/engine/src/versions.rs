//! Units that begin at the same place but take different registers for known: what is known need not be written down again.

use crate::cache::Cache;
use crate::log::Log;
use crate::making::Wanted;
use crate::maps::Maps;
use crate::translate::Entrance;
use alloc::vec::Vec;
use hashbrown::HashMap;
use relive_code::isa::RegSet;

/// Versions of one place at most, besides that which takes nothing for known.
const MOST: usize = 3;

/// All that take something for known, by where they begin.
#[derive(Default)]
pub struct Versions(HashMap<u64, Vec<u32>>);

impl Versions {
    /// Takes in a unit.
    pub fn add(&mut self, pc: u64, unit: u32) {
        self.0.entry(pc).or_default().push(unit);
    }

    /// One takes the place of another.
    pub fn replace(&mut self, pc: u64, old: u32, unit: u32) {
        let all = self.0.entry(pc).or_default();
        match all.iter_mut().find(|known| **known == old) {
            Some(known) => *known = unit,
            None => all.push(unit),
        }
    }

    /// Forgets all that begin at an address.
    pub fn remove(&mut self, pc: u64) {
        self.0.remove(&pc);
    }
}

impl Cache {
    /// The unit at a place for who knows some registers: one that takes no others for known.
    pub(crate) fn find_version(
        &mut self,
        pc: u64,
        known: RegSet,
        entrance: Entrance,
        maps: &mut Maps,
        log: &mut Log,
    ) -> Option<u32> {
        if known.is_empty() {
            return self.find_or_translate(pc, entrance, maps, log);
        }
        let others = self.versions.0.get(&pc).map_or(&[][..], Vec::as_slice);
        let all = others.iter().copied().chain(self.places.unit(pc));
        let takes = |unit: u32| {
            let unit = &self.units[unit as usize];
            unit.known & unit.useful
        };
        let best =
            all.filter(|&unit| known.contains(takes(unit))).max_by_key(|&unit| takes(unit).gprs().count());
        let is_full = others.len() >= MOST;
        match best {
            Some(unit) if is_full || takes(unit) == known & self.units[unit as usize].useful => Some(unit),
            None if is_full => self.find_or_translate(pc, entrance, maps, log),
            _ => self.translate(Wanted { known, ..Wanted::new(pc, entrance) }, maps, log),
        }
    }
}
