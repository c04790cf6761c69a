//! Functions that need not be measured, as a plan tells (`--except plan.json`).

use anyhow::{Result, bail};
use relive_trace::Module;
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

impl Exempt {
    /// Reads a plan.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let plan = crate::plan::open(path)?;
        let names = plan.exempt.iter().map(|function| function.name.clone());
        let functions = plan.exempt_addresses().into_iter().zip(names).collect();
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
