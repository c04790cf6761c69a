//! `relive evaluate --plan`: how good a migration is, by the measures of ProfMig.

use super::Args;
use crate::output::{grouped, percent_of, write_to};
use crate::plan;
use crate::profiles;
use anyhow::{Context as _, Result};
use relive_migrate::reprofile::behaviour::About;
use relive_migrate::reprofile::entries::Entry;
use relive_migrate::reprofile::measures::{Judged, Measures, Mistaken, judge, time_saved};
use relive_migrate::reprofile::plan::Plan;
use relive_profile::model::{Function, Module};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Behaviours that profiles have entries of, by which a migration is judged.
const JUDGED: [(&str, About); 4] = [
    ("loops", About::Loops),
    ("call-graph", About::Calls),
    ("call-frequencies", About::Entries),
    ("blocks", About::Blocks),
];

/// Judges the profile that came out of a migration by a plan.
pub(super) fn run(args: &Args, path: &Path, carried: &Path) -> Result<()> {
    let plan = plan::open(path)?;
    let open = |path: &Path| -> Result<Module> {
        let mut modules = profiles::open(path)?.modules;
        modules.retain(|module| plan.check(&module.build_id).is_ok());
        modules.pop().with_context(|| {
            format!("{}: no profile of build {}, which the plan is for", path.display(), plan.new.build_id)
        })
    };
    let (merged, fresh, carried) = (open(&args.carried)?, open(&args.fresh)?, open(carried)?);
    let again: Vec<Module> = args.again.iter().map(|path| open(path)).collect::<Result<_>>()?;
    let judged = Judged { carried: &carried, merged: &merged, fresh: &fresh, again: &again };
    let claims = Claims::of(&plan);
    let results = JUDGED.map(|(name, about)| {
        let mut mistaken = Vec::new();
        let mut note = |function: &Function, wrong: Mistaken| mistaken.push(told(&fresh, function, wrong));
        let measures = judge(&judged, about, &|f, e| claims.hold(f, e), &mut note);
        (name, measures, mistaken)
    });
    let saved = args.full_time.zip(args.migrated_time).map(|(full, migrated)| time_saved(full, migrated));
    write_to(args.output.as_deref(), |out| {
        if args.json {
            let of = |(name, m, mistaken): &(&str, Measures, Vec<serde_json::Value>)| {
                let value = serde_json::json!({
                    "real": m.real, "right": m.right, "reused": m.reused, "truly": m.truly, "missed": m.missed,
                    "random": m.random, "acc": m.accuracy(), "precision": m.precision(), "recall": m.recall(),
                    "f_measure": m.f_measure(), "mistaken": mistaken,
                });
                ((*name).to_owned(), value)
            };
            let behaviours: serde_json::Map<String, serde_json::Value> = results.iter().map(of).collect();
            let all = serde_json::json!({
                "impact": plan.impact, "significance": plan.significance, "ts": saved, "behaviours": behaviours,
                "increments": fresh.increments(),
            });
            return Ok(writeln!(out, "{all:#}")?);
        }
        writeln!(out, "impact analysis: {}", plan.impact)?;
        writeln!(
            out,
            "{:<18} {:>9} {:>9} {:>10} {:>10} {:>10} {:>8}",
            "", "entries", "Acc", "precision", "recall", "F-measure", "random"
        )?;
        for (name, m, _) in &results {
            writeln!(
                out,
                "{name:<18} {:>9} {:>9} {:>10.3} {:>10.3} {:>10.3} {:>8}",
                grouped(m.real),
                percent_of(Some(m.accuracy())),
                m.precision(),
                m.recall(),
                m.f_measure(),
                grouped(m.random)
            )?;
        }
        if let Some(saved) = saved {
            writeln!(out, "time saved (TS) {:>12.2} %", 100.0 * saved)?;
        }
        Ok(())
    })
}

/// An entry that was wrongly said to be reusable: of which function, at which block, and both counts.
fn told(module: &Module, function: &Function, wrong: Mistaken) -> serde_json::Value {
    let block = wrong.entry.block(function).and_then(|block| function.blocks.get(block as usize));
    serde_json::json!({
        "function": module.name(function),
        "block": block.map(|block| format!("{:#x}", block.address)),
        "old": wrong.old,
        "real": wrong.real,
    })
}

/// What a plan says is reusable.
struct Claims {
    exempt: HashSet<u64>,
    /// Blocks of functions that are measured all the same, by the address of the function.
    blocks: HashMap<u64, HashSet<u64>>,
}

impl Claims {
    fn of(plan: &Plan) -> Self {
        Self { exempt: plan.exempt_addresses().into_iter().collect(), blocks: plan.reusable_blocks() }
    }

    fn hold(&self, function: &Function, entry: Entry) -> bool {
        let block = || Some(function.blocks.get(entry.block(function)? as usize)?.address);
        self.exempt.contains(&function.address)
            || self
                .blocks
                .get(&function.address)
                .is_some_and(|blocks| block().is_some_and(|block| blocks.contains(&block)))
    }
}
