//! Translated code and the ways through it.
//!
//! An exit leads to the engine until its target is translated, then straight there. What a unit is made from can
//! change or go away; then every way to it leads to the engine again. The code itself stays, as a thread may be in
//! it.

use crate::asked::Asked;
use crate::flow::{Source, is_call};
use crate::guard::Guard;
use crate::log::Log;
use crate::made_up::MadeUp;
use crate::making::{Made, Wanted, threshold};
use crate::maps::Maps;
use crate::places::{NONE, Places};
use crate::region::{Region, Regions};
use crate::returns::Returns;
use crate::sites::{Lesson, Sites};
use crate::translate::emit::{Buffer, near, reaches};
use crate::translate::free::Free;
use crate::translate::{self, CALL_LEN, DROP, Entrance, Exit, Leg, Mark, Piece, Request, Tags, landing};
use crate::versions::Versions;
use crate::whereabouts::Whereabouts;
use crate::written::{WayOut, Written};
use alloc::vec::Vec;
use hashbrown::HashMap;
use relive_abi::PAGE;
use relive_abi::engine as abi;
use relive_abi::trace::Tag;
use relive_code::isa::{EffectsReader, Gpr, RegSet};

/// What is known of a translated unit.
pub struct Entry {
    /// Where its code begins in the program.
    pub pc: u64,
    /// Where it is entered.
    pub body: u64,
    /// Where it is entered with the pointer in this register: see [`translate::Unit::inner`].
    inner: (u64, Gpr),
    /// Where calls enter it; 0 if nowhere yet.
    call_entrance: u64,
    /// Where returns arrive on the way to it.
    landing: Option<Landing>,
    /// Whether another lies right behind it: see [`translate::Unit::open_end`].
    is_open: bool,
    /// The program's code in it: the first of [`Cache::pieces`], and how many.
    pub(crate) pieces: (u32, u32),
    /// Its parts in the cache, each with its length.
    pub(crate) hot: (u64, u32),
    pub(crate) cold: (u64, u32),
    /// What it was translated with, so that it can be done again.
    first_exit: u32,
    counter: u32,
    entrance: Entrance,
    shared_call: Option<u64>,
    /// For one that is often entered: the way it goes.
    pub(crate) legs: Vec<Leg>,
    /// Where calls on it are made up for, by where they come back to.
    made_up: Vec<(u64, u64)>,
    /// Whether it leads to itself.
    pub(crate) is_loop: bool,
    /// The unit it replaces.
    pub(crate) older: Option<u32>,
    /// Of a unit of a program that is traced: the jump that everybody comes through, and where it leads if nobody wants to know how often
    /// that is; 0 if there is none.
    pub(crate) door: [u64; 2],
    /// Whether somebody wants to know.
    pub(crate) is_watched: bool,
    pub(crate) is_valid: bool,
    /// Its number in the log.
    record: u32,
    /// What it takes for known, and what of it it needs: see [`crate::versions`].
    pub(crate) known: RegSet,
    pub(crate) useful: RegSet,
}

/// A unit: its number here, and in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct UnitId {
    /// Of which cache: see [`Cache::generation`].
    pub generation: u32,
    /// Here.
    pub unit: u32,
    /// In the log.
    pub record: u32,
}

impl Entry {
    /// Whether it follows a way that was chosen.
    pub fn is_trace(&self) -> bool {
        !self.legs.is_empty()
    }

    /// Its counter, and the first exit behind that which says when it is often entered.
    pub(crate) fn counts(&self) -> Option<(u32, usize)> {
        let trigger = usize::from(threshold(self.entrance, &self.legs, false) != 0);
        (self.counter != abi::NO_COUNTER).then_some((self.counter, self.first_exit as usize + trigger))
    }

    pub(crate) fn holds(&self, at: u64) -> bool {
        at.wrapping_sub(self.hot.0) < u64::from(self.hot.1)
            || at.wrapping_sub(self.cold.0) < u64::from(self.cold.1)
    }
}

/// Everything that is translated.
pub struct Cache {
    pub(crate) units: Vec<Entry>,
    pub(crate) places: Places,
    pub(crate) versions: Versions,
    pub(crate) exits: Vec<Exit>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) whereabouts: Whereabouts,
    /// By the address they come back to.
    pub(crate) calls: HashMap<u64, KnownCall>,
    /// Where calls are made up for that were followed, by the address they come back to: see [`translate::make_up`].
    pub(crate) made_up: HashMap<u64, MadeUp>,
    /// What place is what place in the program, for units whose code can change.
    pub(crate) marks: HashMap<u32, Vec<Mark>>,
    /// The same for units that were asked for last.
    asked: Asked,
    pub(crate) sites: Sites,
    /// Where returns go.
    pub returns: Returns,
    pub(crate) regions: Regions,
    pub(crate) effects: EffectsReader,
    /// What has been written down, if anything is to be.
    pub(crate) written: Option<Written>,
    /// If it is to be written down which way control goes: how.
    pub(crate) tags: Option<Tags>,
    /// How many counters of units that are traced have been given out.
    pub(crate) watched: u32,
    /// How many caches there have been before.
    pub generation: u32,
    /// Those that a thread may still be in: see [`crate::renewal`].
    pub(crate) old: Vec<Cache>,
    /// Whether only what threads come back to is left.
    pub(crate) is_trimmed: bool,
    /// How many exits were given a way.
    pub links: u64,
    /// How many units were given up.
    pub invalid: u64,
    /// Code that can change.
    pub guard: Guard,
    /// See [`Self::wait_at`].
    waiting: u64,
}

impl Cache {
    /// Nothing yet.
    pub fn new(count: bool, most: u64) -> Self {
        Self {
            units: Vec::new(),
            places: Places::default(),
            versions: Versions::default(),
            exits: Vec::new(),
            pieces: Vec::new(),
            whereabouts: Whereabouts::default(),
            calls: HashMap::new(),
            made_up: HashMap::new(),
            marks: HashMap::new(),
            asked: Asked::default(),
            sites: Sites::reserve(),
            returns: Returns::reserve(),
            regions: Regions::new(most),
            effects: EffectsReader::new(),
            written: count.then(Written::default),
            tags: None,
            watched: 0,
            generation: 0,
            old: Vec::new(),
            is_trimmed: false,
            links: 0,
            invalid: 0,
            guard: Guard::default(),
            waiting: 0,
        }
    }

    /// The tag of a unit's first exit, if it has one.
    pub fn tag_of(&self, id: UnitId) -> Option<Tag> {
        let cache = self.of(id.generation);
        let unit = &cache.units[id.unit as usize];
        Some(cache.tags?.first + unit.first_exit + u32::from(unit.door != [0; 2]))
    }

    /// Whether exits are linked when they are first taken: many never are, and what each leads to depends on it.
    fn links_late(&self) -> bool {
        self.written.is_some() || self.tags.is_some()
    }

    /// The exit of a number.
    pub fn exit(&self, number: u32) -> Exit {
        self.exits[number as usize]
    }

    /// Where to go on for a place of the program: in the cache, or just there if it is no code, so that the processor
    /// finds out.
    pub fn enter(&mut self, pc: u64, by: By, maps: &mut Maps, log: &mut Log) -> Entered {
        let (entrance, from) = match by {
            By::Exit(exit) => {
                let Exit { kind, from, to, source, .. } = self.exits[exit as usize];
                let entrance = match kind {
                    abi::CALL => Entrance::Call,
                    _ if to <= from => Entrance::Head,
                    _ => Entrance::Jump,
                };
                (entrance, source)
            }
            By::Source(from) => (Entrance::Jump, from),
            By::State => (Entrance::Jump, Source::Outside),
        };
        let known = match by {
            By::Exit(exit) if entrance != Entrance::Call => self.exits[exit as usize].known,
            By::State if self.tags.is_some() => RegSet::GPRS,
            _ => RegSet::EMPTY,
        };
        let unit = self.find_version(pc, known, entrance, maps, log);
        if let (Some(unit), By::Exit(exit)) = (unit, by) {
            return Entered { at: self.link(exit, unit, maps, log), counter: None };
        }
        let (at, record) = match unit {
            Some(unit) => (self.units[unit as usize].body, Some(self.units[unit as usize].record)),
            None => (pc, None),
        };
        Entered { at, counter: self.written.as_mut().and_then(|written| written.way(from, record, log)) }
    }

    /// Where a return to `pc` lands.
    pub fn enter_by_return(&mut self, pc: u64, maps: &mut Maps, log: &mut Log) -> Option<Landing> {
        log.statistics().returns += 1;
        if let Some(&MadeUp { landing, body, .. }) = self.made_up.get(&pc) {
            self.returns.put(pc, landing);
            return Some(Landing { at: landing, body });
        }
        if let Some(call) = self.calls.get(&pc) {
            let landing = Landing { at: call.at + CALL_LEN, body: call.body };
            self.returns.put(pc, landing.at);
            return Some(landing);
        }
        // Whether returns can come there without being counted is not known in advance.
        let entrance = if self.written.is_some() { Entrance::Jump } else { Entrance::Return };
        let unit = self.find_or_translate(pc, entrance, maps, log)? as usize;
        let landing = self.units[unit].landing;
        let landing = landing.unwrap_or_else(|| self.add_landing(pc, maps, log));
        self.units[unit].landing = Some(landing);
        self.returns.put(pc, landing.at);
        Some(landing)
    }

    /// Where a computed jump or call goes on.
    pub fn enter_by_site(&mut self, exit: u32, to: u64, maps: &mut Maps, log: &mut Log) -> Entered {
        log.statistics().targets += 1;
        let site = self.exits[exit as usize];
        let entrance = if is_call(&site) { Entrance::Jump } else { Entrance::Head };
        if self.find_or_translate(to, entrance, maps, log).is_none() {
            return self.enter(to, By::Source(site.source), maps, log);
        }
        if let Some(way) = self.sites.way(exit, to) {
            return Entered { at: way, counter: None };
        }
        let way = self.way_out(exit, to);
        let counter = self.written.as_mut().and_then(|written| written.target(&way, maps, log));
        let first = self.exits.len() as u32;
        let mut code = Buffer::new(self.region(site.from, maps).hot);
        let lesson = Lesson { exit, site: &site, to, counter, first };
        let new = self.sites.add(&lesson, &mut code, maps, &mut self.effects);
        self.region(site.from, maps).hot = put(&code).next_multiple_of(16);
        for exit in new.exits {
            let number = self.exits.len() as u32;
            self.add_exit(exit, maps, log);
            // It is about to be taken, or has been before.
            if let Some(unit) = self.places.unit(exit.to) {
                self.link(number, unit, maps, log);
            }
        }
        self.sites.publish(exit);
        patch(site.field, new.tail);
        if self.tags.is_none()
            && let Some((unit, legs)) = self.settled_way(exit, to, maps)
        {
            self.replace(unit, legs, maps, log);
        }
        match self.sites.way(exit, to) {
            Some(way) => Entered { at: way, counter: None },
            None => self.enter(to, By::Source(counter.map_or(Source::Outside, Source::Target)), maps, log),
        }
    }

    /// A computed jump or call, which leads to some place.
    pub(crate) fn way_out(&self, exit: u32, to: u64) -> WayOut {
        let site = &self.exits[exit as usize];
        WayOut {
            unit: self.record_of(exit),
            site: site.from,
            is_call: is_call(site),
            to,
            to_unit: self.record_at(to),
        }
    }

    /// Memory for code near a place.
    pub(crate) fn region(&mut self, near: u64, maps: &mut Maps) -> &mut Region {
        let (region, is_new) = self.regions.near(near);
        if is_new {
            maps.hide(region.start(), region.end());
        }
        region
    }

    /// The number in the log of the unit with an exit.
    pub(crate) fn record_of(&self, exit: u32) -> u32 {
        self.unit_of(exit).map_or(0, |unit| self.units[unit as usize].record)
    }

    /// The number in the log of the unit at an address.
    pub(crate) fn record_at(&self, pc: u64) -> u32 {
        self.places.unit(pc).map_or(0, |unit| self.units[unit as usize].record)
    }

    pub(crate) fn find_or_translate(
        &mut self,
        pc: u64,
        entrance: Entrance,
        maps: &mut Maps,
        log: &mut Log,
    ) -> Option<u32> {
        match self.places.unit(pc) {
            Some(unit) => Some(unit),
            None => self.translate(Wanted::new(pc, entrance), maps, log),
        }
    }

    /// A place that is often entered: replaces its unit by one that follows the usual way.
    pub fn heat(&mut self, pc: u64, counts: &dyn Fn(u32) -> u64, maps: &mut Maps, log: &mut Log) {
        let Some(old) = self.places.unit(pc).filter(|&unit| !self.units[unit as usize].is_trace()) else {
            return;
        };
        let legs = self.usual_way(pc, counts, maps);
        if !legs.is_empty() {
            self.replace(old, legs, maps, log);
        }
    }

    /// Replaces a unit by one that follows a way that was chosen.
    pub(crate) fn replace(
        &mut self,
        old: u32,
        legs: Vec<Leg>,
        maps: &mut Maps,
        log: &mut Log,
    ) -> Option<u32> {
        let Entry { pc, call_entrance, known, .. } = self.units[old as usize];
        let entrance = if call_entrance == 0 { Entrance::Jump } else { Entrance::Call };
        let wanted = Wanted { legs, known, instead_of: Some(old), ..Wanted::new(pc, entrance) };
        let new = self.translate(wanted, maps, log)?;
        log.statistics().traces += 1;
        Some(new)
    }

    /// The unit that an exit belongs to.
    pub(crate) fn unit_of(&self, exit: u32) -> Option<u32> {
        let unit = self.exits[exit as usize].unit;
        ((unit as usize) < self.units.len()).then_some(unit)
    }

    /// Takes in a unit that is in its place; returns may arrive right before it.
    pub(crate) fn add(&mut self, made: Made, landing: Option<Landing>, maps: &mut Maps, log: &mut Log) {
        let Made {
            wanted: Wanted { pc, entrance, legs, made_up, known, instead_of },
            first_exit,
            counter,
            record,
            mut unit,
        } = made;
        let own = Landing { at: unit.entrance, body: unit.body };
        let landing = landing.or((entrance == Entrance::Return).then_some(own));
        let number = self.units.len() as u32;
        self.units.push(Entry {
            pc,
            body: unit.body,
            inner: (unit.inner, unit.pen),
            call_entrance: if entrance == Entrance::Call { unit.entrance } else { 0 },
            landing,
            is_open: unit.next().is_some(),
            pieces: (self.pieces.len() as u32, unit.pieces.len() as u32),
            hot: (unit.hot.at, unit.hot.size()),
            cold: (unit.cold.at, unit.cold.size()),
            first_exit,
            counter: counter.unwrap_or(abi::NO_COUNTER),
            entrance,
            shared_call: unit.shared_call,
            legs,
            made_up,
            is_loop: unit.exits.iter().any(|exit| exit.to == pc),
            older: instead_of,
            door: unit.trigger.filter(|_| unit.door != 0).map_or([0; 2], |trigger| [unit.door, trigger.stub]),
            is_watched: unit.door != 0,
            is_valid: true,
            record,
            known,
            useful: unit.useful,
        });
        let marks = core::mem::take(&mut unit.marks);
        if !marks.is_empty() {
            self.marks.insert(number, marks);
        }
        if let (Some(written), Some(_)) = (&mut self.written, landing) {
            written.way(Source::Outside, Some(record), log);
        }
        self.whereabouts.insert(number, [unit.hot.at, unit.cold.at], &unit.pieces);
        self.pieces.extend(unit.pieces);
        let mut waiting = if known.is_empty() {
            self.places.set_unit(pc, number)
        } else if let Some(old) = instead_of {
            self.versions.replace(pc, old, number);
            self.places.way(pc)
        } else {
            self.versions.add(pc, number);
            None
        };
        if let Some(trigger) = unit.trigger {
            self.add_exit(trigger, maps, log);
        }
        for exit in unit.exits {
            self.add_exit(exit, maps, log);
        }
        if let Some(call) = unit.call {
            self.add_exit(call.way, maps, log);
            self.returns.put(call.back, call.landing);
            self.calls.insert(call.back, KnownCall { pc: call.pc, at: call.at, body: call.body });
        }
        // Those that have been waiting for it, or led to what was there before. Of several versions, each leads to one.
        while let Some(exit) = waiting {
            if self.tags.is_none() || instead_of == Some(self.exits[exit as usize].leads) {
                self.link(exit, number, maps, log);
            }
            waiting = self.exits[exit as usize].next();
        }
    }

    /// An exit that counts is linked when it is first taken, as many never are; others as soon as that can be done.
    fn add_exit(&mut self, exit: Exit, maps: &mut Maps, log: &mut Log) {
        let number = self.exits.len() as u32;
        let mut exit = Exit { unit: (self.units.len() as u32).wrapping_sub(1), ..exit };
        let can_link = exit.field != 0 && exit.to != 0 && !self.links_late();
        let unit = if can_link { self.places.add_way(number, &mut exit) } else { None };
        self.exits.push(exit);
        if let Some(unit) = unit {
            self.link(number, unit, maps, log);
        }
    }

    /// Lets an exit lead to a unit, and says where whoever has just left by it goes on.
    pub(crate) fn link(&mut self, number: u32, unit: u32, maps: &mut Maps, log: &mut Log) -> u64 {
        let exit = self.exits[number as usize];
        let Entry { body, record, call_entrance, .. } = self.units[unit as usize];
        let counter = self.written.as_mut().and_then(|w| w.way(exit.source, Some(record), log));
        let is_call = exit.kind == abi::CALL;
        let door = if is_call { call_entrance } else { body };
        let (to, on) = if counter.is_none() && door != 0 && reaches(exit.field, door) {
            (door, body)
        } else {
            let bridge = self.bridge(&exit, unit, counter, maps);
            if is_call && door == 0 && counter.is_none() {
                self.units[unit as usize].call_entrance = bridge;
            }
            (bridge, if is_call { bridge + DROP.len() as u64 } else { bridge })
        };
        patch(exit.field, to);
        if let Some([field, otherwise]) = exit.aside {
            let [(_, from), (inner, pen)] = [exit.unit, unit].map(|unit| self.units[unit as usize].inner);
            let is_watched = self.units[unit as usize].is_watched;
            patch(field, if from == pen && !is_watched && reaches(field, inner) { inner } else { otherwise });
        }
        self.links += 1;
        let links_late = self.links_late();
        let exit = &mut self.exits[number as usize];
        let before = core::mem::replace(&mut exit.leads, unit);
        if links_late && before == NONE {
            self.places.add_way(number, exit);
        }
        on
    }

    /// A way to a unit that may be far away, and is counted if it has to be.
    fn bridge(&mut self, exit: &Exit, unit: u32, counter: Option<u32>, maps: &mut Maps) -> u64 {
        let Entry { pc, body, .. } = self.units[unit as usize];
        let free = counter.map(|counter| (counter, Free::at(maps, &mut self.effects, pc)));
        let region = self.region(exit.field, maps);
        // What is counted is taken more than once.
        let place = if counter.is_some() { &mut region.hot } else { &mut region.cold };
        let mut code = Buffer::new(*place);
        if exit.kind == abi::CALL {
            code.raw(&DROP);
        }
        if let Some((counter, free)) = free {
            translate::count(&mut code, counter, free);
        }
        if reaches(code.here(), body) {
            code.jump(body);
        } else {
            code.raw(&[0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
            code.raw(&body.to_le_bytes());
        }
        *place = put(&code).next_multiple_of(8);
        code.at
    }

    /// Somewhere for returns to arrive that no call has made.
    fn add_landing(&mut self, pc: u64, maps: &mut Maps, log: &mut Log) -> Landing {
        let number = self.exits.len() as u32;
        let region = self.region(pc, maps);
        let mut code = Buffer::new(region.hot);
        let at = code.here();
        landing(&mut code, pc, true);
        let body = code.here();
        let exit = translate::way(&mut code, number, pc, pc);
        region.hot = put(&code).next_multiple_of(16);
        self.add_exit(exit, maps, log);
        Landing { at, body }
    }

    /// Gives up what was made from a range of the program's memory. Whether there was any.
    pub fn invalidate(&mut self, start: u64, end: u64) -> bool {
        let mut any = false;
        for number in self.whereabouts.take(start, end) {
            let unit = &mut self.units[number as usize];
            // Others may end with its call, even if it is not valid itself any more.
            let back =
                (unit.pieces.0 + unit.pieces.1).checked_sub(1).map(|last| self.pieces[last as usize].end);
            if let Some(back) = back.filter(|&back| start < back)
                && let Some(call) = self.calls.get(&back).copied().filter(|call| call.pc < end)
            {
                self.calls.remove(&back);
                self.returns.remove(back);
                translate::close_landing(call.at + CALL_LEN);
                self.forget_made_up(back);
            }
            let unit = &mut self.units[number as usize];
            if !unit.is_valid {
                continue;
            }
            any = true;
            unit.is_valid = false;
            self.invalid += 1;
            let older = unit.older.map(|older| self.units[older as usize].door);
            if let Some([door, on]) = older.filter(|&[door, _]| door != 0) {
                patch(door, on);
            }
            let Entry { pc, landing, .. } = self.units[number as usize];
            self.versions.remove(pc);
            let mut way = self.places.remove_unit(pc, !self.links_late());
            self.returns.remove(pc);
            if let Some(landing) = landing {
                translate::close_landing(landing.at);
                self.calls.remove(&pc);
                self.forget_made_up(pc);
            }
            while let Some(exit) = way {
                let exit = &mut self.exits[exit as usize];
                exit.leads = NONE;
                patch(exit.field, exit.stub);
                if let Some([field, otherwise]) = exit.aside {
                    patch(field, otherwise);
                }
                way = exit.next();
            }
            // What comes there may be other code, which is counted apart.
            for exit in self.sites.forget(pc) {
                let exit = self.exits[exit as usize];
                patch(exit.field, exit.unknown());
            }
        }
        any
    }

    /// Lets the program write to a range of its memory again. Whether it could not, because of code there.
    pub fn open(&mut self, start: u64, len: u64) -> bool {
        let pages = self.guard.within(start, len);
        for &page in &pages {
            self.open_page(page);
        }
        !pages.is_empty()
    }

    /// The same for one page that is protected. Says where the code is that was made from it.
    pub fn open_page(&mut self, at: u64) -> u64 {
        let code = self.guard.open(at);
        self.invalidate(code, code + PAGE);
        code
    }

    /// The program has said itself what can be done with a range, or what is there.
    pub fn forget(&mut self, start: u64, end: u64) {
        for code in self.guard.forget(start, end) {
            self.invalidate(code, code + PAGE);
        }
        self.invalidate(start, end);
    }

    /// There may be a new way to write to memory that several mappings share.
    pub fn give_up_shared(&mut self) {
        for code in self.guard.take_shared() {
            self.invalidate(code, code + PAGE);
        }
    }

    /// What place of the program a place in the cache is. Seldom asked, so that it is found out by translating once
    /// more; `None` if the code is not the same any more, or the place is not in a unit.
    pub fn place(&mut self, at: u64, maps: &Maps) -> Option<(UnitId, Mark)> {
        if let Some(old) = self.old.iter_mut().find(|old| old.contains(at)) {
            return old.place(at, maps);
        }
        let number = self.whereabouts.at(at).filter(|&number| self.units[number as usize].holds(at))?;
        let Entry { hot, record, .. } = self.units[number as usize];
        let id = UnitId { generation: self.generation, unit: number, record };
        let is_hot = |at: u64| at.wrapping_sub(hot.0) < u64::from(hot.1);
        let same_part = |m: &&Mark| is_hot(m.at) == is_hot(at);
        let marks = self.marks(number, maps)?;
        let mark = marks.iter().filter(same_part).filter(|m| m.at <= at).max_by_key(|m| m.at)?;
        Some((id, *mark))
    }

    /// What places of the program there are in a unit; `None` if its code is not the same any more.
    fn marks(&mut self, number: u32, maps: &Maps) -> Option<&[Mark]> {
        if let Some(marks) = self.marks.get(&number) {
            return Some(marks);
        }
        if let Some(known) = self.asked.of(number) {
            return Some(&self.asked.all[known].1);
        }
        let unit = &self.units[number as usize];
        let request = Request {
            source: maps,
            pc: unit.pc,
            legs: &unit.legs,
            threshold: threshold(unit.entrance, &unit.legs, self.tags.is_some()),
            hot: unit.hot.0,
            cold: unit.cold.0,
            first_exit: unit.first_exit,
            counter: (unit.counter != abi::NO_COUNTER).then_some(unit.counter),
            entrance: unit.entrance,
            tells_targets: self.written.is_some(),
            calls: &|_, _| unit.shared_call,
            made_up: &unit.made_up,
            marks: true,
            tags: self.tags.map(|tags| tags.from(unit.first_exit).with(unit.known)),
        };
        let mut again = translate::translate(&request, &mut self.effects);
        if unit.is_open {
            again.open_end();
        }
        let is_same = (again.hot.size(), again.cold.size()) == (unit.hot.1, unit.cold.1);
        is_same.then(|| self.asked.keep(number, again.marks))
    }

    /// Where in the cache a call of the kernel comes back to that the program makes at `pc`.
    pub fn behind_call(&mut self, pc: u64, maps: &mut Maps, log: &mut Log) -> Option<u64> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let next = pc + SYSCALL.len() as u64;
        let unit = self.find_or_translate(pc, Entrance::Jump, maps, log)?;
        let marks = self.marks(unit, maps)?;
        // SAFETY: a mark behind the first instruction of a unit lies in the cache, and so do the bytes before it.
        let is_behind = |m: &&Mark| m.pc == next && unsafe { *((m.at - 2) as *const [u8; 2]) } == SYSCALL;
        marks.iter().find(is_behind).map(|m| m.at)
    }

    /// A place in the cache where a thread that is to be let go waits for that, with all of its state the program's but
    /// for the place, which its context has.
    pub fn wait_at(&mut self, pc: u64) -> u64 {
        if self.waiting == 0 {
            let (region, _) = self.regions.near(pc);
            let mut code = Buffer::new(region.cold);
            code.raw(&[0xeb, 0xfe]); // a jump to itself
            region.cold = put(&code).next_multiple_of(8);
            self.waiting = code.at;
        }
        self.waiting
    }

    /// Whether a place in the cache is that.
    pub fn is_waiting(&self, at: u64) -> bool {
        at != 0 && (at == self.waiting || self.old.iter().any(|old| at == old.waiting))
    }

    /// The unit that an address in the cache belongs to.
    pub fn unit_at(&self, at: u64) -> Option<UnitId> {
        if let Some(old) = self.old.iter().find(|old| old.contains(at)) {
            return old.unit_at(at);
        }
        let number = self.whereabouts.at(at).filter(|&number| self.units[number as usize].holds(at))?;
        let record = self.units[number as usize].record;
        Some(UnitId { generation: self.generation, unit: number, record })
    }

    /// Whether a unit was made from a range of the program's memory.
    pub fn is_from(&self, unit: UnitId, start: u64, end: u64) -> bool {
        let cache = self.old.iter().find(|old| old.generation == unit.generation).unwrap_or(self);
        let unit = &cache.units[unit.unit as usize];
        let pieces = &cache.pieces[unit.pieces.0 as usize..][..unit.pieces.1 as usize];
        pieces.iter().any(|p| p.start < end && start < p.end)
    }

    /// Whether a unit is what it was translated from.
    pub fn is_valid(&self, unit: UnitId) -> bool {
        unit.generation == self.generation
            && self.units.get(unit.unit as usize).is_some_and(|unit| unit.is_valid)
    }

    /// Whether an address is in translated code.
    pub fn contains(&self, at: u64) -> bool {
        self.regions.contains(at) || self.old.iter().any(|old| old.regions.contains(at))
    }
}

/// How a place of the program is entered.
#[derive(Clone, Copy)]
pub enum By {
    /// By an exit, which leads there from now on.
    Exit(u32),
    /// By the engine, on behalf of something else.
    Source(Source),
    /// By the engine, for reasons of its own, and all registers are written down.
    State,
}

impl By {
    /// By the engine, for reasons of its own.
    pub const OUTSIDE: Self = Self::Source(Source::Outside);
}

/// Where to go on.
pub struct Entered {
    /// In the cache, or in the program.
    pub at: u64,
    /// What the thread has to count that goes there.
    pub counter: Option<u32>,
}

/// A call in the cache that others may end with as well.
#[derive(Clone, Copy)]
pub(crate) struct KnownCall {
    /// The program's call.
    pub pc: u64,
    /// The `call`; its landing is right behind.
    pub at: u64,
    /// Behind the landing.
    pub body: u64,
}

/// Where a return arrives.
#[derive(Clone, Copy)]
pub struct Landing {
    /// For the table.
    pub at: u64,
    /// For this time.
    pub body: u64,
}

/// Copies code to its place and says where it ends.
pub(crate) fn put(code: &Buffer) -> u64 {
    // SAFETY: the place was reserved by a region and is not used yet.
    unsafe { core::ptr::copy_nonoverlapping(code.bytes.as_ptr(), code.at as *mut u8, code.bytes.len()) };
    code.here()
}

/// Changes where a jump leads, while others may execute it.
pub fn patch(field: u64, to: u64) {
    overwrite(field, near(field + 4, to));
}

/// Changes four bytes of an instruction, while others may execute it.
pub fn overwrite(field: u64, value: u32) {
    // SAFETY: the field belongs to a jump in the cache and lies within one block of memory, so that whoever
    // executes it sees the old distance or the new one.
    unsafe {
        core::arch::asm!("mov dword ptr [{field}], {value:e}", field = in(reg) field, value = in(reg) value,
            options(nostack, preserves_flags));
    }
}
