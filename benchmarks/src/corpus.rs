//! Where the corpus scripts put things, and which builds the accuracy runs judge.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The folder of the scripts, tables and workloads.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// One build of `accuracy.tsv` or `counting.tsv`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Build {
    pub(crate) program: String,
    pub(crate) version: String,
    pub(crate) configuration: String,
}

impl Build {
    /// `lua/clang-O2`
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.program, self.configuration)
    }

    fn place(&self, corpus: &Path, kind: &str) -> PathBuf {
        corpus.join(kind).join(&self.program).join(&self.version).join(&self.configuration)
    }

    /// The binary, or one of its copies (`.labels`, `.nomap`, `.stripped`).
    pub(crate) fn binary(&self, corpus: &Path, suffix: &str) -> PathBuf {
        let mut path = self.place(corpus, "bin").into_os_string();
        path.push(suffix);
        path.into()
    }

    /// The copy with symbols that relive is shown: without clang's block map.
    pub(crate) fn named(&self, corpus: &Path) -> PathBuf {
        Some(self.binary(corpus, ".nomap"))
            .filter(|path| path.exists())
            .unwrap_or_else(|| self.binary(corpus, ""))
    }

    /// The folder of its assembler source.
    pub(crate) fn assembler(&self, corpus: &Path) -> PathBuf {
        self.place(corpus, "asm")
    }

    pub(crate) fn workload(&self) -> PathBuf {
        scripts().join("workloads").join(format!("{}.sh", self.program))
    }

    /// `lua`, `clang-O2` and `lua/clang-O2` all name `lua/clang-O2`.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        [&self.program, &self.configuration, &self.name()].iter().any(|own| *own == name)
    }
}

/// The builds of a table (`accuracy.tsv`, `counting.tsv`), there or not.
pub(crate) fn table(name: &str) -> Result<Vec<Build>> {
    let table = scripts().join(name);
    let text = std::fs::read_to_string(&table).with_context(|| format!("{}", table.display()))?;
    Ok(parse(&text))
}

/// The builds of one compiler that exist, restricted to `only` if that names any.
pub(crate) fn builds(corpus: &Path, compiler: &str, only: &[String]) -> Result<Vec<Build>> {
    let mut wanted = table("accuracy.tsv")?;
    wanted.retain(|build| build.configuration.starts_with(compiler));
    existing(corpus, wanted, only)
        .with_context(|| format!("no {compiler} build: run benchmarks/corpus/fetch.sh and build.sh"))
}

/// Those of them that exist, restricted to `only` if that names any.
pub(crate) fn existing(corpus: &Path, mut wanted: Vec<Build>, only: &[String]) -> Result<Vec<Build>> {
    wanted.retain(|build| only.is_empty() || only.iter().any(|name| build.is_named(name)));
    let (there, missing): (Vec<Build>, Vec<Build>) =
        wanted.into_iter().partition(|build| build.binary(corpus, ".stripped").exists());
    for build in &missing {
        eprintln!("not built, left out: {}", build.name());
    }
    ensure!(!there.is_empty(), "nothing built in {}", corpus.display());
    Ok(there)
}

fn parse(table: &str) -> Vec<Build> {
    let mut builds = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        if let [program, version, configurations] = line.split('\t').collect::<Vec<_>>()[..] {
            builds.extend(configurations.split(',').map(|configuration| Build {
                program: program.to_owned(),
                version: version.to_owned(),
                configuration: configuration.to_owned(),
            }));
        }
    }
    builds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let builds = parse("# program\tversion\tx\nlua\t5.4.6\tclang-O2,gcc-O2\n");
        assert_eq!(builds.iter().map(Build::name).collect::<Vec<_>>(), ["lua/clang-O2", "lua/gcc-O2"]);
        assert!(builds[0].is_named("lua") && builds[0].is_named("clang-O2") && !builds[0].is_named("gcc-O2"));
        let path = builds[0].binary(Path::new("/c"), ".nomap");
        assert_eq!(path, Path::new("/c/bin/lua/5.4.6/clang-O2.nomap"));
    }
}
