//! What a segment tells of races: what its thread did to memory between two moments at which it could give something away or
//! take something, each access once; and these moments.

use super::kernel::{self, Meaning};
use super::runtime::{Follower, Function, Owner, Runtime, Spot, Way};
use super::variables::{Variables, granules};
use crate::map::Map;
use relive_code::isa::AccessKind;
use relive_trace::visit::{Event, Ran, Reference, Visitor};
use std::sync::Arc;

/// Words of four bytes that serve to bring threads in order: what is given to one of them can be taken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Words {
    first: u64,
    last: u64,
}

impl Words {
    fn of(address: u64, size: u32) -> Self {
        Self { first: address / 4, last: address.saturating_add(u64::from(size.max(1)) - 1) / 4 }
    }

    pub(super) fn all(self) -> impl Iterator<Item = u64> {
        self.first..=self.last
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// No moment is later, whatever a trace says: it can be doubled.
pub(super) const LATEST: u64 = u64::MAX / 4;

/// Something that matters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// Some of eight bytes are accessed.
    Access { granule: u64, mask: u8, is_write: bool, spot: Spot },
    /// A locked instruction: takes and gives, some time between two moments.
    Locked { words: Words, before: u64, after: u64 },
    /// A plain load of what serves to bring threads in order.
    Load { words: Words },
    /// A plain store to such a place.
    Store { words: Words },
    /// A load from the description of another thread, to see whether it has ended.
    Look { thread: u32 },
    /// The thread begins.
    Begin,
    /// A signal has come.
    Signal,
    /// A call of the kernel begins; its number among what calls mean.
    Call { meaning: u32, time: u64 },
    /// It is over.
    Result { value: u64, time: u64 },
}

/// Accesses that are remembered so that they are not told again: those to a megabyte, one behind the other.
const REMEMBERED: usize = 1 << 17;

#[derive(Clone, Copy, Default)]
struct Told {
    granule: u64,
    epoch: u32,
    read: u8,
    written: u8,
}

/// What a segment tells.
pub struct Part {
    pub(super) items: Vec<Item>,
    /// What calls of the kernel mean, each once.
    pub(super) meanings: Vec<Meaning>,
    by_meaning: Map<Meaning, u32>,
    variables: Option<Arc<Variables>>,
    runtime: Arc<dyn Runtime>,
    follower: Follower,
    thread: u32,
    /// Changes whenever something may have been given away.
    epoch: u32,
    told: Vec<[Told; 2]>,
    has_begun: bool,
    way: Way,
}

impl Part {
    pub(super) fn new(
        (process, thread): (u32, u32),
        is_first: bool,
        variables: Option<Arc<Variables>>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            items: Vec::new(),
            meanings: Vec::new(),
            by_meaning: Map::default(),
            variables,
            runtime,
            follower: Follower::new(process),
            thread,
            epoch: 1,
            told: vec![[Told::default(); 2]; REMEMBERED],
            has_begun: !is_first,
            way: Way::Jump,
        }
    }

    fn reference(&mut self, unit: u32, reference: &Reference, stamp: Option<(u64, u64)>) {
        let &Reference { address, size, step, kind, is_locked } = reference;
        let mut is_serving = is_locked;
        for (granule, mask) in granules(address, size) {
            let mut rest = mask;
            if let Some(variables) = self.variables.as_ref().filter(|variables| variables.may_hold(granule)) {
                let serving = variables.bytes.get(&granule).copied().unwrap_or(0) & mask;
                is_serving |= serving != 0;
                rest &= !serving;
                if let Some(thread) = variables.thread(granule) {
                    if thread != self.thread && kind == AccessKind::Read {
                        self.items.push(Item::Look { thread });
                    }
                    continue;
                }
            }
            if rest != 0 && !is_locked {
                self.access(unit, step, granule, rest, kind);
            }
        }
        if is_serving {
            self.serve(Words::of(address, size), kind, stamp);
        }
    }

    /// An access to what serves to bring threads in order.
    fn serve(&mut self, words: Words, kind: AccessKind, stamp: Option<(u64, u64)>) {
        let item = match (stamp, kind) {
            (Some((before, after)), _) => {
                Item::Locked { words, before: before.min(LATEST), after: after.min(LATEST) }
            }
            (None, AccessKind::Read) => {
                // Who waits looks again and again.
                if matches!(self.items.last(), Some(Item::Load { words: last }) if *last == words) {
                    return;
                }
                Item::Load { words }
            }
            (None, AccessKind::Write | AccessKind::Update) => Item::Store { words },
        };
        if !matches!(item, Item::Load { .. }) {
            self.epoch += 1;
        }
        self.items.push(item);
    }

    fn access(&mut self, unit: u32, step: u16, granule: u64, mask: u8, kind: AccessKind) {
        let spot = self.follower.spot(unit, step);
        let is_write = kind != AccessKind::Read;
        let told = &mut self.told[granule as usize % REMEMBERED][usize::from(spot.owner == Owner::Program)];
        if (told.granule, told.epoch) != (granule, self.epoch) {
            *told = Told { granule, epoch: self.epoch, read: 0, written: 0 };
        }
        let known = if is_write { &mut told.written } else { &mut told.read };
        let is_known = mask & !*known == 0 || (!is_write && mask & !(told.read | told.written) == 0);
        if is_known {
            return;
        }
        if is_write {
            told.written |= mask;
        } else {
            told.read |= mask;
        }
        self.items.push(Item::Access { granule, mask, is_write, spot });
    }
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        self.has_begun = true;
        let unit = ran.unit;
        let runtime = Arc::clone(&self.runtime);
        let is_plain = self.follower.look(unit, &*runtime);
        let mut piece = unit.steps.get(ran.from).map_or(0, |step| step.piece);
        if ran.from == 0 {
            self.follower.enter(unit, piece, self.way);
        }
        let mut stamps = ran.stamps.iter().peekable();
        for reference in ran.references {
            let step = reference.step;
            if !is_plain {
                let now = unit.steps.get(usize::from(step)).map_or(0, |step| step.piece);
                while piece < now {
                    // The last instruction of the piece is what leads on.
                    let last = unit.steps.iter().rposition(|step| step.piece == piece).unwrap_or(0);
                    self.follower.passed(unit.number, last as u16);
                    piece += 1;
                    self.follower.go_on(unit, piece);
                }
            }
            while stamps.next_if(|stamp| stamp.step < step).is_some() {}
            let stamp = stamps.peek().filter(|stamp| stamp.step == step && reference.is_locked);
            self.reference(unit.number, reference, stamp.map(|stamp| (stamp.before, stamp.after)));
        }
        if let Some(last) = ran.steps.checked_sub(1) {
            let now = unit.steps.get(last).map_or(0, |step| step.piece);
            while piece < now {
                piece += 1;
                self.follower.go_on(unit, piece);
            }
            self.follower.passed(unit.number, last as u16);
        }
        self.way = Follower::way(unit, ran.exit);
    }

    fn event(&mut self, event: &Event) {
        let item = match *event {
            Event::State(_) if !self.has_begun => {
                self.has_begun = true;
                Item::Begin
            }
            Event::State(_) => Item::Signal,
            Event::Call { number, arguments, time } => {
                let meaning = kernel::meaning(number, &arguments);
                let meanings = &mut self.meanings;
                let meaning = *self.by_meaning.entry(meaning).or_insert_with(|| {
                    meanings.push(meaning);
                    meanings.len() as u32 - 1
                });
                Item::Call { meaning, time: time.min(LATEST) }
            }
            Event::Result { value, time } => Item::Result { value, time: time.min(LATEST) },
            Event::NotCalled => return,
        };
        self.epoch += 1;
        self.items.push(item);
    }
}

/// The function of the C library that matters to locks, for those who look at them.
pub(super) fn lock_function(follower: &Follower) -> Option<Function> {
    follower.function().filter(|function| !matches!(function, Function::Data | Function::Other))
}
