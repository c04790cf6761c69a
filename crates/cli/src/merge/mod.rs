//! `relive merge`: adds profiles up.

mod by_plan;

use crate::args::Merge;
use crate::output::write_to;
use crate::profiles;
use anyhow::Result;
use relive_profile::merge::merge;
use relive_profile::{file, model::Profile};

/// Reads all profiles and writes their sum.
pub(crate) fn run(args: &Merge) -> Result<()> {
    if let Some(path) = &args.plan {
        return by_plan::run(args, path);
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
