//! Plans: what of a new build is to be measured again. What `relive migrate`, `instrument`, `merge` and `reprofile` share.

use crate::constructs::classes;
use crate::matching::fingerprint;
use crate::profiles;
use crate::remedy::with_remedy;
use crate::sources::Compared;
use anyhow::{Context as _, Result, bail};
use relive_image::loader::open_file;
use relive_impact::analyses::{Aggressive, Analysis, Bohner, Hybrid, Slicing};
use relive_impact::constructs::Level;
use relive_impact::significance::Weights;
use relive_impact::{Builds, Changes};
use relive_matching::{Matching, match_builds};
use relive_migrate::carry::{Likelihood, Old, carry};
use relive_migrate::reprofile::behaviour::{About, Behaviour, Knowledge};
use relive_migrate::reprofile::checked::{Check, Known, candidates};
use relive_migrate::reprofile::discriminate::discriminate;
use relive_migrate::reprofile::plan::{Map, Plan};
use relive_migrate::reprofile::price::Budget;
use relive_profile::model::Module;
use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// How to find out what changes can affect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Impact {
    /// Functions with changes, and all they may call
    Ba,
    /// Functions with changes
    Ag,
    /// What depends on changes, by slices of both builds: sound, and wary
    Sl,
    /// Sl if more than --threshold of the program changed, else ag
    Hybrid,
    /// What costs little to count (--budget); of the rest, what a checked run of the new build counts differently, and
    /// functions with changes it did not come to
    Checked,
}

/// What decides what is measured again.
#[derive(clap::Args, Clone)]
pub(crate) struct Choice {
    /// The sources of the old build: with --new-source, functions of which nothing changed there have not changed
    #[arg(long, value_name = "DIR", requires = "new_source", help_heading = "What is measured again")]
    pub(crate) old_source: Option<PathBuf>,

    /// The sources of the new build
    #[arg(long, value_name = "DIR", requires = "old_source", help_heading = "What is measured again")]
    pub(crate) new_source: Option<PathBuf>,

    /// How to find out what changes can affect
    #[arg(long, value_enum, default_value_t = Impact::Ag, help_heading = "What is measured again")]
    pub(crate) impact: Impact,

    /// With --impact hybrid: the share of the program that must have changed for sl to be used
    #[arg(long, value_name = "SHARE", default_value_t = relive_impact::analyses::THRESHOLD,
        help_heading = "What is measured again")]
    pub(crate) threshold: f64,

    /// With --impact hybrid: what kinds of statements (call, branch, other) and of changes (changed, added, deleted) count for in that
    /// share, 1 if nothing is said. With sources, statements all count the same
    #[arg(long, value_name = "KIND=NUMBER", value_delimiter = ',', help_heading = "What is measured again")]
    pub(crate) weigh: Vec<String>,

    /// What the profile is about: edges, loops, call-graph, call-frequencies, call-sequence, strides,
    /// reuse-distances, or a behaviour that --knowledge adds
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "edges",
        help_heading = "What is measured again"
    )]
    pub(crate) behaviour: Vec<String>,

    /// The smallest constructs whose entries are taken over by themselves: statement, loop, function, class,
    /// program, or its number from 0 on. For behaviours nobody knows, and to be more careful with others
    #[arg(long, value_name = "LEVEL", help_heading = "What is measured again")]
    pub(crate) granularity: Option<String>,

    /// More behaviours: a JSON list of {"behaviour", "granularity", "order", "nesting"}
    #[arg(long, value_name = "FILE", help_heading = "What is measured again")]
    pub(crate) knowledge: Option<PathBuf>,

    /// With --behaviour call-sequence: the sequence of the old build. Functions of which it may not tell what they call in the new
    /// one are measured, so that `relive merge --plan` finds all it needs
    #[arg(long, value_name = "RCALLS", help_heading = "What is measured again")]
    pub(crate) sequence: Option<PathBuf>,

    /// With --impact checked: what the old build and the new build, measured in full, did on the same input. May be
    /// given several times
    #[arg(long, num_args = 2, value_names = ["OLD", "FRESH"], action = clap::ArgAction::Append,
        help_heading = "What is measured again")]
    pub(crate) check: Vec<PathBuf>,

    /// With --impact checked: count what is cheap in any case, up to this share of what it costs to count everything
    #[arg(long, value_name = "SHARE", default_value_t = BUDGET, value_parser = share,
        help_heading = "What is measured again")]
    pub(crate) budget: f64,

    /// With --impact checked: measure what does not hold up to this share of the increments it takes to count everything. Beyond that, the
    /// dearest entries stay as they were, though they do not hold: the plan names them
    #[arg(long, value_name = "SHARE", default_value_t = LIMIT, value_parser = share,
        help_heading = "What is measured again")]
    pub(crate) limit: f64,
}

/// With what is counted in any case, a quarter of the cost: three quarters are saved whatever changed. What is left out then are few
/// entries, as a program spends its time in few places.
const LIMIT: f64 = 0.2;

/// A twentieth leaves the rest of the time to be saved, and is enough for most entries (`relive-benchmarks profmig`).
const BUDGET: f64 = 0.05;

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "a number from 0 to 1".to_owned())
}

impl Choice {
    /// The behaviours that are meant.
    pub(crate) fn behaviours(&self) -> Result<Vec<Behaviour>> {
        let mut knowledge = Knowledge::default();
        if let Some(path) = &self.knowledge {
            knowledge.extend(&read(path)?).with_context(|| path.display().to_string())?;
        }
        let granularity = self.granularity.as_deref().map(level).transpose()?;
        self.behaviour
            .iter()
            .map(|name| match (knowledge.find(name), granularity) {
                (Some(known), granularity) => {
                    let granularity = granularity.map_or(known.granularity, |g| g.max(known.granularity));
                    Ok(Behaviour { granularity, ..known.clone() })
                }
                (None, Some(granularity)) => Ok(Behaviour {
                    name: name.clone(),
                    granularity,
                    order: false,
                    nesting: false,
                    about: About::Blocks,
                    values: true,
                }),
                (None, None) => bail!(
                    "--behaviour {name}: not known; say with --granularity how finely such a profile can be taken \
                     apart, or add it with --knowledge (known are {})",
                    knowledge.names().join(", ")
                ),
            })
            .collect()
    }
}

fn level(text: &str) -> Result<Level> {
    Level::parse(text).with_context(|| {
        format!(
            "--granularity {text}: levels are {}, or 0 to 4",
            Level::ALL.map(|level| level.name).join(", ")
        )
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)
        .map_err(with_remedy)?
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

/// Reads a plan.
pub(crate) fn open(path: &Path) -> Result<Plan> {
    Plan::read(&read(path)?).with_context(|| path.display().to_string())
}

/// What the old and the new build did on the same input.
pub(crate) struct CheckedRun {
    pub(crate) old: Module,
    /// Where that is from.
    pub(crate) old_path: PathBuf,
    pub(crate) fresh: Module,
}

/// An old profile and what is to come of it.
pub(crate) struct Planning<'a> {
    pub(crate) old: &'a Module,
    pub(crate) new: &'a Module,
    pub(crate) matching: &'a Matching,
    /// The old profile, carried over to the new build.
    pub(crate) carried: &'a Module,
    /// Where the new build is.
    pub(crate) to: &'a Path,
    pub(crate) likely: &'a Likelihood<'a>,
}

impl Planning<'_> {
    /// Decides what is measured again, by what `choice` says and by runs that were `checked` already.
    pub(crate) fn plan(&self, choice: &Choice, checked: Vec<CheckedRun>) -> Result<Plan> {
        let behaviours = choice.behaviours()?;
        let behaviours: Vec<&Behaviour> = behaviours.iter().collect();
        let builds = Builds::new(self.old, self.new, self.matching);
        let mut changes = Changes::of_builds(&builds);
        let mut weights = Weights::default();
        for weight in &choice.weigh {
            weights.set(weight).context("--weigh")?;
        }
        changes.weigh(&builds, &weights);
        if let (Some(old), Some(new)) = (&choice.old_source, &choice.new_source) {
            let sources = Compared::read(old, new)?;
            sources.check((self.old, old), (self.new, new))?;
            changes.take_back(&builds, &|old, new| {
                let (old, new) = (&self.old.functions[old as usize], &self.new.functions[new as usize]);
                sources.is_same((self.old, old), (self.new, new))
            });
            changes.significance = sources.significance(&weights);
        }
        let values = behaviours.iter().any(|behaviour| behaviour.values);
        let slicing = Slicing { values, measured: true };
        let hybrid = Hybrid {
            above: Slicing { values, measured: true },
            below: Aggressive,
            threshold: choice.threshold,
        };
        let analysis: &dyn Analysis = match choice.impact {
            Impact::Ba => &Bohner,
            Impact::Ag | Impact::Checked => &Aggressive,
            Impact::Sl => &slicing,
            Impact::Hybrid => &hybrid,
        };
        let affected = analysis.affected(&builds, &changes);
        let (name, decisions) = if choice.impact == Impact::Checked {
            let budget = Budget::new(self.carried, &behaviours, choice.budget).within(choice.limit);
            let runs = self.checks(choice, checked, &behaviours, budget)?;
            let checks: Vec<Check<'_>> =
                runs.iter().map(|(carried, fresh)| Check { carried, fresh }).collect();
            let (carried, behaviours) = (self.carried, &behaviours[..]);
            let blocks = &changes.new;
            let known = Known { builds: &builds, changed: &affected, blocks, carried, behaviours, budget };
            ("checked", known.check(&checks))
        } else {
            (analysis.name(), discriminate(&builds, &affected, &behaviours, &classes()))
        };
        let names = behaviours.iter().map(|behaviour| behaviour.name.clone()).collect();
        let mut plan = Plan::new(self.old, self.carried, name, names, changes.significance, &decisions);
        if behaviours.iter().any(|behaviour| behaviour.values || behaviour.order) {
            plan.map = Some(Map::of(&builds, &changes));
        }
        if let Some(old) = &choice.sequence {
            if plan.map.is_none() {
                bail!("--sequence is for --behaviour call-sequence, which is not asked for");
            }
            let required = crate::sequence::required(old, &plan, self.carried)?;
            plan.measure_too(&required, "its executions do not all make the same calls");
        }
        Ok(plan)
    }

    /// What a checked run of the new build has to count, by addresses of functions and blocks.
    pub(crate) fn candidates(&self, choice: &Choice) -> Result<HashMap<u64, HashSet<u64>>> {
        let behaviours = choice.behaviours()?;
        let behaviours: Vec<&Behaviour> = behaviours.iter().collect();
        let budget = Budget::new(self.carried, &behaviours, choice.budget).within(choice.limit);
        Ok(candidates(self.carried, &behaviours, budget))
    }

    /// What was expected of checked runs of the new build, and what they did.
    fn checks(
        &self,
        choice: &Choice,
        mut checked: Vec<CheckedRun>,
        behaviours: &[&Behaviour],
        budget: Budget,
    ) -> Result<Vec<(Module, Module)>> {
        if checked.is_empty()
            && choice.check.is_empty()
            && !candidates(self.carried, behaviours, budget).is_empty()
        {
            bail!(
                "--impact checked needs a run to go by: --check OLD FRESH, profiles of the old and the new build on \
                 the same input, a short one"
            );
        }
        for pair in choice.check.chunks_exact(2) {
            let [old_path, fresh_path] = pair else { bail!("--check takes two profiles") };
            let old = crate::build::choose(profiles::open(old_path)?.modules, old_path, self.to)?;
            let fresh = crate::build::choose(profiles::open(fresh_path)?.modules, fresh_path, self.to)?;
            if fresh.build_id != self.new.build_id {
                bail!(
                    "{}: not a profile of {}; --check takes one of the old build and one of the new build",
                    fresh_path.display(),
                    self.to.display()
                );
            }
            checked.push(CheckedRun { old, old_path: old_path.clone(), fresh });
        }
        checked
            .into_iter()
            .map(|CheckedRun { old, old_path, fresh }| {
                let own;
                let matching = if old.checksum == self.old.checksum {
                    self.matching
                } else {
                    own = match_builds(&fingerprint(&old, &old_path)?, &fingerprint(self.new, self.to)?);
                    &own
                };
                let carried = carry(self.new.clone(), &[Old { module: &old, matching }], self.likely);
                Ok((carried, fresh))
            })
            .collect()
    }
}
