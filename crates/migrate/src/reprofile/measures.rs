//! How good a migration is: the paper's Acc, precision, recall, F-measure and TS (section 5).

use super::behaviour::About;
use super::entries::{self, Entry};
use relive_profile::model::{Function, Module};
use std::collections::HashMap;

/// What became of the entries of one behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures {
    /// Entries of the real profile: those that counted something.
    pub real: u64,
    /// Of these, how many have the right count in the merged profile.
    pub right: u64,
    /// Entries that were said to be reusable.
    pub reused: u64,
    /// Of these, how many really are.
    pub truly: u64,
    /// Entries that are reusable and were not said to be.
    pub missed: u64,
    /// Entries that differ from one fresh run to the next: they have no right count, and are in none of the others.
    pub random: u64,
}

impl Measures {
    /// Acc: right entries of all in the real profile.
    #[must_use]
    pub fn accuracy(self) -> f64 {
        ratio(self.right, self.real)
    }

    /// Of what was said to be reusable, how much is.
    #[must_use]
    pub fn precision(self) -> f64 {
        ratio(self.truly, self.reused)
    }

    /// Of what is reusable, how much was found.
    #[must_use]
    pub fn recall(self) -> f64 {
        ratio(self.truly, self.truly + self.missed)
    }

    /// Both in one.
    #[must_use]
    pub fn f_measure(self) -> f64 {
        let (precision, recall) = (self.precision(), self.recall());
        if precision + recall == 0.0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            real: self.real + other.real,
            right: self.right + other.right,
            reused: self.reused + other.reused,
            truly: self.truly + other.truly,
            missed: self.missed + other.missed,
            random: self.random + other.random,
        }
    }
}

/// TS: what of the time was saved. With profiling taking `full` seconds without migration, and `migrated` with it, everything
/// that migration takes included.
#[must_use]
pub fn time_saved(full: f64, migrated: f64) -> f64 {
    if full == 0.0 { 0.0 } else { (full - migrated) / full }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// The profiles a migration is judged by, all of the new build.
pub struct Judged<'a> {
    /// The old profile, carried over.
    pub carried: &'a Module,
    /// What came out.
    pub merged: &'a Module,
    /// What is right.
    pub fresh: &'a Module,
    /// The same again, any number of times: entries in which two runs differ have no right count.
    pub again: &'a [Module],
}

/// An entry that was said to be reusable, and is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistaken {
    /// Which one.
    pub entry: Entry,
    /// Its old count, carried over.
    pub old: u64,
    /// What it is.
    pub real: u64,
}

/// Judges a migration by one behaviour. `is_reused` tells of a function, by address, and one of its entries whether its old count was said to hold;
/// `mistaken` hears of each one that was wrongly said to.
pub fn judge(
    profiles: &Judged<'_>,
    about: About,
    is_reused: &dyn Fn(&Function, Entry) -> bool,
    mistaken: &mut dyn FnMut(&Function, Mistaken),
) -> Measures {
    let at = |module: &'_ Module| -> HashMap<u64, usize> {
        module.functions.iter().enumerate().map(|(i, f)| (f.address, i)).collect()
    };
    let (merged, carried) = (at(profiles.merged), at(profiles.carried));
    let again: Vec<_> = profiles.again.iter().map(|module| (module, at(module))).collect();
    let mut measures = Measures::default();
    for fresh in &profiles.fresh.functions {
        let find = |module: &'_ Module, of: &HashMap<u64, usize>, entry: Entry| -> u64 {
            let function = of.get(&fresh.address).map(|&i| &module.functions[i]);
            function.and_then(|function| entry.count(function)).unwrap_or(0)
        };
        for entry in entries::of(fresh, about) {
            let Some(real) = entry.count(fresh) else { continue };
            let old = find(profiles.carried, &carried, entry);
            if again.iter().any(|(module, of)| find(module, of, entry) != real) {
                measures.random += 1;
                continue;
            }
            if real == 0 && old == 0 {
                continue;
            }
            measures.real += u64::from(real > 0);
            measures.right += u64::from(real > 0 && find(profiles.merged, &merged, entry) == real);
            let holds = old == real;
            let reused = is_reused(fresh, entry);
            measures.reused += u64::from(reused);
            measures.truly += u64::from(reused && holds);
            measures.missed += u64::from(!reused && holds);
            if reused && !holds {
                mistaken(fresh, Mistaken { entry, old, real });
            }
        }
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_paper() {
        // 100 loops, 80 said to be reusable, 75 of them rightly; of the other 20, 10 were reusable.
        let measures = Measures { real: 100, right: 95, reused: 80, truly: 75, missed: 10, random: 0 };
        assert!((measures.accuracy() - 0.95).abs() < 1e-9);
        assert!((measures.precision() - 75.0 / 80.0).abs() < 1e-9);
        assert!((measures.recall() - 75.0 / 85.0).abs() < 1e-9);
        assert!((measures.f_measure() - 2.0 * 0.9375 * 0.882_352_94 / (0.9375 + 0.882_352_94)).abs() < 1e-6);
        assert!((time_saved(10.0, 2.5) - 0.75).abs() < 1e-9);
    }
}
