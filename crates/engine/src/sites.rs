//! Computed jumps and calls: each has code of its own that finds the way to the targets seen so far, and counts
//! them apart.
//!
//! One target is compared directly. From the second on, eight bits of the target choose a landing from a table;
//! landings of targets with the same eight bits form a chain. Tables lie in the lowest 2 GiB, where an instruction
//! can name them without a register.

use crate::flow::Source;
use crate::limits;
use crate::maps::Maps;
use crate::processor;
use crate::thread::offset;
use crate::translate::emit::Buffer;
use crate::translate::free::Free;
use crate::translate::{self, DROP, Exit, can_compare, compare, count, differ};
use alloc::vec::Vec;
use hashbrown::HashMap;
use relive_abi::engine as abi;
use relive_abi::kernel::{self, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE, PROT_RW};
use relive_code::isa::{EffectsReader, Gpr};

const SLOTS: usize = 256;
const TABLE_LEN: u64 = SLOTS as u64 * 8;
/// Room for all tables.
const TABLES_LEN: u64 = 64 << 20;

/// Where tables are.
pub struct Sites {
    known: HashMap<u32, Site>,
    /// The sites that know a target.
    by_target: HashMap<u64, Vec<u32>>,
    start: u64,
    next: u64,
    end: u64,
    can_rotate: bool,
}

#[derive(Default)]
struct Site {
    targets: Vec<Target>,
    /// From the second target on.
    table: Option<Table>,
}

struct Table {
    at: u64,
    /// Which eight bits of the target: those that this rotation brings to the end.
    rotate: u8,
    slots: Vec<u64>,
    /// What leads to the engine; in slots nobody has come to.
    empty: u64,
    /// The code that looks into it.
    tail: u64,
}

#[derive(Clone, Copy)]
struct Target {
    to: u64,
    counter: Option<u32>,
    /// Where its counter is, and then the way there.
    counted: u64,
}

/// What a new target brought about.
pub struct New {
    /// Where the site's jump has to lead.
    pub tail: u64,
    /// New ways.
    pub exits: Vec<Exit>,
}

/// Where a site is, and what it is about to learn.
pub struct Lesson<'a> {
    /// The number of the exit.
    pub exit: u32,
    /// The exit.
    pub site: &'a Exit,
    /// The target.
    pub to: u64,
    /// Its counter.
    pub counter: Option<u32>,
    /// The number of the next new exit.
    pub first: u32,
}

impl Sites {
    /// None.
    pub fn reserve() -> Self {
        let (next, end) = reserve_tables().map_or((0, 0), |(at, len)| (at, at + len));
        Self {
            known: HashMap::new(),
            by_target: HashMap::new(),
            start: next,
            next,
            end,
            can_rotate: processor::can_rotate(),
        }
    }

    /// The way to a target from where it has been recognised, counting it; `None` if the site has not learnt it.
    pub fn way(&self, exit: u32, to: u64) -> Option<u64> {
        self.known.get(&exit)?.targets.iter().find(|t| t.to == to).map(|t| t.counted)
    }

    /// The targets of a site, with their counters.
    pub fn targets(&self, exit: u32) -> impl Iterator<Item = (u64, Option<u32>)> {
        self.known.get(&exit).into_iter().flat_map(|site| &site.targets).map(|t| (t.to, t.counter))
    }

    /// Learns a target. Writes new code for the site behind `code`; when that is in its place, [`Self::publish`]
    /// has to follow.
    pub fn add(
        &mut self,
        lesson: &Lesson<'_>,
        code: &mut Buffer,
        maps: &Maps,
        effects: &mut EffectsReader,
    ) -> New {
        let Lesson { exit, site, to, counter, first } = *lesson;
        let known = self.known.entry(exit).or_default();
        known.targets.push(Target { to, counter, counted: 0 });
        self.by_target.entry(to).or_default().push(exit);
        let targets = &mut known.targets;
        let mut writer = Writer { code, first, exits: Vec::new(), site, maps, effects, targets };
        let n = writer.targets.len();
        let tail = match &mut known.table {
            None if n == 1 || self.next >= self.end => writer.single(n - 1),
            Some(table) if !n.is_power_of_two() => {
                writer.add_to(table, n - 1);
                table.tail
            }
            // Twice as many: other bits may do better.
            table => {
                let at = table.as_ref().map_or(self.next, |table| table.at);
                if table.is_none() {
                    self.next += TABLE_LEN;
                }
                let rotate = if self.can_rotate { best_rotation(writer.targets) } else { 0 };
                table.insert(writer.table(at, rotate)).tail
            }
        };
        New { tail, exits: writer.exits }
    }

    /// Nobody looks into tables any more.
    pub fn give_back(&mut self) {
        if self.end != 0 {
            // SAFETY: mapped by `reserve`.
            unsafe { kernel::munmap(self.start, self.end - self.start) };
            (self.start, self.next, self.end) = (0, 0, 0);
        }
    }

    /// Forgets all that sites with a target know. Says which these are: their jumps have to lead to the engine again.
    pub fn forget(&mut self, to: u64) -> Vec<u32> {
        let exits = self.by_target.remove(&to).unwrap_or_default();
        for exit in &exits {
            let Some(site) = self.known.get_mut(exit) else { continue };
            site.targets.clear();
            if let Some(table) = &mut site.table {
                table.slots.fill(0);
            }
            self.publish(*exit);
        }
        exits
    }

    /// Lets others see what [`Self::add`] has made.
    pub fn publish(&self, exit: u32) {
        let Some(table) = self.known.get(&exit).and_then(|site| site.table.as_ref()) else { return };
        for (i, &slot) in table.slots.iter().enumerate() {
            let to = if slot == 0 { table.empty } else { slot };
            // SAFETY: the table is ours. Threads that read it meanwhile find landings, old or new, and each of them
            // looks whether it is the right one.
            unsafe { core::ptr::write_volatile((table.at as *mut u64).add(i), to) };
        }
    }
}

/// The eight bits that tell the targets apart best.
fn best_rotation(targets: &[Target]) -> u8 {
    let distinct = |rotate: u8| {
        let mut seen = [false; SLOTS];
        targets.iter().filter(|t| !core::mem::replace(&mut seen[slot(t.to, rotate)], true)).count()
    };
    (0..=16).rev().max_by_key(|&rotate| distinct(rotate)).unwrap_or(0)
}

fn slot(to: u64, rotate: u8) -> usize {
    usize::from((to as u32).rotate_right(u32::from(rotate)) as u8)
}

struct Writer<'a> {
    code: &'a mut Buffer,
    first: u32,
    exits: Vec<Exit>,
    site: &'a Exit,
    maps: &'a Maps,
    effects: &'a mut EffectsReader,
    targets: &'a mut Vec<Target>,
}

impl Writer<'_> {
    /// The way to a target once it has been recognised.
    fn arrive(&mut self, index: usize) {
        let Target { to, counter, .. } = self.targets[index];
        self.targets[index].counted = self.code.here();
        if let Some(counter) = counter {
            let free = Free::at(self.maps, self.effects, to);
            count(self.code, counter, free);
        }
        let number = self.first + self.exits.len() as u32;
        let source = counter.map_or(Source::Outside, Source::Target);
        self.exits.push(Exit { source, ..translate::way(self.code, number, self.site.from, to) });
    }

    /// Back to the state in which the site's jump is executed, and to the engine.
    fn miss(&mut self) {
        compare(self.code);
        self.code.load(Gpr::RAX, offset::RAX);
        self.code.jump(self.site.stub);
    }

    /// `rcx` holds the target and both registers are spilled: goes on if it is this one, otherwise to `next`.
    fn landing(&mut self, index: usize, next: Option<u64>) -> u64 {
        let at = self.code.here();
        self.code.address(Gpr::RAX, self.targets[index].to);
        compare(self.code);
        self.code.raw(&[0xe3, 0]); // jrcxz
        let short = self.code.bytes.len();
        match next {
            None => self.miss(),
            Some(next) => {
                compare(self.code);
                self.code.jump(next);
            }
        }
        self.code.bytes[short - 1] = (self.code.bytes.len() - short) as u8;
        self.code.load(Gpr::RCX, offset::RCX);
        self.code.load(Gpr::RAX, offset::RAX);
        self.arrive(index);
        at
    }

    /// Where the site's jump or call leads.
    fn begin(&mut self) -> u64 {
        let tail = self.code.here();
        if self.site.kind == abi::INDIRECT_CALL {
            self.code.raw(&DROP);
        }
        tail
    }

    fn single(&mut self, index: usize) -> u64 {
        let tail = self.begin();
        if can_compare(self.targets[index].to) {
            self.compare_alone(index);
            return tail;
        }
        self.code.store(offset::RAX, Gpr::RAX);
        self.landing(index, None);
        tail
    }

    /// The same as [`Self::landing`] with no register but `rcx`.
    fn compare_alone(&mut self, index: usize) {
        let back = differ(self.code, self.targets[index].to);
        self.code.raw(&[0xe3, 0]); // jrcxz
        let short = self.code.bytes.len();
        self.code.raw(&back);
        self.code.jump(self.site.stub);
        self.code.bytes[short - 1] = (self.code.bytes.len() - short) as u8;
        self.code.load(Gpr::RCX, offset::RCX);
        self.arrive(index);
    }

    fn add_to(&mut self, table: &mut Table, index: usize) {
        let slot = &mut table.slots[slot(self.targets[index].to, table.rotate)];
        let next = (*slot != 0).then_some(*slot);
        *slot = self.landing(index, next);
    }

    fn table(&mut self, at: u64, rotate: u8) -> Table {
        let empty = self.code.here();
        self.code.load(Gpr::RAX, offset::RAX);
        self.code.jump(self.site.stub);
        let mut table = Table { at, rotate, slots: alloc::vec![0; SLOTS], empty, tail: 0 };
        for index in 0..self.targets.len() {
            self.add_to(&mut table, index);
        }
        table.tail = self.begin();
        self.code.store(offset::RAX, Gpr::RAX);
        match rotate {
            0 => self.code.raw(&[0x0f, 0xb6, 0xc1]), // movzx eax, cl
            8 => self.code.raw(&[0x0f, 0xb6, 0xc5]), // movzx eax, ch
            _ => {
                self.code.raw(&[0xc4, 0xe3, 0x7b, 0xf0, 0xc1, rotate]); // rorx eax, ecx, rotate
                self.code.raw(&[0x0f, 0xb6, 0xc0]); // movzx eax, al
            }
        }
        self.code.raw(&[0xff, 0x24, 0xc5]); // jmp [rax*8 + table]
        self.code.raw(&(at as u32).to_le_bytes());
        table
    }
}

/// Room for tables in the lowest 2 GiB: where, and how much.
fn reserve_tables() -> Option<(u64, u64)> {
    let (step, len) = (TABLES_LEN, TABLES_LEN >> limits::smaller());
    (1..28).rev().map(|n| n * step).find_map(|at| {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let got = unsafe { kernel::mmap(at, len, PROT_RW, flags, -1, 0) }.ok()?;
        if got != at {
            // SAFETY: mapped just now.
            unsafe { kernel::munmap(got, len) };
            return None;
        }
        kernel::keep_out_of_cores(at, len);
        Some((at, len))
    })
}
