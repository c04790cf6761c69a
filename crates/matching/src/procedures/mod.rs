//! Matches procedures and data of two builds.
//!
//! | step | file |
//! |---|---|
//! | identical names, with types and without | `names` |
//! | identical code at ever fuzzier levels | `hashes` |
//! | beyond BMAT: what matched code refers to at the same place | `votes` |
//! | beyond BMAT: what lies between neighbours that are partners | `order` |
//! | similar names, similar code | `similar`; how alike two procedures are: `sketch` |

mod hashes;
mod names;
mod order;
mod similar;
mod sketch;
mod votes;

use crate::data;
use crate::fingerprint::{Fingerprint, Reference};
use crate::identity::Both;
use crate::pairing::Pairing;
use relive_profile::model::Level;
use sketch::Likeness;
pub(crate) use votes::Vote;
use votes::Votes;

/// How a pair of procedures was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// The same name in the symbol table.
    Name,
    /// The same name without parameters and suffixes.
    Hierarchical,
    /// The same code at that level.
    Hash(Level),
    /// Code that matched refers to them at the same place.
    Reference,
    /// They lie between procedures that are partners.
    Order,
    /// Their names are similar, and their code as well.
    SimilarName,
    /// Their code is similar.
    Similar,
    /// Their code is similar with what they call inside.
    Across,
    /// Calls of the old one became calls of it, and the code is similar.
    Clone,
}

impl How {
    /// A short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Hierarchical => "hierarchical",
            Self::Hash(level) => level.name(),
            Self::Reference => "reference",
            Self::Order => "order",
            Self::SimilarName => "similar-name",
            Self::Similar => "s",
            Self::Across => "across",
            Self::Clone => "clone",
        }
    }
}

/// How many procedures have a partner after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What was done.
    pub name: &'static str,
    /// How many pairs there are then.
    pub matched: usize,
}

/// Procedures and data of two builds being matched.
pub(crate) struct Search<'a> {
    pub(crate) old: &'a Fingerprint<'a>,
    pub(crate) new: &'a Fingerprint<'a>,
    pub(crate) procedures: Pairing<How>,
    pub(crate) data: Pairing<data::How>,
    pub(crate) ids: Both,
    pub(crate) stages: Vec<Stage>,
    likeness: Likeness,
    votes: Votes,
    /// Smaller code is not matched by its hash: first only what is [`LARGE`] is, in the end everything.
    least_insns: u32,
}

/// Rounds of looking at what new partners refer to: each finds what is one call further away.
const MOST_ROUNDS: usize = 12;

/// Code of this many instructions is hardly ever the same by chance. What is smaller waits for better reasons: who
/// refers to it, and what it lies between.
const LARGE: u32 = 16;

impl<'a> Search<'a> {
    pub(crate) fn new(old: &'a Fingerprint<'a>, new: &'a Fingerprint<'a>) -> Self {
        Self {
            old,
            new,
            procedures: Pairing::new(old.procedures.len(), new.procedures.len()),
            data: Pairing::new(old.data.len(), new.data.len()),
            ids: Both::new(old, new),
            stages: Vec::new(),
            likeness: Likeness::new(old, new),
            votes: Votes::new(new.procedures.len(), new.data.len()),
            least_insns: LARGE,
        }
    }

    pub(crate) fn run(&mut self) {
        names::identical(self);
        self.stage("identical names");
        names::hierarchical(self);
        self.stage("hierarchical names");
        data::by_name(self);
        data::by_content(self);
        self.note();
        // Identical code first, and what follows from it: it is almost never wrong.
        for level in [Level::Exact, Level::One] {
            hashes::unique(self, level);
            self.follow();
        }
        order::equal(self);
        self.follow();
        self.least_insns = 0;
        for level in [Level::Exact, Level::One] {
            hashes::unique(self, level);
            self.follow();
            hashes::equal(self, level);
            self.follow();
            self.stage(level_name(level));
        }
        names::namesakes(self);
        self.follow();
        self.stage("namesakes");
        for level in [Level::Three, Level::LastOne, Level::Five, Level::LastThree] {
            hashes::unique(self, level);
            self.stage(level_name(level));
        }
        self.follow();
        self.stage("references");
        similar::names(self);
        self.stage("similar names");
        // What is surely similar first: what follows from it keeps the rest from going astray.
        for likeness in [order::SURE, order::LIKELY] {
            for _ in 0..MOST_ROUNDS {
                let before = self.procedures.len();
                order::run(self, likeness);
                similar::code(self);
                self.follow();
                if self.procedures.len() == before {
                    break;
                }
            }
        }
        self.stage("similar code");
        data::in_between(self);
        self.note();
    }

    /// Takes note of new partners: references to them mean the same now.
    fn note(&mut self) {
        self.ids.update(&self.procedures, &self.data);
        self.likeness.forget_references();
    }

    /// Looks at what partners refer to until nothing follows any more.
    fn follow(&mut self) {
        for _ in 0..MOST_ROUNDS {
            self.note();
            let found = votes::run(self) + hashes::unique(self, Level::One);
            if found == 0 {
                break;
            }
        }
        self.note();
    }

    fn stage(&mut self, name: &'static str) {
        self.stages.push(Stage { name, matched: self.procedures.len() });
    }

    /// Whether neither of what two references mean has a partner.
    pub(crate) fn is_open(&self, old: Reference, new: Reference) -> bool {
        match (old, new) {
            (Reference::Procedure(a, _), Reference::Procedure(b, _)) => self.procedures.is_open(a, b),
            (Reference::Data(a, _), Reference::Data(b, _)) => self.data.is_open(a, b),
            _ => false,
        }
    }

    /// Whether two references are known to mean the same, or not the same; `None` if that is open.
    pub(crate) fn agree(&self, old: Option<Reference>, new: Option<Reference>) -> Option<bool> {
        match (old, new) {
            (Some(old), Some(new)) if self.is_open(old, new) => None,
            (Some(Reference::Procedure(a, _)), Some(Reference::Procedure(b, _))) => {
                Some(self.procedures.of_old(a) == Some(b))
            }
            (Some(Reference::Data(a, _)), Some(Reference::Data(b, _))) => {
                Some(self.data.of_old(a) == Some(b))
            }
            (None, None) => None,
            _ => Some(false),
        }
    }

    /// How alike the code of two procedures is, from 0 to 1.
    fn alike(&mut self, old: u32, new: u32) -> f64 {
        let (a, b) = (&self.old.procedures[old as usize], &self.new.procedures[new as usize]);
        self.likeness.of_code((old, a), (new, b))
    }

    /// How alike their code and what they refer to is, from 0 to 1.
    fn likeness(&mut self, old: u32, new: u32) -> f64 {
        let code = self.alike(old, new);
        let (a, b) = (&self.old.procedures[old as usize], &self.new.procedures[new as usize]);
        match self.likeness.of_references((old, a), (new, b), &self.ids) {
            Some(references) => f64::midpoint(code, references),
            None => code,
        }
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Exact => "hash 0",
        Level::One => "hash 1",
        Level::LastOne => "hash 1a",
        Level::Three => "hash 3",
        Level::LastThree => "hash 3a",
        Level::Five => "hash 5",
        _ => "hash",
    }
}
