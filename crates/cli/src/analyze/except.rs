//! Functions that are left out (`--except plan.json`).

use super::places::{Files, Places};
use crate::exempt::Exempt;
use crate::traced::Traced;
use anyhow::{Result, bail};
use relive_analysis::except::Except;
use relive_trace::process::Origin;
use std::path::PathBuf;

/// Which functions are left out.
#[derive(clap::Args)]
pub(crate) struct ExceptArgs {
    /// Leave out functions that a plan exempts: what they do is known already
    #[arg(long, value_name = "PLAN", help_heading = "What to print")]
    except: Option<PathBuf>,
}

impl ExceptArgs {
    /// Whether that can be done: where code of a trace is that is being made, nobody knows yet.
    pub(super) fn check(&self, is_of_file: bool) -> Result<()> {
        if self.except.is_some() && !is_of_file {
            bail!("--except needs a trace that is there already: store it, and ask `relive analyze`");
        }
        Ok(())
    }

    /// Where the code of these functions is.
    pub(super) fn code(&self, traced: &Traced<'_>) -> Result<Except> {
        let mut except = Except::default();
        let Some(plan) = &self.except else { return Ok(except) };
        let exempt = Exempt::read(plan)?;
        let (_, module) = exempt.module(traced.modules)?;
        let files = Files::open(traced, &[]);
        let places = Places::new(traced, &files, true);
        for process in traced.processes() {
            for mapping in &process.mappings {
                let Origin::File(path) = &mapping.origin else { continue };
                if **path != *module.path {
                    continue;
                }
                let Some((file, bias)) = places.loaded(path, mapping) else { continue };
                for (start, _) in &exempt.functions {
                    let functions = file.functions();
                    let at = functions.partition_point(|function| function.0 < *start);
                    let Some((start, end, _)) = functions.get(at).filter(|function| function.0 == *start)
                    else {
                        continue;
                    };
                    except.add(process.number, start.wrapping_add(bias), end.wrapping_add(bias));
                }
            }
        }
        Ok(except)
    }
}
