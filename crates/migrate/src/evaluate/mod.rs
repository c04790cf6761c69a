//! How good a carried profile is, by one that was measured on the same build: the *fresh* one.
//!
//! Two figures are BMAT's (Wang, Pierce, McFarling 2000, section 4.3), B.P. and C.C.; the others are finer. What the
//! fresh profile does not know cannot be judged, and is left out of all of them.
//!
//! | figure | says |
//! |---|---|
//! | [`Branches`] | B.P.: how well it predicts branches, next to what the fresh profile achieves |
//! | [`Coverage`] | C.C.: the share of blocks of which it knows whether they run |
//! | [`Overlap`] | how much of the fresh counts is where it says |
//! | [`Matched`] | how much of them lies in blocks that were matched, and not made up |
//! | [`Targets`] | the same for where indirect calls lead |
//! | [`Trips`] | how often loops go round |

mod branches;
mod coverage;
mod matched;
mod overlap;
mod pair;
#[cfg(test)]
mod sample;
mod targets;
mod trips;

pub use branches::Branches;
pub use coverage::Coverage;
pub use matched::Matched;
pub use overlap::Overlap;
pub use targets::Targets;
pub use trips::{CLOSE, Trips};

use pair::{Pair, pair_functions, pair_modules};
use relive_profile::model::{Count, Function, Module, Profile};

/// Why two profiles cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// They are of other programs, or of other builds.
    #[error("the profiles have no build in common")]
    OtherBuild,
    /// No block has a count above zero in the carried one.
    #[error("the carried profile counts nothing")]
    EmptyCarried,
    /// The same for the fresh one.
    #[error("the fresh profile counts nothing")]
    EmptyFresh,
}

/// All figures.
#[derive(Clone, Debug)]
pub struct Evaluation<'p> {
    /// What was compared: the modules that both profiles have, as the fresh one has them.
    pub modules: Vec<&'p Module>,
    /// B.P.
    pub branches: Branches,
    /// C.C.
    pub coverage: Coverage,
    /// Of the counts of blocks.
    pub blocks: Overlap,
    /// Of the counts of edges.
    pub edges: Overlap,
    /// Of the instructions that blocks executed.
    pub instructions: Overlap,
    /// Whether blocks were matched.
    pub matched: Matched,
    /// Where indirect calls lead.
    pub targets: Targets,
    /// How often loops go round.
    pub trips: Trips,
    /// What each function costs, in the order of the fresh profile.
    pub losses: Vec<Loss<'p>>,
    /// Blocks that only one of the profiles has.
    pub strangers: Strangers,
}

/// What a function costs.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'p> {
    /// The module it is in.
    pub module: &'p Module,
    /// Which.
    pub function: &'p Function,
    /// How many predictions were right by the fresh profile, and are wrong.
    pub predictions: u64,
    /// How many blocks are said to run and do not, or the other way around.
    pub blocks: u64,
    /// What it takes from the overlap of block counts.
    pub overlap: f64,
}

/// Blocks that one profile has and the other has not, because another version of the tool understood the code
/// differently. They have no count in the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strangers {
    /// Those of the carried one, of which nothing can be said.
    pub carried: u64,
    /// Those of the fresh one, which count as not covered.
    pub fresh: u64,
}

/// Compares a carried profile with a fresh one.
///
/// # Errors
/// If there is nothing to compare.
pub fn evaluate<'p>(carried: &'p Profile, fresh: &'p Profile) -> Result<Evaluation<'p>, Incomparable> {
    let modules = pair_modules(carried, fresh);
    if modules.is_empty() {
        return Err(Incomparable::OtherBuild);
    }
    let mut strangers = Strangers::default();
    let mut pairs = Vec::new();
    for (carried, fresh) in &modules {
        let (functions, without) = pair_functions(carried, fresh);
        pairs.extend(functions);
        strangers.carried += without.carried;
        strangers.fresh += without.fresh;
    }
    let counts_something = |count: Option<Count>| count.is_some_and(|count| count.value() > 0);
    if !pairs.iter().any(|pair| pair.fresh.blocks.iter().any(|block| counts_something(block.count))) {
        return Err(Incomparable::EmptyFresh);
    }
    if !pairs.iter().any(|pair| pair.carried.blocks.iter().any(|block| counts_something(block.count))) {
        return Err(Incomparable::EmptyCarried);
    }
    let (blocks, edges) = (Overlap::of(&pairs, Pair::block_counts), Overlap::of(&pairs, Pair::edge_counts));
    let instructions = Overlap::of(&pairs, Pair::instructions);
    let mut sum = Evaluation {
        modules: modules.iter().map(|&(_, fresh)| fresh).collect(),
        branches: Branches::default(),
        coverage: Coverage::default(),
        blocks,
        edges,
        instructions,
        matched: Matched::default(),
        targets: Targets::of(&modules),
        trips: Trips::default(),
        losses: Vec::with_capacity(pairs.len()),
        strangers,
    };
    for (i, pair) in pairs.iter().enumerate() {
        let (branches, coverage) = (Branches::of(pair), Coverage::of(pair));
        sum.branches.add(branches);
        sum.coverage.add(coverage);
        sum.matched.add(Matched::of(pair));
        sum.trips.add(Trips::of(pair));
        sum.losses.push(Loss {
            module: pair.module,
            function: pair.fresh,
            predictions: branches.right_fresh - branches.right_carried,
            blocks: coverage.blocks - coverage.agreed(),
            overlap: sum.blocks.losses.get(i).copied().unwrap_or(0.0),
        });
    }
    Ok(sum)
}

impl<'p> Evaluation<'p> {
    /// The functions that cost the most by `loss`, the worst first, at most `most`; none that costs nothing.
    #[must_use]
    pub fn worst(&self, most: usize, loss: impl Fn(&Loss<'p>) -> f64) -> Vec<Loss<'p>> {
        let mut losses: Vec<_> = self.losses.iter().filter(|one| loss(one) > 0.0).copied().collect();
        losses.sort_by(|a, b| loss(b).total_cmp(&loss(a)).then(a.function.address.cmp(&b.function.address)));
        losses.truncate(most);
        losses
    }
}

/// A part of a whole, if there is any.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::sample::{profile, set_blocks, set_edges};
    use super::*;
    use relive_profile::model::{Confidence, Origin};

    #[test]
    fn a_profile_is_as_good_as_itself() {
        let fresh = profile();
        let found = evaluate(&fresh, &fresh).expect("comparable");
        assert_eq!(found.branches.metric(), Some(1.0));
        assert_eq!(found.coverage.metric(), Some(1.0));
        for overlap in [&found.blocks, &found.edges, &found.instructions] {
            assert_eq!(overlap.metric(), Some(1.0));
        }
        assert_eq!((found.matched.metric(), found.targets.overlap), (Some(1.0), Some(1.0)));
        assert_eq!(found.trips.metric(), Some(1.0));
        assert_eq!(found.strangers, Strangers::default());
        assert!(found.worst(10, |loss| loss.overlap + (loss.blocks + loss.predictions) as f64).is_empty());
    }

    #[test]
    fn the_worst_come_first() {
        let (mut carried, fresh) = (profile(), profile());
        // In the first function the loop never goes round; the second is said not to run.
        set_edges(&mut carried, 0, &[10, 10, 0, 10, 10]);
        set_blocks(&mut carried, 0, &[10, 10, 10]);
        set_edges(&mut carried, 1, &[0, 0]);
        set_blocks(&mut carried, 1, &[0]);
        let found = evaluate(&carried, &fresh).expect("comparable");
        let names = |losses: Vec<Loss<'_>>| -> Vec<String> {
            losses.iter().map(|loss| loss.module.name(loss.function).to_string()).collect()
        };
        assert_eq!(names(found.worst(10, |loss| loss.predictions as f64)), ["looping"]);
        assert_eq!(names(found.worst(10, |loss| loss.blocks as f64)), ["straight"]);
        // Fresh: 10, 100, 10 and 40 of 160; carried: a third each. The loop lost 100/160 - 1/3, the second all.
        let worst = found.worst(10, |loss| loss.overlap);
        assert!((worst[0].overlap - (100.0 / 160.0 - 1.0 / 3.0)).abs() < 1e-12);
        assert!((worst[1].overlap - 40.0 / 160.0).abs() < 1e-12);
        assert_eq!(names(found.worst(1, |loss| loss.overlap)), ["looping"]);
        assert_eq!(names(worst), ["looping", "straight"]);
        assert!(found.worst(0, |loss| loss.overlap).is_empty());
    }

    #[test]
    fn what_cannot_be_compared() {
        let fresh = profile();
        let mut other = profile();
        other.modules[0].build_id = vec![9];
        assert_eq!(evaluate(&other, &fresh).err(), Some(Incomparable::OtherBuild));
        assert_eq!(evaluate(&Profile::default(), &fresh).err(), Some(Incomparable::OtherBuild));
        let mut empty = profile();
        for function in &mut empty.modules[0].functions {
            function
                .blocks
                .iter_mut()
                .for_each(|block| block.count = block.count.map(|_| Count::measured(0)));
        }
        assert_eq!(evaluate(&empty, &fresh).err(), Some(Incomparable::EmptyCarried));
        assert_eq!(evaluate(&fresh, &empty).err(), Some(Incomparable::EmptyFresh));
    }

    #[test]
    fn what_is_inferred_is_not_matched() {
        let (mut carried, fresh) = (profile(), profile());
        let blocks = &mut carried.modules[0].functions[0].blocks;
        let confidence = Confidence::new(50);
        blocks[0].count = Some(Count { raw: 10, origin: Origin::ControlFlow, confidence });
        blocks[1].count = Some(Count { raw: 100, origin: Origin::Inferred, confidence });
        let found = evaluate(&carried, &fresh).expect("comparable");
        assert_eq!(found.matched, Matched { counts: 160, matched: 50, control_flow: 10 });
        assert_eq!(found.matched.metric(), Some(50.0 / 160.0));
        assert_eq!(found.matched.with_control_flow(), Some(60.0 / 160.0));
    }
}
