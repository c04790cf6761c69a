//! Functions that need not be measured, as a plan tells (`--except plan.json`).

use anyhow::{Context as _, Result, bail};
use relive_trace::Module;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Functions of one build whose behaviour is known from elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Exempt {
    /// Where that is told.
    plan: PathBuf,
    /// The build, in hexadecimal.
    pub(crate) build_id: String,
    /// Where functions begin, as linked, and what they are called.
    pub(crate) functions: Vec<(u64, String)>,
}

#[derive(Deserialize)]
struct Plan {
    new: Build,
    exempt: Vec<Function>,
}

#[derive(Deserialize)]
struct Build {
    build_id: String,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: String,
    address: String,
}

impl Exempt {
    /// Reads a plan.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let unreadable = || format!("{}: not a plan (`relive migrate --plan` writes one)", path.display());
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let plan: Plan = serde_json::from_slice(&text).with_context(unreadable)?;
        let function = |Function { name, address }| {
            let digits = address.strip_prefix("0x").unwrap_or(&address);
            let number = u64::from_str_radix(digits, 16)
                .with_context(|| format!("{}: {address:?} is not an address", path.display()))?;
            Ok((number, name))
        };
        let functions = plan.exempt.into_iter().map(function).collect::<Result<_>>()?;
        Ok(Self { plan: path.to_owned(), build_id: plan.new.build_id, functions })
    }

    /// The module of a trace that it is about.
    pub(crate) fn module<'m>(&self, modules: &'m [Module]) -> Result<(usize, &'m Module)> {
        let found = modules.iter().enumerate().find(|(_, module)| module.build_id == self.build_id);
        let Some(found) = found.filter(|_| !self.build_id.is_empty()) else {
            let Self { plan, build_id, .. } = self;
            bail!(
                "{}: it is about build {build_id}, which was not traced (make a plan for the build that was)",
                plan.display()
            );
        };
        Ok(found)
    }
}
