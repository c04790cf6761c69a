//! What has been written down of the program's code, and the counters it has there. Code that is translated again,
//! because its page was written to or the cache was full, is still the same code if nothing of it has changed: it
//! goes on counting where it did.

use crate::flow::{Flow, Source, is_call};
use crate::limits;
use crate::log::{self, Log};
use crate::maps::{Mapping, Maps};
use crate::translate::{Exit, Piece, Tags, Unit};
use alloc::vec::Vec;
use hashbrown::HashMap;
use relive_abi::engine as abi;
use relive_abi::trace::Traced;

/// All of it.
#[derive(Default)]
pub struct Written {
    /// In the order of the log, where a unit's number is its place among all units.
    units: Vec<Record>,
    /// The latest unit that begins at an address.
    latest: HashMap<u64, u32>,
    /// Counters of targets, by the unit that goes there, the jump or call, and the unit it leads to.
    targets: HashMap<(u32, u64, u32), Option<u32>>,
    /// The ways between units.
    flow: Flow,
    /// How many counters are taken.
    counters: u32,
}

struct Record {
    /// What it is made of: see [`shape`].
    shape: u64,
    /// Its first counter.
    counter: Option<u32>,
    /// One that began at the same address before.
    older: Option<u32>,
    /// Whether it need not be counted.
    is_exempt: bool,
}

/// A computed jump or call to some place.
pub struct WayOut {
    /// The unit it is in, by its number in the log.
    pub unit: u32,
    /// Its address.
    pub site: u64,
    /// Whether it is a call.
    pub is_call: bool,
    /// Where it leads.
    pub to: u64,
    /// The unit there, by its number in the log.
    pub to_unit: u32,
}

/// Counters at most.
pub(crate) fn most_counters() -> u32 {
    (limits::counters() / 8) as u32
}

/// More than any unit has.
const FOR_A_UNIT: u32 = 256;

impl Written {
    /// The first counter that code at an address will have if it is new; `None` if they are used up.
    pub fn fresh(&self) -> Option<u32> {
        (self.counters + FOR_A_UNIT < most_counters()).then_some(self.counters)
    }

    /// Whether there has been a unit at an address.
    pub fn has(&self, pc: u64) -> bool {
        self.latest.contains_key(&pc)
    }

    /// The first counter it will have if it is what was there before.
    pub fn guess(&self, pc: u64, maps: &Maps) -> Option<u32> {
        match self.latest.get(&pc) {
            Some(&number) => self.units[number as usize].counter,
            None if maps.is_exempt(pc, pc + 1) => None,
            None => self.fresh(),
        }
    }

    /// The first counter that a unit at `pc` has to have.
    pub fn counter(&self, pc: u64, shape: u64, unit: &Unit, maps: &Maps) -> Option<u32> {
        match self.find(pc, shape) {
            Some(number) => self.units[number as usize].counter,
            None if is_exempt(unit, maps) => None,
            None => self.fresh(),
        }
    }

    /// The number of a unit that has been written down.
    fn find(&self, pc: u64, shape: u64) -> Option<u32> {
        let mut next = self.latest.get(&pc).copied();
        while let Some(number) = next {
            let record = &self.units[number as usize];
            if record.shape == shape {
                return Some(number);
            }
            next = record.older;
        }
        None
    }

    /// The number of a unit in the log, to which it is added if it is new. Its counters begin with `counter`.
    pub fn unit(
        &mut self,
        pc: u64,
        shape: u64,
        counter: Option<u32>,
        unit: &mut Unit,
        maps: &Maps,
        log: &mut Log,
    ) -> u32 {
        let known = self.find(pc, shape);
        let number = known.unwrap_or(self.units.len() as u32);
        let is_exempt = is_exempt(unit, maps);
        for (exit, i) in unit.exits.iter_mut().zip(0..) {
            // Some units that end with a call may be counted and others not: then nothing follows from it.
            let is_outside = is_exempt || is_call(exit) && maps.is_exempt(exit.from, exit.from + 1);
            exit.source = match is_call(exit) {
                _ if is_outside => Source::Outside,
                true => Source::Call(self.flow.call(exit.from)),
                false => Source::Exit(number, i),
            };
        }
        if known.is_some() {
            if !is_in_files(unit, maps) {
                log.write(abi::AGAIN, &[&number.to_le_bytes(), &[0; 4]]);
            }
            return number;
        }
        if counter.is_some() {
            self.counters += unit.counters;
        } else if !is_exempt {
            log.statistics().lost += 1;
        }
        self.flow.add_unit(&unit.exits, counter.is_some());
        self.write_down(log, maps, counter, unit);
        let older = self.latest.insert(pc, number);
        self.units.push(Record { shape, counter, older, is_exempt });
        number
    }

    /// The counter of a way from a site in a unit to another unit.
    pub fn target(&mut self, way: &WayOut, maps: &Maps, log: &mut Log) -> Option<u32> {
        let &WayOut { unit, site, is_call, to, to_unit } = way;
        if self.units[unit as usize].is_exempt || is_call && maps.is_exempt(site, site + 1) {
            return None;
        }
        if let Some(&known) = self.targets.get(&(unit, site, to_unit)) {
            return known;
        }
        let counter = self.take_one(log);
        let target = abi::Target {
            site,
            to,
            counter: counter.unwrap_or(abi::NO_COUNTER),
            mapping: maps.find(site).map_or(0, |m| m.number),
            unit,
            call: if is_call { self.flow.call(site) } else { abi::NO_CALL },
        };
        log.write(abi::TARGET, &[log::bytes(&target)]);
        self.targets.insert((unit, site, to_unit), counter);
        counter
    }

    /// The counter of a way to a unit, or to where no code is, if it has to be counted.
    pub fn way(&mut self, from: Source, to: Option<u32>, log: &mut Log) -> Option<u32> {
        if let Some(known) = self.flow.known(from, to) {
            return known;
        }
        if from == Source::Outside && to.is_some_and(|to| self.units[to as usize].is_exempt) {
            return None;
        }
        let counter = if self.flow.closes(from, to) { self.take_one(log) } else { None };
        let (kind, number, exit) = match from {
            Source::Exit(unit, exit) => (abi::FROM_EXIT, unit, exit),
            Source::Call(number) => (abi::FROM_CALL, number, 0),
            Source::Target(counter) => (abi::FROM_TARGET, counter, 0),
            Source::Outside => (abi::FROM_OUTSIDE, 0, 0),
        };
        let edge = abi::Edge {
            kind,
            from: number,
            exit,
            to: to.unwrap_or(abi::OUTSIDE),
            counter: counter.unwrap_or(abi::NO_COUNTER),
            unused: 0,
        };
        if log.write(abi::EDGE, &[log::bytes(&edge)]).is_none() {
            log.statistics().lost += 1;
        }
        self.flow.insert(from, to, counter);
        counter
    }

    /// A counter for something; `None` if they are used up.
    fn take_one(&mut self, log: &mut Log) -> Option<u32> {
        let counter = (self.counters < most_counters()).then_some(self.counters);
        match counter {
            Some(_) => self.counters += 1,
            None => log.statistics().lost += 1,
        }
        counter
    }

    fn write_down(&self, log: &mut Log, maps: &Maps, counter: Option<u32>, unit: &Unit) {
        let head = abi::Unit {
            entries: counter.unwrap_or(abi::NO_COUNTER),
            pieces: unit.pieces.len() as u32,
            exits: unit.exits.len() as u32,
            exempt: is_exempt(unit, maps).into(),
        };
        write_unit(abi::UNIT, log::bytes(&head), unit, log);
        if !is_in_files(unit, maps) {
            write_code(unit, log);
        }
    }
}

/// Writes a unit down whose first exit has a tag.
pub fn write_down_traced(tags: Tags, unit: &Unit, log: &mut Log) {
    let known = tags.known.gprs().fold(0, |mask, register| mask | 1 << register.number());
    let (pieces, exits) = (unit.pieces.len() as u16, unit.exits.len() as u16);
    let head = Traced { first: unit.first_tag(tags), pieces, exits, known, unused: 0 };
    write_unit(abi::TRACED, log::bytes(&head), unit, log);
    write_code(unit, log);
}

fn write_unit(kind: u32, head: &[u8], unit: &Unit, log: &mut Log) {
    let pieces: Vec<abi::Piece> =
        unit.pieces.iter().map(|&Piece { start, end }| abi::Piece { start, end }).collect();
    let exits: Vec<abi::Exit> = unit.exits.iter().map(Exit::record).collect();
    let parts = [head, log::all_bytes(&pieces), log::all_bytes(&exits)];
    if log.write(kind, &parts).is_none() {
        log.statistics().lost += 1;
    }
}

fn write_code(unit: &Unit, log: &mut Log) {
    let parts: Vec<&[u8]> = unit.pieces.iter().map(code).collect();
    log.write(abi::CODE, &parts);
}

/// The program's code in a piece.
fn code(piece: &Piece) -> &[u8] {
    let len = piece.end.saturating_sub(piece.start) as usize;
    // SAFETY: decoded just now. If the program takes it away meanwhile, it would find that out itself.
    unsafe { core::slice::from_raw_parts(piece.start as *const u8, len) }
}

/// Whether all its code need not be counted.
fn is_exempt(unit: &Unit, maps: &Maps) -> bool {
    unit.pieces.iter().all(|piece| maps.is_exempt(piece.start, piece.end))
}

/// Whether all its code can be read in files later.
fn is_in_files(unit: &Unit, maps: &Maps) -> bool {
    unit.pieces.iter().all(|piece| maps.find(piece.start).is_none_or(Mapping::is_file))
}

/// Stands for everything that the log says of a unit, but for its counters.
pub fn shape(unit: &Unit, maps: &Maps) -> u64 {
    let mut shape = Shape(0);
    for piece in &unit.pieces {
        shape.add(maps.find(piece.start).map_or(0, Mapping::identity));
        shape.add(piece.start);
        shape.add(piece.end);
        let (words, rest) = code(piece).as_chunks();
        words.iter().for_each(|&word| shape.add(u64::from_le_bytes(word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        shape.add(u64::from_le_bytes(last));
    }
    for exit in &unit.exits {
        shape.add(exit.to);
        shape.add(u64::from(exit.kind) << 32 | u64::from(exit.piece));
    }
    shape.0
}

/// A hash, word by word: all code goes through it.
struct Shape(u64);

impl Shape {
    fn add(&mut self, word: u64) {
        // The product of two numbers, of which the upper half depends on all bits.
        let product =
            u128::from(self.0.rotate_left(29) ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}
