//! New units: translated, written down and put in their places.

use crate::cache::{Cache, Landing, put};
use crate::log::Log;
use crate::maps::{Mapping, Maps};
use crate::translate::{self, Entrance, LONGEST, Leg, Piece, Request, Unit};
use crate::written::most_counters;
use crate::{verify, written};
use alloc::boxed::Box;
use alloc::vec::Vec;
use relive_code::isa::RegSet;

/// A unit that is wanted.
pub(crate) struct Wanted {
    /// Where it begins.
    pub pc: u64,
    /// How it is entered besides by jumps.
    pub entrance: Entrance,
    /// The way to go; none for straight on.
    pub legs: Vec<Leg>,
    /// Where calls on it are made up for, by where they come back to.
    pub made_up: Vec<(u64, u64)>,
    /// What is known of registers: see [`crate::versions`].
    pub known: RegSet,
    /// The unit whose place it takes.
    pub instead_of: Option<u32>,
}

impl Wanted {
    /// A usual one.
    pub(crate) fn new(pc: u64, entrance: Entrance) -> Self {
        Self { pc, entrance, legs: Vec::new(), made_up: Vec::new(), known: RegSet::EMPTY, instead_of: None }
    }
}

/// A unit in its place, what it was translated with, and its number in the log.
pub(crate) struct Made {
    pub wanted: Wanted,
    pub first_exit: u32,
    pub counter: Option<u32>,
    pub record: u32,
    pub unit: Box<Unit>,
}

/// Units one behind the other at most.
const MOST: usize = 8;

/// How often a unit is entered before it is looked at more closely; 0 for never. To find out costs more than to count, so
/// that only those do in which a usual way may begin.
///
/// What was written down last says at once which way is usual, and each record that there need not be makes a trace smaller: so
/// in programs that are traced it is looked at every unit, and sooner.
pub(crate) fn threshold(entrance: Entrance, legs: &[Leg], is_traced: bool) -> u32 {
    const OFTEN: u32 = 5000;
    const OFTEN_TRACED: u32 = 2000;
    match entrance {
        _ if !legs.is_empty() => 0,
        _ if is_traced => OFTEN_TRACED,
        Entrance::Head => OFTEN,
        _ => 0,
    }
}

/// Whether there is code at an address that stays what it is.
fn lasts(pc: u64, maps: &Maps) -> bool {
    maps.find(pc).is_some_and(|m| !m.can_change() && m.end >= pc + LONGEST as u64)
}

impl Cache {
    /// Translates the code at a place, and right behind it what follows the call it ends with, and so on: most calls
    /// come back.
    pub(crate) fn translate(&mut self, wanted: Wanted, maps: &mut Maps, log: &mut Log) -> Option<u32> {
        let number = self.units.len() as u32;
        let mut all = Vec::with_capacity(MOST);
        all.push(self.make(wanted, &[], maps, log)?);
        while let Some((_, back)) = all[all.len() - 1].unit.next() {
            let next = self.make(Wanted::new(back, Entrance::Jump), &all, maps, log);
            all.push(next.expect("it was looked whether there is code"));
        }
        // Others may come to each of them as soon as it is known: all are in their places by now.
        let mut landing = None;
        for made in all {
            let next = made.unit.call.filter(|_| made.unit.next().is_some());
            self.add(made, landing, maps, log);
            landing = next.map(|call| Landing { at: call.landing, body: call.body });
        }
        Some(number)
    }

    /// Puts a unit in its place: behind others, if the last is open.
    fn make(&mut self, mut wanted: Wanted, before: &[Made], maps: &mut Maps, log: &mut Log) -> Option<Made> {
        let calls = wanted.legs.iter().filter(|leg| leg.then.is_call());
        let made_up = calls.filter_map(|leg| Some((leg.end, self.make_up(leg.end, maps)?))).collect();
        wanted.made_up = made_up;
        let Wanted { pc, entrance, ref legs, ref made_up, known, .. } = wanted;
        let mapping = maps.find_now(pc, log, &self.guard)?;
        let open = before.last().and_then(|made| made.unit.next());
        let (region, is_new) = match open {
            Some((at, _)) => (self.regions.at(at)?, false),
            None => self.regions.near(pc),
        };
        if is_new {
            maps.hide(region.start(), region.end());
        }
        let first_exit =
            before.last().map_or(self.exits.len() as u32, |made| made.first_exit + made.unit.numbers());
        let calls = &self.calls;
        let threshold = threshold(entrance, legs, self.tags.is_some());
        let watch =
            (threshold != 0 && self.tags.is_some() && self.watched < most_counters()).then_some(self.watched);
        let mut request = Request {
            source: maps,
            pc,
            legs,
            threshold,
            hot: region.hot,
            cold: region.cold,
            first_exit,
            counter: self.written.as_ref().map_or(watch, |written| written.guess(pc, maps)),
            entrance,
            tells_targets: self.written.is_some(),
            calls: &|back, pc| calls.get(&back).filter(|call| call.pc == pc).map(|call| call.at),
            made_up,
            marks: mapping.can_change(),
            tags: self.tags.map(|tags| tags.from(first_exit).with(known)),
        };
        let can_change = |p: &Piece| maps.find(p.start).is_some_and(Mapping::can_change);
        let (mut unit, record) = loop {
            let mut unit = translate::translate(&request, &mut self.effects);
            if unit.pieces.iter().any(can_change)
                && (self.guard.watch(&unit.pieces, maps) || !core::mem::replace(&mut request.marks, true))
            {
                // It may have changed just before.
                continue;
            }
            if let Some(tags) = request.tags {
                written::write_down_traced(tags, &unit, log);
            }
            let Some(written) = &mut self.written else {
                self.watched += unit.counters;
                break (unit, 0);
            };
            let shape = written::shape(&unit, maps);
            let counter = written.counter(pc, shape, &unit, maps);
            if counter == request.counter {
                let record = written.unit(pc, shape, counter, &mut unit, maps, log);
                break (unit, record);
            }
            request.counter = counter;
        };
        let counter = request.counter;
        let may_open = before.len() + 1 < MOST;
        let is_new = |pc: u64| {
            self.places.unit(pc).is_none()
                && before.iter().all(|made| made.wanted.pc != pc)
                // Whether one that has been there before can be come to without counting that is not sure.
                && self.written.as_ref().is_none_or(|written| !written.has(pc))
        };
        if may_open && unit.call.is_some_and(|call| lasts(call.back, maps) && is_new(call.back)) {
            unit.open_end();
        }
        region.hot = put(&unit.hot);
        if unit.next().is_none() {
            region.hot = region.hot.next_multiple_of(16);
        }
        region.cold = put(&unit.cold).next_multiple_of(8);
        let statistics = log.statistics();
        statistics.units += 1;
        statistics.code += u64::from(unit.hot.size() + unit.cold.size());
        verify::check(&request, &unit, &mut self.effects, statistics);
        Some(Made { wanted, first_exit, counter, record, unit })
    }
}
