//! Profiles of corpus programs: each build rewritten, its training workload run, the profile kept.

use crate::corpus::Build;
use crate::process::output_of;
use crate::workload::{Stage, Workload};
use anyhow::{Context, Result, ensure};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where profiles are made and kept.
pub(crate) struct Profiles<'a> {
    pub(crate) relive: &'a Path,
    pub(crate) corpus: &'a Path,
    pub(crate) folder: &'a Path,
}

impl Profiles<'_> {
    /// The profiles of so many runs of this file, a copy of a build. A profile that is there is used again if the
    /// rewritten program and the workload are the same, whatever else changed in relive.
    pub(crate) fn of(&self, build: &Build, file: &Path, runs: usize) -> Result<Vec<PathBuf>> {
        let stage = Stage::new(self.folder, &build.program)?;
        let rewritten = stage.folder.join("rewritten");
        output_of(Command::new(self.relive).arg("instrument").arg(file).arg("-o").arg(&rewritten))?;
        let mut hash = DefaultHasher::new();
        std::fs::read(&rewritten)?.hash(&mut hash);
        std::fs::read(build.workload())?.hash(&mut hash);
        let copy = file.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{}-{}-{copy}-{:016x}", build.program, build.version, hash.finish());
        (0..runs)
            .map(|run| {
                let kept = self.folder.join(format!("{name}-{run}.rprof"));
                if !kept.exists() {
                    self.run(build, &stage, &rewritten, &kept)?;
                }
                Ok(kept)
            })
            .collect()
    }

    fn run(&self, build: &Build, stage: &Stage, rewritten: &Path, kept: &Path) -> Result<()> {
        let profile = stage.folder.join("profile.rprof");
        if profile.exists() {
            std::fs::remove_file(&profile)?;
        }
        let workload = Workload::of(&build.program, self.corpus);
        let ran = workload.run(&stage.put(rewritten)?, &[("RELIVE_PROFILE", profile.as_os_str())])?;
        let said = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status == Some(0), "the workload failed: {:?}: {}", ran.status, said.trim());
        std::fs::rename(&profile, kept).with_context(|| format!("no profile: {}", said.trim()))
    }
}

/// The folder to keep profiles in, made if it is not there.
pub(crate) fn folder(path: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path.canonicalize()?)
}
