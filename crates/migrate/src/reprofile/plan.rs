//! The plan: what of a new build is to be measured, and what of an old profile is taken over. A file that people can read.

use super::discriminate::Decision;
use super::entries::Entry;
use relive_impact::{Builds, Changes};
use relive_profile::model::{Call, CalledBy, Function, Module};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The version of the file.
pub const VERSION: u32 = 1;

/// What to measure, and what not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`VERSION`].
    pub relive_plan: u32,
    /// The build that was measured.
    pub old: Build,
    /// The build that is to be measured.
    pub new: Build,
    /// How what changes can affect was found out.
    pub impact: String,
    /// The behaviours it is about.
    pub behaviours: Vec<String>,
    /// How much of the program changed, from 0 to 1.
    pub significance: f64,
    /// Functions whose old entries hold: nothing of them is measured.
    pub exempt: Vec<Listed>,
    /// Functions that are measured, and why.
    pub measure: Vec<Measured>,
    /// What would have to be measured, and is not, as it costs too much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dear: Vec<Dear>,
    /// What of the old build is what of the new one, for behaviours that traces tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<Map>,
}

/// What of the old build is what of the new one, by address as linked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// Functions: old and new.
    pub functions: Vec<(u64, u64)>,
    /// Instructions that call: old and new.
    pub sites: Vec<(u64, u64)>,
    /// Blocks of the same length that do the same: old, length, new.
    pub code: Vec<(u64, u64, u64)>,
}

impl Map {
    /// What follows from matching and changes.
    #[must_use]
    pub fn of(builds: &Builds<'_>, changes: &Changes) -> Self {
        let mut map = Self::default();
        for pair in &builds.matching.procedures {
            let (i, j) = (pair.pair.old, pair.pair.new);
            let (old, new) = (&builds.old.functions[i as usize], &builds.new.functions[j as usize]);
            map.functions.push((old.address, new.address));
            for blocks in &pair.blocks {
                let call = |function: &Function, block: u32| {
                    let by = |call: &&Call| call.by == CalledBy::Block(block);
                    function.calls.iter().find(by).map(|call| call.address)
                };
                if let (Some(a), Some(b)) = (call(old, blocks.old), call(new, blocks.new)) {
                    map.sites.push((a, b));
                }
                let (a, b) = (&old.blocks[blocks.old as usize], &new.blocks[blocks.new as usize]);
                if a.size == b.size && !changes.new.contains(j, blocks.new) {
                    map.code.push((a.address, a.size.into(), b.address));
                }
            }
        }
        map
    }
}

/// A build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// In hexadecimal.
    pub build_id: String,
    /// Where it was.
    pub path: String,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// As in the symbol table.
    pub name: String,
    /// As linked, in hexadecimal.
    pub address: String,
}

/// A function that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Which one.
    #[serde(flatten)]
    pub function: Listed,
    /// Why.
    pub why: String,
    /// The blocks to count, by address; everything if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub count: Vec<String>,
    /// Blocks whose old count holds all the same, by address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reusable: Vec<String>,
}

/// What of a function would have to be measured, and is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dear {
    /// Which function.
    #[serde(flatten)]
    pub function: Listed,
    /// Which blocks, by address.
    pub blocks: Vec<String>,
}

/// Why a plan cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is no plan.
    #[error("not a plan of relive (`relive migrate --plan` writes one)")]
    Json(#[from] serde_json::Error),
    /// Another version.
    #[error(
        "a plan of version {0}, and this relive knows version {VERSION}; make it anew with `relive migrate --plan`"
    )]
    Version(u32),
    /// A function that is nowhere.
    #[error("{0:?} is not an address in hexadecimal, as in 0x401000")]
    Address(String),
    /// Another build.
    #[error(
        "a plan for build {planned}, but this is build {found}; make one for it with `relive migrate --plan`"
    )]
    OtherBuild {
        /// Which build it is for.
        planned: String,
        /// Which build it was used for.
        found: String,
    },
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Build {
    fn of(module: &Module) -> Self {
        Self { build_id: hex(&module.build_id), path: module.path.clone() }
    }
}

impl Plan {
    /// Puts decisions into a plan. `new` has the counts that are expected of the new build.
    #[must_use]
    pub fn new(
        old: &Module,
        new: &Module,
        impact: &str,
        behaviours: Vec<String>,
        significance: f64,
        decisions: &[Decision],
    ) -> Self {
        let mut plan = Self {
            relive_plan: VERSION,
            old: Build::of(old),
            new: Build::of(new),
            impact: impact.to_owned(),
            behaviours,
            significance,
            exempt: Vec::new(),
            measure: Vec::new(),
            dear: Vec::new(),
            map: None,
        };
        for (function, decision) in new.functions.iter().zip(decisions) {
            let listed =
                Listed { name: new.name(function).to_owned(), address: format!("{:#x}", function.address) };
            let shown = |block: u64| format!("{block:#x}");
            let blocks = |entries: &HashSet<Entry>| -> Vec<String> {
                let at = |entry: &Entry| Some(function.blocks[entry.block(function)? as usize].address);
                let all: BTreeSet<u64> = entries.iter().filter_map(at).collect();
                all.into_iter().map(shown).collect()
            };
            if !decision.dear.is_empty() {
                plan.dear.push(Dear { function: listed.clone(), blocks: blocks(&decision.dear) });
            }
            match decision.measure {
                None => plan.exempt.push(listed),
                Some(why) => {
                    let reusable = blocks(&decision.reusable);
                    let count = decision.blocks(function).unwrap_or_default().into_iter();
                    let count = count.map(|block| shown(function.blocks[block as usize].address)).collect();
                    let why = why.text().to_owned();
                    plan.measure.push(Measured { function: listed, why, count, reusable });
                }
            }
        }
        plan
    }

    /// Has functions, by address, measured that were exempt.
    pub fn measure_too(&mut self, functions: &BTreeSet<u64>, why: &str) {
        let is_meant = |listed: &Listed| address(&listed.address).is_some_and(|at| functions.contains(&at));
        let (measured, exempt) = std::mem::take(&mut self.exempt).into_iter().partition(is_meant);
        self.exempt = exempt;
        let measured: Vec<Listed> = measured;
        self.measure.extend(measured.into_iter().map(|function| Measured {
            function,
            why: why.to_owned(),
            count: Vec::new(),
            reusable: Vec::new(),
        }));
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// If it is none, or one of another version.
    pub fn read(json: &[u8]) -> Result<Self, PlanError> {
        #[derive(Deserialize)]
        struct Head {
            relive_plan: u32,
        }
        match serde_json::from_slice::<Head>(json)?.relive_plan {
            VERSION => {}
            other => return Err(PlanError::Version(other)),
        }
        let plan: Self = serde_json::from_slice(json)?;
        match plan.exempt.iter().find(|listed| address(&listed.address).is_none()) {
            None => Ok(plan),
            Some(listed) => Err(PlanError::Address(listed.address.clone())),
        }
    }

    /// As text.
    #[must_use]
    pub fn write(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Asks whether it is for the build with this build-id.
    ///
    /// # Errors
    /// If it is for another one.
    pub fn check(&self, build_id: &[u8]) -> Result<(), PlanError> {
        let found = hex(build_id);
        if found == self.new.build_id {
            return Ok(());
        }
        Err(PlanError::OtherBuild { planned: self.new.build_id.clone(), found })
    }

    /// Addresses of the functions whose old entries are taken over.
    #[must_use]
    pub fn exempt_addresses(&self) -> Vec<u64> {
        self.exempt.iter().filter_map(|listed| address(&listed.address)).collect()
    }

    /// Of functions that are measured, by address: addresses of blocks whose old count holds all the same.
    #[must_use]
    pub fn reusable_blocks(&self) -> HashMap<u64, HashSet<u64>> {
        self.blocks(|measured| &measured.reusable)
    }

    /// Of functions that are measured only in part, by address: addresses of the blocks to count.
    #[must_use]
    pub fn counted_blocks(&self) -> HashMap<u64, HashSet<u64>> {
        self.blocks(|measured| &measured.count)
    }

    fn blocks(&self, of: impl Fn(&Measured) -> &[String]) -> HashMap<u64, HashSet<u64>> {
        let blocks = |measured: &Measured| {
            let blocks: HashSet<u64> = of(measured).iter().filter_map(|block| address(block)).collect();
            Some((address(&measured.function.address)?, blocks)).filter(|(_, blocks)| !blocks.is_empty())
        };
        self.measure.iter().filter_map(blocks).collect()
    }

    /// How many functions are measured for each reason, the most frequent first.
    #[must_use]
    pub fn reasons(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for measured in &self.measure {
            *counts.entry(&measured.why).or_default() += 1;
        }
        let mut all: Vec<_> = counts.into_iter().collect();
        all.sort_by_key(|&(why, count)| (std::cmp::Reverse(count), why));
        all
    }
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
