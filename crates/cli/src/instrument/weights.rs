//! `relive instrument --weights`: what an earlier run counted.

use crate::profiles::{self, hex};
use anyhow::{Result, bail};
use relive_image::image::Image;
use relive_probe::describe::build_id;
use relive_probe::weights::Weights;
use std::path::Path;

/// Reads the profile at `path`, which must be of the same build as `image`.
pub(crate) fn read(path: &Path, image: &Image<'_>, binary: &Path) -> Result<Weights> {
    let profile = profiles::open(path)?;
    let build = build_id(&image.elf, &image.identity);
    let Some(module) = profile.modules.iter().find(|module| module.build_id == build) else {
        let others: Vec<String> = profile.modules.iter().map(|m| hex(&m.build_id)).collect();
        bail!(
            "--weights {}: it was counted in another build ({}) than {} ({}): measure this build first",
            path.display(),
            others.join(", "),
            binary.display(),
            hex(&build)
        );
    };
    let weights = Weights::new(module);
    if weights.functions() == 0 {
        bail!("--weights {}: nothing ran in it: run the measured program first", path.display());
    }
    Ok(weights)
}
