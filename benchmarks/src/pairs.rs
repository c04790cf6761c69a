//! Two versions of one program: neighbours in `sources.tsv`, and the oldest with the newest. `releases.tsv` tells how many
//! releases lie between them.

use crate::corpus::{self, Build};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;

/// An old build and a new one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) old: Build,
    pub(crate) new: Build,
    /// Releases between the two, in the corpus or not.
    pub(crate) between: usize,
    pub(crate) kind: Kind,
}

/// What a pair is an example of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Consecutive,
    /// Neighbours in the corpus with releases between them.
    Jump,
    /// The oldest and the newest version of a program that has others in between.
    Distant,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Consecutive, Self::Jump, Self::Distant];

    /// The first cells of the row of its average.
    pub(crate) fn cells(self) -> Vec<String> {
        let name = match self {
            Self::Consecutive => "**consecutive releases**",
            Self::Jump => "**jumps over releases**",
            Self::Distant => "**oldest to newest**",
        };
        title(name)
    }
}

/// The names of the first columns of a table of pairs.
pub(crate) const COLUMNS: [&str; 4] = ["program", "old", "new", "between"];

/// The first cells of a row that is not about one pair.
pub(crate) fn title(name: &str) -> Vec<String> {
    let mut cells = vec![String::new(); COLUMNS.len()];
    name.clone_into(&mut cells[0]);
    cells
}

impl Pair {
    /// `lua 5.4.4 5.4.6`
    pub(crate) fn name(&self) -> String {
        format!("{} {} {}", self.old.program, self.old.version, self.new.version)
    }

    /// The first cells of its row.
    pub(crate) fn cells(&self) -> Vec<String> {
        let Self { old, new, between, .. } = self;
        vec![old.program.clone(), old.version.clone(), new.version.clone(), between.to_string()]
    }
}

/// The pairs of all programs of which at least two versions are built, restricted to the programs in `only` if it names
/// any. Without a configuration: gcc -O2, and what there is of Rust programs.
pub(crate) fn existing(corpus: &Path, configuration: Option<&str>, only: &[String]) -> Result<Vec<Pair>> {
    let table = read("releases.tsv")?;
    let releases = releases(&table);
    let mut pairs = Vec::new();
    for mut versions in parse(&read("sources.tsv")?, configuration) {
        versions.retain(|build| only.is_empty() || only.contains(&build.program));
        let (there, missing): (Vec<Build>, Vec<Build>) =
            versions.into_iter().partition(|build| build.binary(corpus, ".stripped").exists());
        for build in &missing {
            eprintln!("not built, left out: {} {} {}", build.program, build.version, build.configuration);
        }
        pairs.extend(of(&there, &releases)?);
    }
    let remedy = configuration.map(|name| format!(" --cfg {name}")).unwrap_or_default();
    ensure!(!pairs.is_empty(), "no two versions of a program: run fetch.sh --all and build.sh --all{remedy}");
    Ok(pairs)
}

fn read(table: &str) -> Result<String> {
    let table = corpus::scripts().join(table);
    std::fs::read_to_string(&table).with_context(|| format!("{}", table.display()))
}

/// Neighbours first, then the most distant two, if they are not neighbours.
fn of(versions: &[Build], releases: &BTreeMap<&str, Vec<&str>>) -> Result<Vec<Pair>> {
    let pair = |old: &Build, new: &Build, distant| {
        let between = between(old, new, releases)?;
        let kind = match between {
            _ if distant => Kind::Distant,
            0 => Kind::Consecutive,
            _ => Kind::Jump,
        };
        Ok(Pair { old: old.clone(), new: new.clone(), between, kind })
    };
    let mut pairs: Vec<Pair> =
        versions.windows(2).map(|two| pair(&two[0], &two[1], false)).collect::<Result<_>>()?;
    if let [oldest, _, .., newest] = versions {
        pairs.push(pair(oldest, newest, true)?);
    }
    Ok(pairs)
}

fn between(old: &Build, new: &Build, releases: &BTreeMap<&str, Vec<&str>>) -> Result<usize> {
    let place = |build: &Build| {
        let known = releases.get(build.program.as_str()).into_iter().flatten();
        let place = known.copied().position(|release| release == build.version);
        place.with_context(|| format!("releases.tsv has no {} {}", build.program, build.version))
    };
    let (old_place, new_place) = (place(old)?, place(new)?);
    ensure!(old_place < new_place, "{} {} is no older than {}", old.program, old.version, new.version);
    Ok(new_place - old_place - 1)
}

/// The releases of each program, in their order.
fn releases(table: &str) -> BTreeMap<&str, Vec<&str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('\t'))
        .map(|(program, all)| (program, all.split(' ').collect()))
        .collect()
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
        let releases = releases("# program\nlua\t1 2 2.1 3\nrg\t1 2\n");
        let pairs = of(&programs[0], &releases).unwrap();
        let names: Vec<String> = pairs.iter().map(Pair::name).collect();
        assert_eq!(names, ["lua 1 2", "lua 2 3", "lua 1 3"]);
        let kinds: Vec<(usize, Kind)> = pairs.iter().map(|pair| (pair.between, pair.kind)).collect();
        assert_eq!(kinds, [(0, Kind::Consecutive), (1, Kind::Jump), (2, Kind::Distant)]);
        assert_eq!(of(&programs[1], &releases).unwrap().len(), 1);
        assert!(of(&programs[0], &BTreeMap::from([("lua", vec!["1", "3"])])).is_err());
        assert!(of(&programs[1], &BTreeMap::from([("rg", vec!["2", "1"])])).is_err());
    }

    #[test]
    fn every_version_of_the_corpus_is_a_release() {
        let (sources, table) = (read("sources.tsv").unwrap(), read("releases.tsv").unwrap());
        let releases = releases(&table);
        for versions in parse(&sources, None).iter().filter(|versions| versions.len() > 1) {
            of(versions, &releases).unwrap();
        }
    }
}
