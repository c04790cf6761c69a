//! The peer: BOLT's stale matching on the same pairs and with the same old profile.
//!
//! relive measures the old and the new build. The old profile goes to BOLT as fdata, from there to YAML (only YAML carries
//! the hashes that stale matching needs), and BOLT fits it to the new build. The fresh profile and the one that relive
//! carried go through BOLT as well, as fdata of the new build: so all three are compared block by block and edge by edge in
//! BOLT's coordinates, within the functions whose control flow BOLT understands. What lies outside of those is a column
//! of its own, and so is what `relive evaluate` says of the whole program.

mod counts;
mod fdata;
mod graph;

use crate::carry::score::{Score, cell, migrate};
use crate::corpus::Build;
use crate::dump;
use crate::oracle::listing::Listing;
use crate::pairs::{self, Pair};
use crate::profiles::{self, Profiles};
use crate::table::Table;
use anyhow::{Context, Result, bail};
use counts::{Counts, costliest, overlap};
use graph::Graph;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh --all --cfg gcc-O2-relocs made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// llvm-bolt
    #[arg(long, default_value = "/usr/lib/llvm-19/bin/llvm-bolt")]
    bolt: PathBuf,
    /// Profiles are kept here, and used again
    #[arg(long, default_value = "target/carry")]
    work: PathBuf,
    /// Programs [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// The linker has to keep relocations for BOLT.
const CONFIGURATION: &str = "gcc-O2-relocs";

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let folder = profiles::folder(&options.work)?;
    let scratch = tempfile::tempdir()?;
    let peer = Peer {
        profiles: Profiles { relive: &relive, corpus: &corpus, folder: &folder },
        bolt: &options.bolt,
        scratch: scratch.path(),
    };
    let mut subjects: BTreeMap<String, Result<Subject>> = BTreeMap::new();
    let mut rows = Vec::new();
    for pair in pairs::existing(&corpus, Some(CONFIGURATION), &options.only)? {
        eprintln!("{}", pair.name());
        let key = |build: &Build| format!("{} {}", build.program, build.version);
        for build in [&pair.old, &pair.new] {
            subjects.entry(key(build)).or_insert_with(|| peer.subject(build));
        }
        let row = match (&subjects[&key(&pair.old)], &subjects[&key(&pair.new)]) {
            (Ok(old), Ok(new)) => peer.compare(old, new),
            (Err(error), _) | (_, Err(error)) => Err(anyhow::anyhow!("{error:#}")),
        };
        rows.push((pair, row));
    }
    Ok(report(&rows))
}

struct Peer<'a> {
    profiles: Profiles<'a>,
    bolt: &'a Path,
    scratch: &'a Path,
}

/// A build, its fresh profile, and what BOLT makes of both.
struct Subject {
    file: PathBuf,
    profile: PathBuf,
    graph: Graph,
    listing: Listing,
    /// The fresh profile as BOLT writes it: what its stale matching starts from.
    yaml: PathBuf,
    fresh: Counts,
    /// The share of executed instructions in functions that BOLT has nothing of.
    left_out: f64,
}

/// Shares between 0 and 1.
struct Row {
    bolt_blocks: f64,
    bolt_edges: f64,
    relive: Result<Carried>,
    left_out: f64,
}

struct Carried {
    blocks: f64,
    edges: f64,
    /// Functions of which the most is missing, and how much of the overlap that costs.
    costliest: Vec<(String, f64)>,
    whole: Score,
}

impl Peer<'_> {
    fn subject(&self, build: &Build) -> Result<Subject> {
        let file = build.named(self.profiles.corpus);
        let profile = self.profiles.of(build, &file, 1)?.remove(0);
        let cfg = self.bolt(&file, &["--print-cfg", "--enable-bat"])?;
        let graph = Graph::parse(&cfg)?;
        if graph.functions().next().is_none() {
            bail!("llvm-bolt --print-cfg printed no function of {}: {}", file.display(), cfg.trim());
        }
        let listing = Listing::of(&file)?;
        let yaml = self.scratch.join(format!("{}-{}.yaml", build.program, build.version));
        let mut subject =
            Subject { file, profile, graph, listing, yaml, fresh: Counts::default(), left_out: 0.0 };
        subject.fresh = self.through_bolt(&subject, &subject.profile, &subject.yaml)?;
        subject.left_out = self.left_out(&subject)?;
        Ok(subject)
    }

    /// A profile of the subject, by way of BOLT.
    fn through_bolt(&self, subject: &Subject, profile: &Path, yaml: &Path) -> Result<Counts> {
        let relive = self.profiles.relive;
        let (blocks, edges) = (dump::blocks(relive, profile)?, dump::edges(relive, profile)?);
        let fdata = self.scratch.join("profile.fdata");
        std::fs::write(&fdata, fdata::of(&blocks, &edges, &subject.graph, &subject.listing))?;
        self.profile(subject, &fdata, &[], yaml)
    }

    /// Has BOLT read a profile for a subject and write down what it made of it.
    fn profile(&self, subject: &Subject, data: &Path, options: &[&str], yaml: &Path) -> Result<Counts> {
        if yaml.exists() {
            std::fs::remove_file(yaml)?;
        }
        let (data, out) = (format!("-data={}", data.display()), format!("-w={}", yaml.display()));
        let said = self.bolt(&subject.file, &[&[data.as_str(), out.as_str()], options].concat())?;
        let text = std::fs::read_to_string(yaml)
            .with_context(|| format!("llvm-bolt wrote no profile: {}", said.trim()))?;
        let simple: std::collections::BTreeSet<&str> = subject
            .graph
            .functions()
            .filter(|function| function.simple)
            .map(|function| function.name.as_str())
            .collect();
        Counts::parse(&text, |name| simple.contains(name))
    }

    /// Runs BOLT, and returns what it prints. It may well fail in the end, when it writes code for functions it did not
    /// understand; only the profile is of interest here, and that is written before.
    fn bolt(&self, file: &Path, options: &[&str]) -> Result<String> {
        let mut command = Command::new(self.bolt);
        command.arg(file).arg("-o").arg(self.scratch.join("rewritten")).args(options);
        let output = command.output().with_context(|| format!("cannot run {}", self.bolt.display()))?;
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            said.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        Ok(said)
    }

    fn left_out(&self, subject: &Subject) -> Result<f64> {
        let (mut all, mut missing) = (0, 0);
        for function in dump::functions(self.profiles.relive, &subject.profile)? {
            let instructions = function.instructions.unwrap_or(0);
            let known = subject.graph.at(function.address).is_some_and(|own| subject.fresh.knows(&own.name));
            all += instructions;
            missing += if known { 0 } else { instructions };
        }
        Ok(missing as f64 / all.max(1) as f64)
    }

    fn compare(&self, old: &Subject, new: &Subject) -> Result<Row> {
        let yaml = self.scratch.join("inferred.yaml");
        let inferred = self.profile(new, &old.yaml, &["--infer-stale-profile"], &yaml)?;
        Ok(Row {
            bolt_blocks: overlap(&inferred.blocks, &new.fresh.blocks),
            bolt_edges: overlap(&inferred.edges, &new.fresh.edges),
            relive: self.carried(old, new),
            left_out: new.left_out,
        })
    }

    fn carried(&self, old: &Subject, new: &Subject) -> Result<Carried> {
        let carried = self.scratch.join("carried.rprof");
        migrate(self.profiles.relive, &old.profile, &new.file, &carried)?;
        let counts = self.through_bolt(new, &carried, &self.scratch.join("carried.yaml"))?;
        Ok(Carried {
            blocks: overlap(&counts.blocks, &new.fresh.blocks),
            edges: overlap(&counts.edges, &new.fresh.edges),
            costliest: costliest(&counts, &new.fresh, 4),
            whole: Score::take(self.profiles.relive, &carried, &new.profile)?,
        })
    }
}

fn report(rows: &[(Pair, Result<Row>)]) -> u64 {
    let own = [
        "BOLT blocks",
        "BOLT edges",
        "relive blocks",
        "relive edges",
        "BOLT leaves out",
        "relive, whole program: blocks",
        "edges",
    ];
    let mut table = Table::new(&[&pairs::COLUMNS[..], &own].concat());
    let mut violations = 0;
    for (pair, row) in rows {
        let mut cells = pair.cells();
        match row {
            Err(error) => {
                println!("{}: {error:#}", pair.name());
                violations += 1;
            }
            Ok(row) => {
                cells.extend([row.bolt_blocks, row.bolt_edges].map(|share| cell(Some(share))));
                let carried = match &row.relive {
                    Ok(carried) => Some(carried),
                    Err(error) => {
                        println!("{}: {error:#}", pair.name());
                        violations += 1;
                        None
                    }
                };
                if let Some(carried) = carried
                    && (carried.blocks < row.bolt_blocks || carried.edges < row.bolt_edges)
                {
                    let costs = carried.costliest.iter();
                    let costs: Vec<String> =
                        costs.map(|(name, cost)| format!("{name} {}", cell(Some(*cost)))).collect();
                    println!("{}: BOLT recovers more; missing here: {}", pair.name(), costs.join(", "));
                    violations += 1;
                }
                cells.extend([
                    cell(carried.map(|own| own.blocks)),
                    cell(carried.map(|own| own.edges)),
                    cell(Some(row.left_out)),
                    cell(carried.map(|own| own.whole.overlap)),
                    cell(carried.map(|own| own.whole.edge_overlap)),
                ]);
            }
        }
        table.row(cells);
    }
    println!(
        "\n{table}\nOverlap with the fresh profile in percent, within the functions BOLT understands; *leaves out*: \
         executed instructions in the others. violations: {violations}"
    );
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::Kind;

    #[test]
    fn recovering_less_is_a_violation() {
        let build = |version: &str| Build {
            program: "lua".to_owned(),
            version: version.to_owned(),
            configuration: CONFIGURATION.to_owned(),
        };
        let row = |edges| {
            let whole = Score { bp: 1.0, cc: 1.0, overlap: 1.0, edge_overlap: 1.0, matched_counts: 1.0 };
            let relive = Ok(Carried { blocks: 0.9, edges, costliest: Vec::new(), whole });
            let pair = Pair { old: build("1"), new: build("2"), between: 0, kind: Kind::Consecutive };
            (pair, Ok(Row { bolt_blocks: 0.9, bolt_edges: 0.8, relive, left_out: 0.1 }))
        };
        assert_eq!(report(&[row(0.8)]), 0);
        assert_eq!(report(&[row(0.85), row(0.79)]), 1);
    }
}
