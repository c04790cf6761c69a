//! Rewrites a program once it has been read: for `relive instrument` once, for `relive bisect` many times.

use anyhow::{Result, anyhow};
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::program::Program;
use relive_image::watch::Watch;
use relive_probe::describe::{self, describe};
use relive_probe::weights::Weights;
use relive_profile::model as profile;
use relive_rewrite::module::{Groundwork, Mode, Options, Outline, Refusal, Rewriter, Rewritten, Selection};
use std::fmt;
use std::path::Path;

/// What is to be rewritten, and how.
pub(crate) struct Subject<'a, 'd> {
    pub(crate) binary: &'a Path,
    pub(crate) image: &'a Image<'d>,
    pub(crate) program: &'a Program<'d>,
    pub(crate) ground: &'a Groundwork<'a, 'd>,
    pub(crate) lines: &'a Lines<'d>,
    pub(crate) mode: Mode,
    pub(crate) calls: bool,
    pub(crate) trap: bool,
    pub(crate) weights: Option<&'a Weights>,
    pub(crate) pattern: &'a str,
}

/// Nothing that is wanted of a program can be measured.
#[derive(Debug)]
pub(crate) struct NothingToMeasure(String);

impl fmt::Display for NothingToMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NothingToMeasure {}

/// The result, and what was decided on the way.
pub(crate) struct Made {
    pub(crate) outline: Outline,
    pub(crate) rewritten: Rewritten,
}

/// What is known of a program whatever is measured of it.
pub(crate) fn ground<'a, 'd>(
    binary: &Path,
    image: &'a Image<'d>,
    program: &'a Program<'d>,
) -> Result<Groundwork<'a, 'd>> {
    Groundwork::new(image, program).map_err(|refusal| refused(binary, &refusal))
}

fn refused(binary: &Path, refusal: &Refusal) -> anyhow::Error {
    let remedy = match refusal {
        Refusal::Go => "; `relive run` measures them as they are",
        Refusal::Nothing => "; `relive inspect` shows why",
        _ => "",
    };
    let said = format!("{}: {refusal}{remedy}", binary.display());
    match refusal {
        Refusal::Nothing => NothingToMeasure(said).into(),
        _ => anyhow!(said),
    }
}

impl Subject<'_, '_> {
    /// Rewrites it so that what is `wanted` of each function is measured.
    pub(crate) fn make(
        &self,
        wanted: &dyn Selection,
        watch: &Watch,
        lap: &mut dyn FnMut(&'static str),
    ) -> Result<Made> {
        let name = self.binary.file_name().unwrap_or_default().to_string_lossy();
        let options = Options {
            name: &name,
            mode: self.mode,
            calls: self.calls,
            trap: self.trap,
            wanted,
            weights: self.weights,
            pattern: self.pattern,
            runtime: relive_runtime::IMAGE,
            watch,
        };
        let refused = |refusal: Refusal| refused(self.binary, &refusal);
        let rewriter = Rewriter::new(self.ground, &options).map_err(refused)?;
        lap("plan");
        let path = std::fs::canonicalize(self.binary).unwrap_or_else(|_| self.binary.to_owned());
        let outline = &rewriter.outline;
        let file = describe(&describe::Subject {
            image: self.image,
            program: self.program,
            lines: Some(self.lines),
            fates: &outline.fates,
            layout: outline.layout,
            sites: &outline.sites,
            path: &path.to_string_lossy(),
            mode: match self.mode {
                Mode::Edges => profile::Mode::Edges,
                Mode::Blocks => profile::Mode::Blocks,
                Mode::Functions => profile::Mode::Functions,
            },
            watch,
        });
        lap("describe");
        let rewritten = rewriter.finish(&file).map_err(refused)?;
        lap("rewrite");
        Ok(Made { outline: rewriter.outline, rewritten })
    }
}
