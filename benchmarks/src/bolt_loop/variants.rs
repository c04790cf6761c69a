//! The programs that are compared: as built, and optimised by profiles of different origin.

use super::Pair;
use crate::carry::score::migrate;
use crate::corpus::{self, Build};
use crate::process::output_of;
use crate::profiles::Profiles;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Who optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Optimiser {
    Bolt,
    Clang,
}

impl Optimiser {
    pub(crate) const ALL: [Self; 2] = [Self::Bolt, Self::Clang];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bolt => "BOLT",
            Self::Clang => "clang",
        }
    }
}

/// Whose profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Fresh,
    Carried,
    Stale,
}

impl Source {
    pub(crate) const ALL: [Self; 3] = [Self::Fresh, Self::Carried, Self::Stale];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Carried => "carried",
            Self::Stale => "its own",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Carried => "carried",
            Self::Stale => "stale",
        }
    }
}

/// The usual way to lay out a program anew.
const LAYOUT: [&str; 4] =
    ["-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-split-functions", "-split-all-cold"];

/// What BOLT needs: relocations, code at a fixed place (elsewhere it cannot write functions with computed gotos anew, the hottest of
/// interpreters), and functions in one piece.
const LINKED: [&str; 5] =
    ["-O2", "-fno-pie", "-no-pie", "-fno-reorder-blocks-and-partition", "-Wl,--emit-relocs"];

/// What sample profiles need of the debug information; and valgrind 3.19 cannot read the DWARF 5 that clang 19 writes.
const PROFILED: [&str; 5] = ["-O2", "-fPIE", "-pie", "-fdebug-info-for-profiling", "-gdwarf-4"];

pub(crate) struct Maker<'a> {
    pub(crate) relive: &'a Path,
    pub(crate) corpus: &'a Path,
    pub(crate) bolt: &'a Path,
    pub(crate) clang: &'a Path,
    pub(crate) work: &'a Path,
    /// What is left out of profiles for BOLT, if not what `relive export` leaves out by itself.
    pub(crate) least: Option<&'a str>,
}

impl Maker<'_> {
    /// The new version as built, then optimised by each source. What is there is not made again.
    pub(crate) fn all(&self, pair: &Pair, optimiser: Optimiser) -> Result<Vec<PathBuf>> {
        let mut folder = format!("{}-{}-{}", pair.program, pair.new, optimiser.name());
        if let Some(least) = self.least {
            folder += &format!("-{least}");
        }
        let folder = self.work.join(folder);
        std::fs::create_dir_all(&folder)?;
        let task = Task { maker: self, pair, folder: &folder, optimiser };
        let mut files = Vec::new();
        files.push(task.compiled(pair.new)?);
        for source in Source::ALL {
            let file = folder.join(source.file());
            if !file.exists() {
                match optimiser {
                    Optimiser::Bolt => task.bolt(source, &file),
                    Optimiser::Clang => task.recompile(source, &file),
                }
                .with_context(|| source.name())?;
            }
            files.push(file);
        }
        Ok(files)
    }

    fn profile(&self, pair: &Pair, version: &str, file: &Path) -> Result<PathBuf> {
        let profiles = Profiles { relive: self.relive, corpus: self.corpus, folder: self.work };
        let build = Build {
            program: pair.program.to_owned(),
            version: version.to_owned(),
            configuration: "variant".to_owned(),
        };
        Ok(profiles.of(&build, file, 1)?.remove(0))
    }

    fn export(&self, profile: &Path, binary: &Path, format: &str, out: &Path) -> Result<()> {
        let mut command = Command::new(self.relive);
        command.arg("export").arg(profile).args(["--format", format]).arg("--binary").arg(binary);
        if let Some(least) = self.least.filter(|_| format.starts_with("bolt")) {
            command.args(["--least", least]);
        }
        output_of(command.arg("-o").arg(out))?;
        Ok(())
    }
}

/// One pair, and where its files are.
struct Task<'a> {
    maker: &'a Maker<'a>,
    pair: &'a Pair,
    folder: &'a Path,
    optimiser: Optimiser,
}

impl Task<'_> {
    /// The profile of a source, of the new version, in a format.
    fn exported(&self, source: Source, old: &Path, new: &Path, format: &str) -> Result<PathBuf> {
        let (maker, pair) = (self.maker, self.pair);
        let out = self.folder.join(format!("{}.{format}", source.file()));
        let (profile, binary) = match source {
            Source::Fresh => (maker.profile(pair, pair.new, new)?, new),
            Source::Stale => (maker.profile(pair, pair.old, old)?, old),
            Source::Carried => {
                let carried = self.folder.join("carried.rprof");
                migrate(maker.relive, &maker.profile(pair, pair.old, old)?, new, &carried)?;
                (carried, new)
            }
        };
        maker.export(&profile, binary, format, &out)?;
        Ok(out)
    }

    fn bolt(&self, source: Source, out: &Path) -> Result<()> {
        let maker = self.maker;
        let (old, new) = (self.compiled(self.pair.old)?, self.compiled(self.pair.new)?);
        let fdata = self.exported(source, &old, &new, "bolt-fdata")?;
        let beside = out.with_extension("tmp");
        let mut options: Vec<String> = LAYOUT.map(str::to_owned).to_vec();
        if source == Source::Stale {
            // Only YAML has the hashes that stale matching goes by.
            let yaml = self.folder.join("stale.yaml");
            let mut translate = Command::new(maker.bolt);
            translate
                .arg(&old)
                .arg(format!("-data={}", fdata.display()))
                .arg(format!("-w={}", yaml.display()));
            // It may well fail in the end, over functions it cannot write; the profile is written before.
            let translated = output_of(translate.arg("-o").arg(&beside));
            if !yaml.exists() {
                translated?;
            }
            options.extend([format!("-data={}", yaml.display()), "--infer-stale-profile".to_owned()]);
        } else {
            options.push(format!("-data={}", fdata.display()));
        }
        self.lay_out(&new, &options, &beside)?;
        Ok(std::fs::rename(beside, out)?)
    }

    /// Runs BOLT. There are functions that it cannot write anew (computed gotos in code that may be anywhere); it says so, and is run
    /// again without them.
    fn lay_out(&self, file: &Path, options: &[String], out: &Path) -> Result<()> {
        let mut skipped: Vec<String> = Vec::new();
        loop {
            let mut command = Command::new(self.maker.bolt);
            command.arg(file).arg("-o").arg(out).args(options);
            if !skipped.is_empty() {
                command.arg(format!("--skip-funcs={}", skipped.join(",")));
            }
            let error = match output_of(&mut command) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            match refused(&error.to_string()).filter(|name| !skipped.contains(name)) {
                Some(name) => {
                    eprintln!("  left out, for BOLT cannot write it: {name}");
                    skipped.push(name);
                }
                None => return Err(error),
            }
        }
    }

    /// A version as it is built, ready to be measured.
    fn compiled(&self, version: &str) -> Result<PathBuf> {
        let out = self.folder.join(format!("built-{version}"));
        if !out.exists() {
            match self.optimiser {
                Optimiser::Bolt => self.compile(Path::new("gcc"), version, &LINKED, &out)?,
                Optimiser::Clang => self.compile(self.maker.clang, version, &PROFILED, &out)?,
            }
        }
        Ok(out)
    }

    fn recompile(&self, source: Source, out: &Path) -> Result<()> {
        let (old, new) = (self.compiled(self.pair.old)?, self.compiled(self.pair.new)?);
        let samples = self.exported(source, &old, &new, "llvm-sample")?;
        let by = format!("-fprofile-sample-use={}", samples.display());
        self.compile(self.maker.clang, self.pair.new, &[&PROFILED[..], &[by.as_str()]].concat(), out)
    }

    fn compile(&self, compiler: &Path, version: &str, flags: &[&str], out: &Path) -> Result<()> {
        let beside = out.with_extension("tmp");
        let mut command = Command::new(corpus::scripts().join("variant.sh"));
        command.env("CORPUS_DIR", self.maker.corpus).args([self.pair.program, version]);
        output_of(command.arg(compiler).arg(&beside).args(flags))?;
        Ok(std::fs::rename(beside, out)?)
    }
}

/// The function that BOLT stumbled over.
fn refused(said: &str) -> Option<String> {
    let (before, _) = said.split_once(". Consider adding this function to --skip-funcs")?;
    let (_, name) = before.rsplit_once("in function ")?;
    // `f(*2)`: f has two names.
    Some(name.split("(*").next().unwrap_or(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bolt_stumbles_over() {
        let said = "BOLT-ERROR: unable to get new address corresponding to input address 0x2d620 in function \
                    luaV_execute/1(*2). Consider adding this function to --skip-funcs=...";
        assert_eq!(refused(said).as_deref(), Some("luaV_execute/1"));
        assert_eq!(refused("BOLT-ERROR: other"), None);
    }
}
