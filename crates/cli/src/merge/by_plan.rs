//! `relive merge --plan`: what was taken over from an old build and what was measured of the new one, in one file. Profiles, sequences of
//! calls, or tables of strides and reuse distances.

use crate::args::Merge;
use crate::output::{grouped, write_to};
use crate::{plan, profiles, sequence};
use anyhow::{Context as _, Result, bail};
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options};
use relive_migrate::reprofile::plan::Plan;
use relive_migrate::reprofile::unite::unite;
use relive_profile::file;
use relive_profile::model::Profile;
use relive_sequence::{CallMap, Sequence, tables};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

/// Puts together two files of one kind.
pub(super) fn run(args: &Merge, path: &Path) -> Result<()> {
    let plan = plan::open(path)?;
    let [old, fresh] = &args.profiles[..] else {
        bail!("--plan takes two profiles: what was carried over, and what was measured by the plan");
    };
    match kind(old)? {
        Kind::Profile => merge_profiles(args, &plan, old, fresh),
        Kind::Calls => merge_calls(args, &plan, old, fresh),
        Kind::Table => merge_tables(args, &plan, old, fresh),
    }
}

enum Kind {
    Profile,
    Calls,
    Table,
}

/// What a file is by how it begins.
fn kind(path: &Path) -> Result<Kind> {
    let mut start = [0; 8];
    let mut file = relive_image::loader::open_file(path).map_err(crate::remedy::with_remedy)?;
    let len = std::io::Read::read(&mut file, &mut start).with_context(|| path.display().to_string())?;
    Ok(match &start[..len] {
        [b'{', ..] => Kind::Table,
        start if start.starts_with(&relive_sequence::file::MAGIC) => Kind::Calls,
        _ => Kind::Profile,
    })
}

fn merge_profiles(args: &Merge, plan: &Plan, carried: &Path, fresh: &Path) -> Result<()> {
    let of_plan = |path: &Path| -> Result<_> {
        let mut modules = profiles::open(path)?.modules;
        modules.retain(|module| plan.check(&module.build_id).is_ok());
        modules.pop().with_context(|| {
            format!("{}: no profile of build {}, which the plan is for", path.display(), plan.new.build_id)
        })
    };
    let exempt: HashSet<u64> = plan.exempt_addresses().into_iter().collect();
    let merged = unite(&of_plan(carried)?, &of_plan(fresh)?, &|address| exempt.contains(&address))
        .with_context(|| format!("{} and {}", carried.display(), fresh.display()))?;
    let bytes = file::write(&Profile { modules: vec![merged] });
    write_to(Some(&args.output), |out| Ok(out.write_all(&bytes)?))
}

/// The map of a plan, which only those for behaviours of traces have.
fn map(plan: &Plan) -> Result<CallMap> {
    sequence::call_map(plan).context(
        "the plan was not made for behaviours that traces tell: make one with `relive migrate --plan … --behaviour \
         call-sequence`, strides or reuse-distances",
    )
}

fn merge_calls(args: &Merge, plan: &Plan, old: &Path, fresh: &Path) -> Result<()> {
    let (before, partial) = (sequence::open(old)?, sequence::open(fresh)?);
    let mut map = map(plan)?;
    add_stubs(&mut map, &before, &partial);
    let (merged, origins) = relive_sequence::merge(&before, &partial, &map).with_context(|| {
        format!(
            "{} and {}: functions that have to be measured may not be exempt in the plan; `relive migrate --plan … --sequence {}` \
             makes one in which they are not",
            old.display(),
            fresh.display(),
            old.display()
        )
    })?;
    let bytes = relive_sequence::file::write(&merged);
    write_to(Some(&args.output), |out| Ok(out.write_all(&bytes)?))?;
    println!("{}", args.output.display());
    println!("  executions measured anew {:>12}", grouped(origins.remeasured));
    println!("  taken over               {:>12}", grouped(origins.reused));
    println!("  and put elsewhere        {:>12}", grouped(origins.repositioned));
    Ok(())
}

/// Functions that no profile describes, stubs above all, are known by their names.
fn add_stubs(map: &mut CallMap, old: &Sequence, new: &Sequence) {
    let named = |sequence: &Sequence, build_id: &str| -> HashMap<String, Vec<u64>> {
        let mut all: HashMap<String, Vec<u64>> = HashMap::new();
        for function in &sequence.functions {
            let module = sequence.modules.get(function.module as usize);
            if let Some(name) = &function.name
                && module.is_some_and(|module| module.build_id == build_id)
            {
                all.entry(name.clone()).or_default().push(function.address);
            }
        }
        all
    };
    let known: BTreeSet<u64> = map.functions.values().copied().collect();
    let theirs = named(new, &map.new);
    for (name, addresses) in named(old, &map.old) {
        if let ([old], Some([new])) = (&addresses[..], theirs.get(&name).map(Vec::as_slice))
            && !known.contains(new)
        {
            map.functions.entry(*old).or_insert(*new);
        }
    }
}

fn merge_tables(args: &Merge, plan: &Plan, old: &Path, fresh: &Path) -> Result<()> {
    let read = |path: &Path| -> Result<Value> {
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{}: not what `relive analyze … --json` prints", path.display()))
    };
    let exempt: BTreeSet<u64> = plan.exempt_addresses().into_iter().collect();
    // Lines are told by the new build, if it is still where it was.
    let loaded = Loaded::open(Path::new(&plan.new.path), &Options::default()).ok();
    let lines = loaded.as_ref().map(Lines::new);
    let line = |address: u64| {
        let place = lines.as_ref()?.at(relive_code::addr::LinkAddr(address))?;
        Some((place.file.to_owned(), place.line))
    };
    let merged = tables::merge(&read(old)?, &read(fresh)?, &map(plan)?, &exempt, &line)
        .with_context(|| format!("{} and {}", old.display(), fresh.display()))?;
    write_to(Some(&args.output), |out| Ok(writeln!(out, "{merged:#}")?))
}
