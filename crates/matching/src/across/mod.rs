//! Code that moved across the borders of procedures: the compiler inlined a function in one build and not in the other,
//! or somebody split or merged functions.
//!
//! Where a procedure makes calls that its partner does not make, and the partner has blocks like those of the
//! callee, the callee is put in place of the call (`splice`), and blocks are matched once more. What is found in
//! the callee has been inlined if it is the old one's, and outlined if it is the new one's. As control flow leads from
//! the call into the callee and back, neighbours tell as much as they do within a procedure; and the same callee may
//! be inside of many procedures, each time with counts of its own.

mod calls;
mod clones;
mod plan;
mod singles;
mod splice;

pub use clones::Cloned;
pub use splice::{Copy, Spliced};

use crate::blocks::{self, Blocks, Found, Sides};
use crate::fingerprint::{Fingerprint, Procedure, Reader};
use crate::identity::Both;
use crate::largest_first::largest_first;
use crate::matching::{BlockPair, Pair, Procedures};
use crate::pairing::Pairing;
use crate::procedures::How;
use hashbrown::HashSet;
use plan::{Choice, Host};
use relive_profile::model::Level;
use splice::Plan;

/// A pair of procedures of which at least one has others inside.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The old one.
    pub old: Spliced,
    /// The new one.
    pub new: Spliced,
    /// Blocks that belong together, by the new one: all of them, those of the procedures themselves as well.
    pub blocks: Vec<BlockPair>,
    /// New blocks that share an old one by control flow: new, old.
    pub partial: Vec<(u32, u32)>,
}

/// A block that is in another procedure than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// What happened to it.
    pub kind: Kind,
    /// The old procedure and its block.
    pub old: (u32, u32),
    /// The new procedure and its block.
    pub new: (u32, u32),
    /// How it was found.
    pub found: Found,
}

/// What happened to a block that is in another procedure than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was called, and is now where the call was.
    Inlined,
    /// It is now called where it was before.
    Outlined,
}

impl Kind {
    /// A short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inlined => "inlined",
            Self::Outlined => "outlined",
        }
    }
}

/// A build with what is asked about it here.
struct Build<'a> {
    print: &'a Fingerprint<'a>,
    sites: Vec<Vec<calls::Site>>,
    partner: Vec<Option<u32>>,
}

impl Build<'_> {
    /// Procedures without a partner.
    fn open(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.partner.len() as u32).filter(|&i| self.is_open(i))
    }

    /// Carries out a plan, unless `before` is what comes of it.
    fn half(&self, reader: &Reader<'_>, plan: Plan, before: Option<Half>) -> Half {
        if let Some(before) = before.filter(|before| before.plan == plan) {
            return before;
        }
        let spliced = Spliced::new(self.print.module, &plan);
        let procedure = match spliced.copies.as_slice() {
            [alone] => {
                let known = &self.print.procedures[alone.procedure as usize];
                Reader::with_edges_of(known, &spliced.function)
            }
            _ => reader.procedure(&spliced.function),
        };
        Half { plan, spliced, procedure }
    }

    fn is_open(&self, procedure: u32) -> bool {
        self.partner[procedure as usize].is_none()
            && !self.print.procedures[procedure as usize].blocks.is_empty()
    }
}

/// One of two procedures with others inside, and what it looks like.
struct Half {
    plan: Plan,
    spliced: Spliced,
    procedure: Procedure,
}

/// A callee belongs inside if at least so much of it was found there, and so many instructions of it are in large
/// blocks that are the same;
const LEAST_FOUND: f64 = 0.25;
const LEAST_SURE: u32 = 12;
/// or if so much of it was found, and at least one large block is the same,
const MOSTLY_FOUND: f64 = 0.5;
/// or if nearly all of it was found, it is not small, and at least so many instructions are in blocks that are the same, small ones too.
/// The hash part of `luaH_getint`, in 5.5 a function of its own, has no large block that is the same.
const NEARLY_ALL_FOUND: f64 = 0.9;
const LEAST_SAME: u32 = 6;

/// Callees that do not belong inside are taken out again so many times.
const MOST_ROUNDS: usize = 3;

/// Looks for code that crossed borders between `procedures`: blocks of those it concerns are matched anew. Returns
/// procedures with others inside, and new ones that are clones of old ones that have another partner.
pub(crate) fn run(
    old: &Fingerprint<'_>,
    new: &Fingerprint<'_>,
    ids: &Both,
    procedures: &mut Vec<Procedures>,
) -> (Vec<Joined>, Vec<Cloned>) {
    let mut partners = (vec![None; old.procedures.len()], vec![None; new.procedures.len()]);
    for Procedures { pair, .. } in procedures.iter() {
        partners.0[pair.old as usize] = Some(pair.new);
        partners.1[pair.new as usize] = Some(pair.old);
    }
    let mut across = Across {
        old: Build { print: old, sites: calls::of(old.module), partner: partners.0 },
        new: Build { print: new, sites: calls::of(new.module), partner: partners.1 },
        readers: (Reader::new(old.module), Reader::new(new.module)),
        ids,
        renamed: Default::default(),
    };
    for found in singles::find(&across, procedures) {
        across.old.partner[found.pair.old as usize] = Some(found.pair.new);
        across.new.partner[found.pair.new as usize] = Some(found.pair.old);
        across.renamed.0.insert(found.pair.old);
        across.renamed.1.insert(found.pair.new);
        procedures.push(found);
    }
    procedures.sort_unstable_by_key(|found| found.pair.new);
    let found = largest_first(procedures, |p| across.size(p.pair.old, p.pair.new), |p| across.look_at(p));
    for (procedures, joined) in procedures.iter_mut().zip(&found) {
        if let Some(joined) = joined {
            joined.put(procedures);
        }
    }
    let joined: Vec<Joined> = found.into_iter().flatten().collect();
    let clones = clones::find(&across, procedures, &joined);
    (joined, clones)
}

struct Across<'a> {
    old: Build<'a>,
    new: Build<'a>,
    readers: (Reader<'a>, Reader<'a>),
    ids: &'a Both,
    /// Procedures of both builds that became partners here: they are not inside of others as well.
    renamed: (HashSet<u32>, HashSet<u32>),
}

impl Across<'_> {
    /// How many blocks two procedures have.
    fn size(&self, old: u32, new: u32) -> usize {
        let blocks = |build: &Build<'_>, i: u32| build.print.procedures[i as usize].blocks.len();
        blocks(&self.old, old) + blocks(&self.new, new)
    }

    fn look_at(&self, pair: &Procedures) -> Option<Joined> {
        let (a, b) = (pair.pair.old, pair.pair.new);
        // At first all but those, then only what was found to belong.
        let mut choice = (Choice::AllBut(self.renamed.0.clone()), Choice::AllBut(self.renamed.1.clone()));
        let mut before: (Option<Half>, Option<Half>) = (None, None);
        for _ in 0..MOST_ROUNDS {
            let (old, new) = self.plans(pair, &choice);
            if old == Plan::plain(a) && new == Plan::plain(b) {
                return None;
            }
            let old = self.old.half(&self.readers.0, old, before.0.take());
            let new = self.new.half(&self.readers.1, new, before.1.take());
            let found = self.join(&old, &new, pair);
            let there = belonging(&old.spliced, &new.spliced, &found);
            let good = (old.spliced.good(&there.0), new.spliced.good(&there.1));
            if old.spliced.is_all(&good.0) && new.spliced.is_all(&good.1) {
                return Some(self.joined(old, new, &there, found));
            }
            choice = (Choice::Only(good.0), Choice::Only(good.1));
            before = (Some(old), Some(new));
        }
        None
    }

    /// What was found, with all that is inside of either where it belongs.
    fn joined(&self, old: Half, new: Half, there: &(Vec<bool>, Vec<bool>), found: Blocks) -> Joined {
        let sides = Sides { old: &old.procedure, new: &new.procedure, ids: self.ids };
        let (in_old, in_new) = (&old.spliced.blocks, &new.spliced.blocks);
        // What both have inside crossed no border here; debug information called none of these pairs right.
        let blocks = sides
            .block_pairs(&found)
            .filter(|pair| in_old[pair.old as usize].0 == 0 || in_new[pair.new as usize].0 == 0)
            .collect();
        let (mut old, mut new) = (old.spliced, new.spliced);
        old.count(self.old.print.module, &there.0);
        new.count(self.new.print.module, &there.1);
        Joined { old, new, blocks, partial: found.partial }
    }

    /// Two procedures and nothing else.
    fn alone(&self, old: u32, new: u32, how: How) -> Procedures {
        let sides = Sides {
            old: &self.old.print.procedures[old as usize],
            new: &self.new.print.procedures[new as usize],
            ids: self.ids,
        };
        let before = &self.old.print.module.functions[old as usize];
        let now = &self.new.print.module.functions[new as usize];
        let found = blocks::all(&sides, before, now);
        let blocks = sides.block_pairs(&found).collect();
        Procedures { pair: Pair { old, new, how }, blocks, partial: found.partial }
    }

    /// What of the callees of each may be inside of the other.
    fn plans(&self, pair: &Procedures, choice: &(Choice, Choice)) -> (Plan, Plan) {
        let (a, b) = (pair.pair.old, pair.pair.new);
        let mut to_new = vec![None; self.old.print.procedures[a as usize].blocks.len()];
        let mut to_old = vec![None; self.new.print.procedures[b as usize].blocks.len()];
        for block in pair.blocks.iter().filter(|block| is_sure(block.found)) {
            to_new[block.old as usize] = Some(block.new);
            to_old[block.new as usize] = Some(block.old);
        }
        let answers =
            |own: &Build<'_>, other: &Build<'_>, procedure: u32, map: &[Option<u32>], block: u32, callee| {
                map[block as usize].is_some_and(|at| {
                    let partner = own.partner[callee as usize];
                    other.sites[procedure as usize]
                        .iter()
                        .any(|site| site.block == at && Some(site.callee) == partner)
                })
            };
        let mut host = Host::new(&self.new, b, |block| to_old[block as usize].is_some());
        let old = if host.is_open() {
            let answers = |block, callee| answers(&self.old, &self.new, b, &to_new, block, callee);
            plan::plan(&self.old, a, &mut host, answers, &choice.0)
        } else {
            Plan::plain(a)
        };
        let mut host = Host::new(&self.old, a, |block| to_new[block as usize].is_some());
        let new = if host.is_open() {
            let answers = |block, callee| answers(&self.new, &self.old, a, &to_old, block, callee);
            plan::plan(&self.new, b, &mut host, answers, &choice.1)
        } else {
            Plan::plain(b)
        };
        (old, new)
    }

    /// Matches the blocks of two spliced procedures, beginning with what content says about the procedures themselves.
    fn join(&self, old: &Half, new: &Half, pair: &Procedures) -> Blocks {
        let (a, b) = (&old.procedure, &new.procedure);
        let sides = Sides { old: a, new: b, ids: self.ids };
        let (olds, news) = (old.spliced.own_places(), new.spliced.own_places());
        let mut pairs = Pairing::new(a.blocks.len(), b.blocks.len());
        for block in pair.blocks.iter().filter(|block| block.found != Found::ControlFlow) {
            pairs.pair(olds[block.old as usize], news[block.new as usize], block.found);
        }
        blocks::further(&sides, &old.spliced.function, &new.spliced.function, pairs)
    }
}

/// Which copies belong where they are. That both have the same inside tells nothing about that.
fn belonging(old: &Spliced, new: &Spliced, found: &Blocks) -> (Vec<bool>, Vec<bool>) {
    let telling = |(a, b, how): &(u32, u32, Found)| {
        let (a, b) = (old.blocks[*a as usize].0, new.blocks[*b as usize].0);
        *how != Found::ControlFlow && (a == 0 || b == 0)
    };
    let found = || found.pairs.pairs().filter(telling);
    (
        old.belonging(found().map(|(old, _, how)| (old, how))),
        new.belonging(found().map(|(_, new, how)| (new, how))),
    )
}

/// Whether a pair holds whatever else there may be to match.
fn is_sure(found: Found) -> bool {
    matches!(
        found,
        Found::Content(Level::Exact | Level::One | Level::Two | Level::Three | Level::LastOne | Level::Four)
    )
}

impl Spliced {
    /// Where each block of the function itself is: they keep their order.
    fn own_places(&self) -> Vec<u32> {
        self.blocks.iter().zip(0..).filter(|((copy, _), _)| *copy == 0).map(|(_, place)| place).collect()
    }

    /// Which copies have enough found inside of them, or of what is inside of them.
    fn belonging(&self, found: impl Iterator<Item = (u32, Found)>) -> Vec<bool> {
        let mut all = vec![0u32; self.copies.len()];
        for (block, &(copy, _)) in self.function.blocks.iter().zip(&self.blocks) {
            all[copy as usize] += block.insns;
        }
        let mut known = vec![(0u32, 0u32, 0u32); self.copies.len()];
        for (block, found) in found {
            let (known, same, sure) = &mut known[self.blocks[block as usize].0 as usize];
            let insns = self.function.blocks[block as usize].insns;
            *known += insns;
            if is_sure(found) {
                *same += insns;
                *sure += if insns >= plan::LEAST_INSNS { insns } else { 0 };
            }
        }
        let mut belongs = vec![false; self.copies.len()];
        for (i, copy) in self.copies.iter().enumerate().rev() {
            let (known, same, sure) = known[i];
            let share = f64::from(known) / f64::from(all[i].max(1));
            belongs[i] |= share >= LEAST_FOUND && sure >= LEAST_SURE
                || share >= MOSTLY_FOUND && sure > 0
                || share >= NEARLY_ALL_FOUND && all[i] >= LEAST_SURE && same >= LEAST_SAME;
            if let Some((outer, _)) = copy.call {
                belongs[outer as usize] |= belongs[i];
            }
        }
        belongs
    }

    /// Procedures of which a copy belongs where it is. Another one that does not is no reason against them.
    fn good(&self, belongs: &[bool]) -> HashSet<u32> {
        let good = self.copies.iter().zip(belongs).skip(1).filter(|(_, belongs)| **belongs);
        good.map(|(copy, _)| copy.procedure).collect()
    }

    fn is_all(&self, good: &HashSet<u32>) -> bool {
        self.copies.iter().skip(1).all(|copy| good.contains(&copy.procedure))
    }
}

impl Joined {
    /// Blocks that are in other procedures than before.
    pub fn moved(&self) -> impl Iterator<Item = Moved> + '_ {
        self.blocks.iter().filter_map(|pair| {
            let (a, old) = self.old.blocks[pair.old as usize];
            let (b, new) = self.new.blocks[pair.new as usize];
            let kind = match (a, b) {
                (0, 0) => return None,
                (_, 0) => Kind::Inlined,
                _ => Kind::Outlined,
            };
            let (a, b) = (self.old.copies[a as usize].procedure, self.new.copies[b as usize].procedure);
            Some(Moved { kind, old: (a, old), new: (b, new), found: pair.found })
        })
    }

    /// Replaces the pairs of two procedures by what is found of them here.
    fn put(&self, procedures: &mut Procedures) {
        let own = |old: u32, new: u32| match (self.old.blocks[old as usize], self.new.blocks[new as usize]) {
            ((0, old), (0, new)) => Some((old, new)),
            _ => None,
        };
        procedures.blocks = self
            .blocks
            .iter()
            .filter_map(|pair| {
                let (old, new) = own(pair.old, pair.new)?;
                Some(BlockPair { old, new, ..*pair })
            })
            .collect();
        procedures.blocks.sort_unstable_by_key(|pair| pair.new);
        procedures.partial = self
            .partial
            .iter()
            .filter_map(|&(new, old)| own(old, new).map(|(old, new)| (new, old)))
            .collect();
    }
}
