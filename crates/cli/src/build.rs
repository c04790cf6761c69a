//! A build to compare or to carry a profile to: a binary, or a profile, which holds what is needed of one.

use crate::profiles;
use crate::remedy::with_remedy;
use anyhow::{Context as _, Result, bail};
use relive_image::lines::Lines;
use relive_image::loader::{Loaded, Options, open_file};
use relive_image::program::analyze_watched;
use relive_image::watch::Watch;
use relive_probe::survey::Survey;
use relive_profile::model::Module;
use std::io::Read as _;
use std::path::Path;

/// How to read a build.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    /// Look for a separate debug file, which may have symbols.
    pub(crate) debug_files: bool,
    /// Note source lines.
    pub(crate) lines: bool,
}

/// Reads the build at `path`. A profile may be of several modules: the one that is called `like` is meant then.
pub(crate) fn open(path: &Path, like: &Path, reading: Reading, watch: &Watch) -> Result<Module> {
    if is_profile(path)? {
        return choose(profiles::open(path)?.modules, path, like);
    }
    from_binary(path, reading, watch, |module, _| Ok(module))
}

/// Describes the binary at `path` and does something with it while what is known of it is at hand.
pub(crate) fn from_binary<T>(
    path: &Path,
    reading: Reading,
    watch: &Watch,
    then: impl FnOnce(Module, &Survey<'_, '_>) -> Result<T>,
) -> Result<T> {
    let options = Options { find_debug_file: reading.debug_files, ..Options::default() };
    let loaded = Loaded::open(path, &options).map_err(with_remedy)?;
    let image = loaded.image().map_err(with_remedy).with_context(|| path.display().to_string())?;
    let lines = reading.lines.then(|| Lines::new(&loaded));
    let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let program = analyze_watched(&image, watch);
    let survey = Survey::new(&image, &program);
    then(survey.module(lines.as_ref(), &place.to_string_lossy(), watch), &survey)
}

/// Whether the file says that it is a profile.
fn is_profile(path: &Path) -> Result<bool> {
    let mut start = Vec::new();
    let file = open_file(path).map_err(with_remedy)?;
    file.take(relive_abi::rprof::MAGIC.len() as u64)
        .read_to_end(&mut start)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(start == relive_abi::rprof::MAGIC)
}

/// The module of a profile that is meant.
pub(crate) fn choose(modules: Vec<Module>, path: &Path, like: &Path) -> Result<Module> {
    let names = |module: &Module| Path::new(&module.path).file_name().map(ToOwned::to_owned);
    let listed: Vec<String> = modules.iter().map(|m| m.path.clone()).collect();
    let mut modules = modules;
    match modules.len() {
        0 => bail!("{}: the profile is empty; measure something first", path.display()),
        1 => {}
        _ => modules.retain(|module| names(module).as_deref() == like.file_name()),
    }
    match (modules.pop(), modules.is_empty()) {
        (Some(module), true) => Ok(module),
        _ => bail!(
            "{}: a profile of several modules ({}), and {} does not say which; \
             compare with a file of the same name",
            path.display(),
            listed.join(", "),
            like.display()
        ),
    }
}
