//! Translated code and the ways through it.
//!
//! An exit leads to the engine until its target is translated, then straight there. What a unit is made from can
//! change or go away; then every way to it leads to the engine again. The code itself stays, as a thread may be in
//! it.

use crate::guard::Guard;
use crate::log::{self, Log};
use crate::maps::Maps;
use crate::region::Regions;
use crate::returns::Returns;
use crate::room;
use crate::signals;
use crate::sites::{Lesson, Sites};
use crate::translate::emit::{Buffer, near, reaches};
use crate::translate::{self, Call, DROP, Entrance, Exit, Leg, Mark, Piece, Request, Unit, landing};
use alloc::vec::Vec;
use hashbrown::HashMap;
use relive_abi::engine as abi;
use relive_code::isa::EffectsReader;

/// What is known of a translated unit.
pub struct Entry {
    /// Where its code begins in the program.
    pub pc: u64,
    /// Where it is entered.
    pub body: u64,
    /// Where calls enter it; 0 if nowhere yet.
    call_entrance: u64,
    /// The same for returns.
    landing: u64,
    /// The program's code in it: the first of [`Cache::pieces`], and how many.
    pub(crate) pieces: (u32, u32),
    /// Its parts in the cache, each with its length.
    hot: (u64, u32),
    cold: (u64, u32),
    /// What it was translated with, so that it can be done again.
    first_exit: u32,
    counter: u32,
    entrance: Entrance,
    shared_call: Option<u64>,
    /// For one that is often entered: the way it goes.
    legs: Vec<Leg>,
    /// Whether it leads to itself.
    pub(crate) is_loop: bool,
    /// The unit it replaces.
    pub(crate) older: Option<u32>,
    is_valid: bool,
}

impl Entry {
    /// Whether it follows a way that was chosen.
    pub fn is_trace(&self) -> bool {
        !self.legs.is_empty()
    }

    /// Its counter, and the first exit behind that which says when it is often entered.
    pub(crate) fn counts(&self) -> Option<(u32, usize)> {
        (self.counter != abi::NO_COUNTER).then_some((self.counter, self.first_exit as usize + 1))
    }

    fn holds(&self, at: u64) -> bool {
        at.wrapping_sub(self.hot.0) < u64::from(self.hot.1)
            || at.wrapping_sub(self.cold.0) < u64::from(self.cold.1)
    }
}

/// Everything that is translated.
pub struct Cache {
    pub(crate) units: Vec<Entry>,
    pub(crate) by_pc: HashMap<u64, u32>,
    pub(crate) exits: Vec<Exit>,
    pub(crate) pieces: Vec<Piece>,
    /// Exits by where they lead.
    ways: HashMap<u64, Vec<u32>>,
    /// By the address they come back to.
    calls: HashMap<u64, Call>,
    pub(crate) sites: Sites,
    /// Where returns go.
    pub returns: Returns,
    regions: Regions,
    effects: EffectsReader,
    counters: u32,
    count: bool,
    /// How many exits were given a way.
    pub links: u64,
    /// How many units were given up.
    pub invalid: u64,
    /// Code that can change.
    pub guard: Guard,
    /// See [`Self::wait_at`].
    waiting: u64,
}

/// How often a unit is entered before it is looked at more closely.
const THRESHOLD: u32 = 5000;

/// Counters at most.
fn most_counters() -> u32 {
    (room::counters() / 8) as u32
}

impl Cache {
    /// Nothing yet.
    pub fn new(count: bool) -> Self {
        Self {
            units: Vec::new(),
            by_pc: HashMap::new(),
            exits: Vec::new(),
            pieces: Vec::new(),
            ways: HashMap::new(),
            calls: HashMap::new(),
            sites: Sites::reserve(),
            returns: Returns::reserve(),
            regions: Regions::default(),
            effects: EffectsReader::new(),
            counters: 0,
            count,
            links: 0,
            invalid: 0,
            guard: Guard::default(),
            waiting: 0,
        }
    }

    /// The exit of a number.
    pub fn exit(&self, number: u32) -> Exit {
        self.exits[number as usize]
    }

    /// Where to go on in the cache for a place of the program, by an exit if there is one. `None` if no code is
    /// there.
    pub fn enter(&mut self, pc: u64, by: Option<u32>, maps: &mut Maps, log: &mut Log) -> Option<u64> {
        let entrance = match by {
            Some(exit) if self.exits[exit as usize].kind == abi::CALL => Entrance::Call,
            _ => Entrance::Jump,
        };
        let unit = self.find_or_translate(pc, entrance, maps, log)?;
        if let Some(exit) = by {
            self.link(exit, unit);
        }
        Some(self.units[unit as usize].body)
    }

    /// Where a return to `pc` lands.
    pub fn enter_by_return(&mut self, pc: u64, maps: &mut Maps, log: &mut Log) -> Option<Landing> {
        log.statistics().returns += 1;
        if let Some(&Call { body, landing, .. }) = self.calls.get(&pc) {
            self.returns.put(pc, body, landing);
            return Some(Landing { at: landing, body });
        }
        let unit = self.find_or_translate(pc, Entrance::Return, maps, log)? as usize;
        let (landing, body) = (self.units[unit].landing, self.units[unit].body);
        let landing = if landing == 0 { self.add_landing(pc, maps) } else { landing };
        self.units[unit].landing = landing;
        self.returns.put(pc, body, landing);
        Some(Landing { at: landing, body })
    }

    /// Where a computed jump or call goes on.
    pub fn enter_by_site(&mut self, exit: u32, to: u64, maps: &mut Maps, log: &mut Log) -> Option<u64> {
        log.statistics().targets += 1;
        let body = self.enter(to, None, maps, log)?;
        if let Some(way) = self.sites.way(exit, to) {
            return Some(way);
        }
        let site = self.exits[exit as usize];
        let counter = if self.count { self.take_counter() } else { None };
        if let (Some(counter), Some(mapping)) = (counter, maps.find(site.from)) {
            let target = abi::Target { site: site.from, to, counter, mapping: mapping.number };
            log.write(abi::TARGET, &[log::bytes(&target)]);
        }
        let (region, _) = self.regions.near(site.from);
        let first = self.exits.len() as u32;
        let mut code = Buffer::new(region.hot);
        let lesson = Lesson { exit, site: &site, to, counter, first };
        let new = self.sites.add(&lesson, &mut code, maps, &mut self.effects);
        region.hot = put(&code).next_multiple_of(16);
        for exit in new.exits {
            self.add_exit(exit);
        }
        self.sites.publish(exit);
        patch(site.field, new.tail);
        Some(self.sites.way(exit, to).unwrap_or(body))
    }

    fn take_counter(&mut self) -> Option<u32> {
        (self.counters < most_counters()).then(|| {
            self.counters += 1;
            self.counters - 1
        })
    }

    fn find_or_translate(
        &mut self,
        pc: u64,
        entrance: Entrance,
        maps: &mut Maps,
        log: &mut Log,
    ) -> Option<u32> {
        match self.by_pc.get(&pc) {
            Some(&unit) => Some(unit),
            None => self.translate(pc, entrance, Vec::new(), maps, log),
        }
    }

    /// A place that is often entered: replaces its unit by one that follows the usual way.
    pub fn heat(&mut self, pc: u64, counts: &dyn Fn(u32) -> u64, maps: &mut Maps, log: &mut Log) {
        let Some(&old) = self.by_pc.get(&pc).filter(|&&unit| !self.units[unit as usize].is_trace()) else {
            return;
        };
        let legs = self.usual_way(pc, counts, maps);
        let entrance =
            if self.units[old as usize].call_entrance != 0 { Entrance::Call } else { Entrance::Jump };
        if !legs.is_empty()
            && let Some(new) = self.translate(pc, entrance, legs, maps, log)
        {
            self.units[new as usize].older = Some(old);
            log.statistics().traces += 1;
        }
    }

    fn translate(
        &mut self,
        pc: u64,
        entrance: Entrance,
        legs: Vec<Leg>,
        maps: &mut Maps,
        log: &mut Log,
    ) -> Option<u32> {
        let mapping = maps.find_now(pc, log, &self.guard)?;
        let (region, is_new) = self.regions.near(pc);
        if is_new {
            maps.hide(region.start(), region.end());
        }
        // Nearly full: the last units are not counted.
        let counter = (self.count && self.counters + 256 < most_counters()).then_some(self.counters);
        let first_exit = self.exits.len() as u32;
        let known = &self.calls;
        let request = Request {
            source: maps,
            pc,
            legs: &legs,
            threshold: if legs.is_empty() { THRESHOLD } else { 0 },
            hot: region.hot,
            cold: region.cold,
            first_exit,
            counter,
            entrance,
            calls: &|back, pc| known.get(&back).filter(|call| call.pc == pc).map(|call| call.at),
            marks: false,
        };
        let mut unit = translate::translate(&request, &mut self.effects);
        if mapping.is_writable {
            while self.guard.watch(&unit.pieces, maps) {
                unit = translate::translate(&request, &mut self.effects);
            }
            signals::watch_faults();
        }
        region.hot = put(&unit.hot).next_multiple_of(16);
        region.cold = put(&unit.cold).next_multiple_of(8);
        self.counters += unit.counters;
        write_down(log, maps, counter, &unit);
        let statistics = log.statistics();
        statistics.units += 1;
        statistics.code += u64::from(unit.hot.size() + unit.cold.size());
        Some(self.add(pc, unit, entrance, legs, first_exit, counter))
    }

    fn add(
        &mut self,
        pc: u64,
        unit: Unit,
        entrance: Entrance,
        legs: Vec<Leg>,
        first_exit: u32,
        counter: Option<u32>,
    ) -> u32 {
        let number = self.units.len() as u32;
        let entered_by = |by: Entrance| if by == entrance { unit.entrance } else { 0 };
        self.units.push(Entry {
            pc,
            body: unit.body,
            call_entrance: entered_by(Entrance::Call),
            landing: entered_by(Entrance::Return),
            pieces: (self.pieces.len() as u32, unit.pieces.len() as u32),
            hot: (unit.hot.at, unit.hot.size()),
            cold: (unit.cold.at, unit.cold.size()),
            first_exit,
            counter: counter.unwrap_or(abi::NO_COUNTER),
            entrance,
            shared_call: unit.shared_call,
            legs,
            is_loop: unit.exits.iter().any(|exit| exit.to == pc),
            older: None,
            is_valid: true,
        });
        self.pieces.extend(unit.pieces);
        self.by_pc.insert(pc, number);
        for exit in unit.trigger.into_iter().chain(unit.exits) {
            self.add_exit(exit);
        }
        if let Some(call) = unit.call {
            self.add_exit(call.way);
            self.returns.put(call.back, call.body, call.landing);
            self.calls.insert(call.back, call);
        }
        // Those that have been waiting for it.
        for exit in self.ways.get(&pc).cloned().unwrap_or_default() {
            self.link(exit, number);
        }
        number
    }

    fn add_exit(&mut self, exit: Exit) {
        let number = self.exits.len() as u32;
        self.exits.push(exit);
        if exit.field == 0 || exit.to == 0 {
            return;
        }
        self.ways.entry(exit.to).or_default().push(number);
        if let Some(&unit) = self.by_pc.get(&exit.to) {
            self.link(number, unit);
        }
    }

    fn link(&mut self, exit: u32, unit: u32) {
        let exit = self.exits[exit as usize];
        if exit.field == 0 {
            return;
        }
        let is_call = exit.kind == abi::CALL;
        let Entry { body, call_entrance, .. } = self.units[unit as usize];
        let door = if is_call { call_entrance } else { body };
        let to = if door != 0 && reaches(exit.field, door) {
            door
        } else {
            let bridge = self.bridge(exit.field, body, is_call);
            if is_call && door == 0 {
                self.units[unit as usize].call_entrance = bridge;
            }
            bridge
        };
        patch(exit.field, to);
        self.links += 1;
    }

    /// A jump to somewhere, which may be far away, for jumps or calls.
    fn bridge(&mut self, from: u64, to: u64, is_call: bool) -> u64 {
        let (region, _) = self.regions.near(from);
        let mut code = Buffer::new(region.cold);
        if is_call {
            code.raw(&DROP);
        }
        if reaches(code.here(), to) {
            code.jump(to);
        } else {
            code.raw(&[0xff, 0x25, 0, 0, 0, 0]); // jmp [rip]
            code.raw(&to.to_le_bytes());
        }
        region.cold = put(&code).next_multiple_of(8);
        code.at
    }

    /// A landing apart from its unit.
    fn add_landing(&mut self, pc: u64, maps: &mut Maps) -> u64 {
        let (region, is_new) = self.regions.near(pc);
        if is_new {
            maps.hide(region.start(), region.end());
        }
        let mut code = Buffer::new(region.hot);
        let number = self.exits.len() as u32;
        let at = code.here();
        landing(&mut code, pc, true);
        let exit = translate::way(&mut code, number, pc, pc);
        region.hot = put(&code).next_multiple_of(16);
        self.add_exit(exit);
        at
    }

    /// Gives up what was made from a range of the program's memory. Whether there was any.
    pub fn invalidate(&mut self, start: u64, end: u64) -> bool {
        let mut any = false;
        self.calls.retain(|&back, call| {
            let stays = end <= call.pc || back < start;
            if !stays {
                self.returns.remove(back);
                translate::close_landing(call.landing);
            }
            stays
        });
        for unit in &mut self.units {
            let pieces = &self.pieces[unit.pieces.0 as usize..][..unit.pieces.1 as usize];
            if !unit.is_valid || !pieces.iter().any(|p| p.start < end && start < p.end) {
                continue;
            }
            any = true;
            unit.is_valid = false;
            self.invalid += 1;
            self.by_pc.remove(&unit.pc);
            self.returns.remove(unit.pc);
            if unit.landing != 0 {
                translate::close_landing(unit.landing);
            }
            for &exit in self.ways.get(&unit.pc).into_iter().flatten() {
                let exit = self.exits[exit as usize];
                patch(exit.field, exit.stub);
            }
        }
        any
    }

    /// What place of the program a place in the cache is. Seldom asked, so that it is found out by translating once
    /// more; `None` if the code is not the same any more, or the place is not in a unit.
    pub fn place(&mut self, at: u64, maps: &Maps) -> Option<(u32, Mark)> {
        let number = self.units.iter().position(|unit| unit.holds(at))?;
        let marks = self.marks(number, maps)?;
        let unit = &self.units[number];
        let is_hot = at.wrapping_sub(unit.hot.0) < u64::from(unit.hot.1);
        let same_part = |m: &&Mark| (m.at.wrapping_sub(unit.hot.0) < u64::from(unit.hot.1)) == is_hot;
        let mark = marks.iter().filter(same_part).filter(|m| m.at <= at).max_by_key(|m| m.at)?;
        Some((number as u32, *mark))
    }

    /// Where in the cache a call of the kernel comes back to that the program makes at `pc`.
    pub fn behind_call(&mut self, pc: u64, maps: &mut Maps, log: &mut Log) -> Option<u64> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let next = pc + SYSCALL.len() as u64;
        let unit = self.find_or_translate(pc, Entrance::Jump, maps, log)?;
        let marks = self.marks(unit as usize, maps)?;
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
        at != 0 && at == self.waiting
    }

    /// Gives all memory for code back: nothing is executed there any more.
    pub fn unmap(&mut self) {
        self.regions.unmap();
        self.sites.unmap();
    }

    /// What places of the program there are in a unit; `None` if its code is not the same any more.
    fn marks(&mut self, number: usize, maps: &Maps) -> Option<Vec<Mark>> {
        let unit = &self.units[number];
        let request = Request {
            source: maps,
            pc: unit.pc,
            legs: &unit.legs,
            threshold: if unit.is_trace() { 0 } else { THRESHOLD },
            hot: unit.hot.0,
            cold: unit.cold.0,
            first_exit: unit.first_exit,
            counter: (unit.counter != abi::NO_COUNTER).then_some(unit.counter),
            entrance: unit.entrance,
            calls: &|_, _| unit.shared_call,
            marks: true,
        };
        let again = translate::translate(&request, &mut self.effects);
        if (again.hot.size(), again.cold.size()) != (unit.hot.1, unit.cold.1) {
            return None;
        }
        Some(again.marks)
    }

    /// Whether a unit was made from a range of the program's memory.
    pub fn is_from(&self, unit: u32, start: u64, end: u64) -> bool {
        let unit = &self.units[unit as usize];
        let pieces = &self.pieces[unit.pieces.0 as usize..][..unit.pieces.1 as usize];
        pieces.iter().any(|p| p.start < end && start < p.end)
    }

    /// Whether a unit is what it was translated from.
    pub fn is_valid(&self, unit: u32) -> bool {
        self.units.get(unit as usize).is_some_and(|unit| unit.is_valid)
    }

    /// Whether an address is in translated code.
    pub fn contains(&self, at: u64) -> bool {
        self.regions.contains(at)
    }
}

/// Where a return arrives.
pub struct Landing {
    /// For the table.
    pub at: u64,
    /// For this time.
    pub body: u64,
}

/// Copies code to its place and says where it ends.
fn put(code: &Buffer) -> u64 {
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

fn write_down(log: &mut Log, maps: &Maps, counter: Option<u32>, unit: &Unit) {
    let head = abi::Unit {
        entries: counter.unwrap_or(abi::NO_COUNTER),
        pieces: unit.pieces.len() as u32,
        exits: unit.exits.len() as u32,
        unused: 0,
    };
    let piece = |&Piece { start, end }: &Piece| {
        let mapping = maps.find(start).map_or(0, |mapping| mapping.number);
        abi::Piece { start, end, mapping, unused: 0 }
    };
    let pieces: Vec<abi::Piece> = unit.pieces.iter().map(piece).collect();
    let exits: Vec<abi::Exit> = unit.exits.iter().map(Exit::record).collect();
    log.write(abi::UNIT, &[log::bytes(&head), log::all_bytes(&pieces), log::all_bytes(&exits)]);
}
