//! Places of the program that are known: the unit that begins there, and the ways that lead there. One table for both,
//! as whoever asks for one mostly needs the other.

use crate::translate::Exit;
use hashbrown::HashMap;

/// Instead of a number.
pub const NONE: u32 = u32::MAX;

/// All of them, by their addresses.
#[derive(Default)]
pub struct Places(HashMap<u64, Place>);

#[derive(Clone, Copy)]
struct Place {
    /// The unit that begins there.
    unit: u32,
    /// The last exit that leads there; each says which comes next ([`Exit::next`]).
    way: u32,
}

const NOTHING: Place = Place { unit: NONE, way: NONE };

fn some(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

impl Places {
    /// The unit that begins at an address.
    pub fn unit(&self, pc: u64) -> Option<u32> {
        self.0.get(&pc).and_then(|place| some(place.unit))
    }

    /// Another unit begins there. Says which is the first way there.
    pub fn set_unit(&mut self, pc: u64, unit: u32) -> Option<u32> {
        let place = self.0.entry(pc).or_insert(NOTHING);
        place.unit = unit;
        some(place.way)
    }

    /// No unit begins there any more; nor are there ways to it, unless these are kept. Says which is the first.
    pub fn remove_unit(&mut self, pc: u64, keeps_ways: bool) -> Option<u32> {
        let place = self.0.get_mut(&pc)?;
        let way = place.way;
        place.unit = NONE;
        if !keeps_ways {
            place.way = NONE;
        }
        some(way)
    }

    /// Takes in an exit, by its number, as a way to where it leads. Says which unit is there.
    pub fn add_way(&mut self, number: u32, exit: &mut Exit) -> Option<u32> {
        let place = self.0.entry(exit.to).or_insert(NOTHING);
        exit.next = core::mem::replace(&mut place.way, number);
        some(place.unit)
    }

    /// The last of the ways to an address.
    pub fn way(&self, pc: u64) -> Option<u32> {
        self.0.get(&pc).and_then(|place| some(place.way))
    }

    /// All ways to an address.
    pub fn ways<'a>(&self, pc: u64, exits: &'a [Exit]) -> impl Iterator<Item = u32> + use<'a> {
        let first = self.way(pc);
        core::iter::successors(first, |&number| exits[number as usize].next())
    }
}
