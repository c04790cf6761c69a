//! What the commands that read profiles share.

use crate::remedy::with_remedy;
use anyhow::{Context as _, Result};
use relive_image::loader::{LoadError, open_file};
use relive_profile::file;
use relive_profile::model::{Call, Callee, Count, Function, Module, Profile, Target};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::BufReader;
use std::path::Path;

/// Reads the profile at `path`.
pub(crate) fn open(path: &Path) -> Result<Profile> {
    let file = open_file(path).map_err(with_remedy)?;
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        return Err(with_remedy(LoadError::Empty { path: path.to_owned() }));
    }
    file::read_from(&mut BufReader::new(file))
        .map_err(with_remedy)
        .with_context(|| path.display().to_string())
}

/// A count for tables: `-` if it is not known.
pub(crate) fn count(count: Option<Count>) -> String {
    count.map_or_else(|| "-".to_string(), |count| count.value().to_string())
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a call led to, by name, and how often. What is not known is `?`, code in no file `generated`.
pub(crate) fn callees<'p>(
    profile: &'p Profile,
    module: &'p Module,
    function: &Function,
    call: &Call,
) -> Vec<(Cow<'p, str>, Option<u64>)> {
    let total = module.call_count(function, call).map(Count::value);
    let name = match call.callee {
        Callee::Direct { address, .. } => module
            .callee_name(call.callee)
            .filter(|name| !name.is_empty())
            .map_or_else(|| Cow::Owned(format!("{address:#x}")), Cow::Borrowed),
        Callee::Import { .. } => Cow::Borrowed(module.callee_name(call.callee).unwrap_or("?")),
        Callee::Indirect { .. } => return targets(profile, module, call.callee, total),
    };
    vec![(name, total)]
}

fn targets<'p>(
    profile: &'p Profile,
    module: &'p Module,
    callee: Callee,
    total: Option<u64>,
) -> Vec<(Cow<'p, str>, Option<u64>)> {
    let targets = module.targets(callee);
    let mut rows: Vec<_> = targets
        .iter()
        .map(|target| (target_name(profile, module, target.target), Some(target.count)))
        .collect();
    let known: u64 = targets.iter().fold(0, |sum, target| sum.saturating_add(target.count));
    let rest = total.map(|total| total.saturating_sub(known));
    if rows.is_empty() || rest.is_some_and(|rest| rest > 0) {
        rows.push((Cow::Borrowed("?"), if rows.is_empty() { total } else { rest }));
    }
    rows
}

fn target_name<'p>(profile: &'p Profile, module: &'p Module, target: Target) -> Cow<'p, str> {
    if let Some(name) = profile.target_name(module, target) {
        return Cow::Borrowed(name);
    }
    match target {
        Target::Own(address) => format!("{address:#x}").into(),
        Target::Foreign { module: foreign, address } => {
            let path = module.foreign.get(foreign as usize).map_or("?", |foreign| foreign.path.as_str());
            format!("{path}+{address:#x}").into()
        }
        Target::Generated => "generated".into(),
    }
}

/// Finds the functions that calls lead to.
pub(crate) struct Called<'p> {
    profile: &'p Profile,
    /// Functions by name; `None` if several have it.
    by_name: HashMap<&'p str, Option<&'p Function>>,
}

impl<'p> Called<'p> {
    pub(crate) fn new(profile: &'p Profile) -> Self {
        let mut by_name = HashMap::new();
        for module in &profile.modules {
            for function in &module.functions {
                by_name
                    .entry(module.name(function))
                    .and_modify(|known| *known = None)
                    .or_insert(Some(function));
            }
        }
        Self { profile, by_name }
    }

    /// What a call leads to, in the order of [`callees`], as far as this profile has it.
    pub(crate) fn functions(&self, module: &'p Module, callee: Callee) -> Vec<Option<&'p Function>> {
        match callee {
            Callee::Direct { address, .. } => vec![module.function_at(address)],
            // The loader decides by more than the name: if several have it, who knows.
            Callee::Import { name } => vec![self.by_name.get(module.text(name)).copied().flatten()],
            Callee::Indirect { .. } => {
                let targets = module.targets(callee).iter();
                targets.map(|target| self.profile.target(module, target.target)).collect()
            }
        }
    }
}
