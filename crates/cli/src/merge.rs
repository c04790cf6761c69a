//! `relive merge`: adds profiles up.

use crate::args::Merge;
use crate::output::write_to;
use crate::plan;
use crate::profiles;
use anyhow::{Context as _, Result, bail};
use relive_migrate::reprofile::unite::unite;
use relive_profile::merge::merge;
use relive_profile::{file, model::Profile};
use std::collections::HashSet;
use std::path::Path;

/// Reads all profiles and writes their sum.
pub(crate) fn run(args: &Merge) -> Result<()> {
    if let Some(path) = &args.plan {
        return by_plan(args, path);
    }
    let mut sum = Profile::default();
    for path in &args.profiles {
        sum = merge([sum, profiles::open(path)?]);
    }
    let bytes = file::write(&sum);
    write_to(Some(&args.output), |out| Ok(out.write_all(&bytes)?))?;
    for pair in sum.modules.windows(2).filter(|pair| pair[0].path == pair[1].path) {
        let [one, other] = pair else { continue };
        let why = if one.build_id != other.build_id {
            "builds"
        } else if one.mode != other.mode {
            "modes of counting"
        } else {
            "versions of relive, which understood it differently"
        };
        eprintln!("{}: profiles of different {why} stay apart", one.path);
    }
    Ok(())
}

/// Puts together what was carried over and what was measured anew.
fn by_plan(args: &Merge, path: &Path) -> Result<()> {
    let plan = plan::open(path)?;
    let [carried, fresh] = &args.profiles[..] else {
        bail!("--plan takes two profiles: what was carried over, and what was measured by the plan");
    };
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
