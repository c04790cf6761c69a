//! Discrimination: which entries of an old profile still hold, and so which functions of the new build need not be measured.

use super::behaviour::Behaviour;
use super::entries::{self, Entry};
use super::price;
use relive_impact::constructs::{Grouping, Level};
use relive_impact::{Affected, Builds};
use relive_matching::blocks::Found;
use relive_profile::model::{Function, State};
use std::collections::{HashMap, HashSet};

/// Why a function is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It holds, and costs so little to count that it is counted all the same.
    Cheap,
    /// The old build does not have it.
    New,
    /// It changed, or a change can affect it.
    Affected,
    /// Not everything that was counted in it has its place in the new build.
    Unmapped,
    /// It was not measured before.
    NotMeasured,
    /// A run of the new build counted something else.
    Differs,
}

impl Why {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Cheap => "costs next to nothing",
            Self::New => "new",
            Self::Affected => "affected by changes",
            Self::Unmapped => "not all of it is found in the old build",
            Self::NotMeasured => "not measured before",
            Self::Differs => "counts something else in a checked run",
        }
    }
}

/// What becomes of a function of the new build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Why it is measured; `None` if its old entries are taken over.
    pub measure: Option<Why>,
    /// Entries whose old count still holds.
    pub reusable: HashSet<Entry>,
    /// Entries whose old count does not.
    pub again: HashSet<Entry>,
    /// Entries whose old count holds, and that are counted all the same.
    pub watched: HashSet<Entry>,
    /// Entries whose old count does not hold, and that are taken over all the same: to measure them would cost too much.
    pub dear: HashSet<Entry>,
}

impl Decision {
    /// Nothing is known yet.
    #[must_use]
    pub fn open() -> Self {
        Self {
            measure: None,
            reusable: HashSet::new(),
            again: HashSet::new(),
            watched: HashSet::new(),
            dear: HashSet::new(),
        }
    }

    /// Takes note of an entry.
    pub fn note(&mut self, entry: Entry, objection: Option<Why>) {
        match objection {
            None => self.reusable.insert(entry),
            Some(_) => self.again.insert(entry),
        };
        self.measure = self.measure.max(objection);
    }

    /// Has an entry counted that holds.
    pub fn watch(&mut self, entry: Entry) {
        self.watched.insert(entry);
        self.measure = self.measure.max(Some(Why::Cheap));
    }

    /// Does without measuring an entry.
    pub fn do_without(&mut self, entry: Entry) {
        if self.again.remove(&entry) {
            self.dear.insert(entry);
        }
        if self.again.is_empty() && self.watched.is_empty() {
            self.measure = None;
        }
    }

    /// Measures an entry after all, as there is a reason to.
    pub fn take_back(&mut self, entry: Entry, why: Option<Why>) {
        if self.dear.remove(&entry) {
            self.again.insert(entry);
            self.measure = self.measure.max(why);
        }
    }

    /// The blocks to count if that costs less than to measure the whole function, from which everything follows; `None` if it
    /// does not. `function` has the counts that are expected of it.
    #[must_use]
    pub fn blocks(&self, function: &Function) -> Option<Vec<u32>> {
        let blocks: Option<Vec<u32>> = self
            .again
            .union(&self.watched)
            .map(|entry| match *entry {
                Entry::Block(block) => Some(block),
                Entry::Edge(_) | Entry::Function => None,
            })
            .collect();
        let mut blocks = blocks?;
        blocks.sort_unstable();
        let cost = blocks.iter().map(|&block| price::of(function, Entry::Block(block))).sum::<u64>();
        let is_less = match price::whole(function) {
            0 => SOME * blocks.len() <= function.blocks.len(),
            whole => cost <= whole,
        };
        is_less.then_some(blocks)
    }
}

/// Counters that tell everything sit on about every third block: what is cheaper if nobody knows how often they run.
const SOME: usize = 3;

/// What becomes of each function of the new build.
///
/// The level at which entries are told apart is the larger of the behaviour's and the analysis'.
#[must_use]
pub fn discriminate(
    builds: &Builds<'_>,
    affected: &Affected,
    behaviours: &[&Behaviour],
    grouping: &dyn Grouping,
) -> Vec<Decision> {
    let own: Vec<Unit<'_>> =
        (0..builds.new.functions.len() as u32).map(|new| Unit::new(builds, affected, new)).collect();
    let mut decisions: Vec<Decision> = own.iter().map(|_| Decision::open()).collect();
    for behaviour in behaviours {
        let level = behaviour.granularity.max(affected.level);
        let whole = Whole::of(builds, &own, level, grouping);
        for (i, (unit, decision)) in own.iter().zip(&mut decisions).enumerate() {
            let verdict = whole.verdict(i);
            for entry in entries::of(unit.function, behaviour.about) {
                decision.note(entry, verdict.or_else(|| unit.objection(entry, level)));
            }
        }
    }
    decisions
}

/// A function of the new build.
struct Unit<'a> {
    function: &'a Function,
    /// Why nothing of it can be taken over.
    never: Option<Why>,
    /// Why it cannot be taken over as a whole.
    whole: Option<Why>,
    /// Its blocks: why each cannot be taken over.
    blocks: Vec<Option<Why>>,
}

impl<'a> Unit<'a> {
    fn new(builds: &Builds<'a>, affected: &Affected, new: u32) -> Self {
        let function = &builds.new.functions[new as usize];
        let Some(old) = builds.old_function(new) else {
            let (never, blocks) = (Some(Why::New), vec![Some(Why::New); function.blocks.len()]);
            return Self { function, never, whole: never, blocks };
        };
        let before = &builds.old.functions[old as usize];
        let never = (before.state != State::Measured).then_some(Why::NotMeasured);
        let partner: HashMap<u32, u32> = builds
            .blocks(new)
            .iter()
            .filter(|pair| pair.found != Found::ControlFlow)
            .map(|pair| (pair.new, pair.old))
            .collect();
        let blocks: Vec<Option<Why>> = (0..function.blocks.len() as u32)
            .map(|block| match partner.get(&block) {
                _ if affected.new.contains(new, block) => Some(Why::Affected),
                None => Some(Why::Unmapped),
                Some(&old_block) => affected.old.contains(old, old_block).then_some(Why::Affected),
            })
            .collect();
        let affected = affected.new.touches(new) || affected.old.touches(old);
        let incomplete = blocks.iter().any(Option::is_some) || partner.len() != before.blocks.len();
        let whole = never.or(affected.then_some(Why::Affected)).or(incomplete.then_some(Why::Unmapped));
        Self { function, never, whole, blocks }
    }

    /// Why the old count of an entry does not hold; `None` if it does.
    fn objection(&self, entry: Entry, level: Level) -> Option<Why> {
        if level >= Level::FUNCTION {
            return self.whole;
        }
        let of = |block: u32| self.blocks.get(block as usize).copied().unwrap_or(Some(Why::Unmapped));
        let block = entry.block(self.function)?;
        let within = |block: u32| {
            let mut loops = self.function.loops.iter().filter(|looped| looped.header == block);
            loops.find_map(|looped| looped.blocks.iter().find_map(|&inner| of(inner)))
        };
        let looped = if level == Level::LOOP { within(block) } else { None };
        self.never.or_else(|| of(block)).or(looped)
    }
}

/// What holds for all functions of a group, if entries are only taken over group by group.
struct Whole {
    group: Vec<Option<usize>>,
    why: Vec<Option<Why>>,
}

impl Whole {
    fn of(builds: &Builds<'_>, own: &[Unit<'_>], level: Level, grouping: &dyn Grouping) -> Self {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut group = vec![None; own.len()];
        if level > Level::FUNCTION {
            for (i, function) in builds.new.functions.iter().enumerate() {
                let name = match level {
                    Level::PROGRAM => Some(String::new()),
                    _ => grouping.group(builds.new, function),
                };
                let next = numbers.len();
                group[i] = name.map(|name| *numbers.entry(name).or_insert(next));
            }
        }
        let mut why = vec![None; numbers.len()];
        for (unit, group) in own.iter().zip(&group) {
            if let (Some(group), Some(objection)) = (group, unit.whole) {
                why[*group] = why[*group].or(Some(objection));
            }
        }
        Self { group, why }
    }

    fn verdict(&self, function: usize) -> Option<Why> {
        self.group[function].and_then(|group| self.why[group])
    }
}
