//! Two versions of one program: neighbours in `sources.tsv`, and the oldest with the newest.

use crate::corpus::{self, Build};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// An old build and a new one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) old: Build,
    pub(crate) new: Build,
    /// The oldest and the newest version of a program that has others in between.
    pub(crate) distant: bool,
}

impl Pair {
    /// `lua 5.4.4 5.4.6`
    pub(crate) fn name(&self) -> String {
        format!("{} {} {}", self.old.program, self.old.version, self.new.version)
    }

    /// The first cells of its row.
    pub(crate) fn cells(&self) -> Vec<String> {
        vec![self.old.program.clone(), self.old.version.clone(), self.new.version.clone()]
    }
}

/// The pairs of all programs of which at least two versions are built, restricted to the programs in `only` if it names
/// any. Without a configuration: gcc -O2, and what there is of Rust programs.
pub(crate) fn existing(corpus: &Path, configuration: Option<&str>, only: &[String]) -> Result<Vec<Pair>> {
    let table = corpus::scripts().join("sources.tsv");
    let text = std::fs::read_to_string(&table).with_context(|| format!("{}", table.display()))?;
    let mut pairs = Vec::new();
    for mut versions in parse(&text, configuration) {
        versions.retain(|build| only.is_empty() || only.contains(&build.program));
        let (there, missing): (Vec<Build>, Vec<Build>) =
            versions.into_iter().partition(|build| build.binary(corpus, ".stripped").exists());
        for build in &missing {
            eprintln!("not built, left out: {} {} {}", build.program, build.version, build.configuration);
        }
        pairs.extend(of(&there));
    }
    let remedy = configuration.map(|name| format!(" --cfg {name}")).unwrap_or_default();
    ensure!(!pairs.is_empty(), "no two versions of a program: run fetch.sh --all and build.sh --all{remedy}");
    Ok(pairs)
}

/// Neighbours first, then the most distant two, if they are not neighbours.
fn of(versions: &[Build]) -> Vec<Pair> {
    let pair = |old: &Build, new: &Build, distant| Pair { old: old.clone(), new: new.clone(), distant };
    let mut pairs: Vec<Pair> = versions.windows(2).map(|two| pair(&two[0], &two[1], false)).collect();
    if let [oldest, _, .., newest] = versions {
        pairs.push(pair(oldest, newest, true));
    }
    pairs
}

/// The versions of each program, in the order of the table, which is that of their release.
fn parse(table: &str, configuration: Option<&str>) -> Vec<Vec<Build>> {
    let mut programs: Vec<Vec<Build>> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [program, version, language, ..] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
        let usual = if language == "Rust" { "rustc-O2" } else { "gcc-O2" };
        let build = Build {
            program: program.to_owned(),
            version: version.to_owned(),
            configuration: configuration.unwrap_or(usual).to_owned(),
        };
        match programs.last_mut() {
            Some(versions) if versions[0].program == program => versions.push(build),
            _ => programs.push(vec![build]),
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_and_the_most_distant() {
        let table = "# program\nlua\t1\tC\t\nlua\t2\tC\t\nlua\t3\tC\t\nrg\t1\tRust\t\nrg\t2\tRust\t\n";
        let programs = parse(table, None);
        assert_eq!(programs.len(), 2);
        assert_eq!(programs[1][0].configuration, "rustc-O2");
        let names: Vec<String> = of(&programs[0]).iter().map(Pair::name).collect();
        assert_eq!(names, ["lua 1 2", "lua 2 3", "lua 1 3"]);
        assert!(of(&programs[0])[2].distant && !of(&programs[1])[0].distant);
        assert_eq!(of(&programs[1]).len(), 1);
    }
}
