//! What is measured: the workloads of the corpus, a compiler, threads, and tight loops.

use super::variant::{Column, Ready};
use crate::corpus::{self, Build};
use crate::process::output_of;
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Corpus,
    Long,
    Threads,
    Loops,
}

enum Work {
    /// A workload script of the corpus, and which of its workloads.
    Script(PathBuf, &'static str),
    /// The program with these arguments.
    Arguments(Vec<OsString>),
}

enum Source {
    /// Builds of the corpus.
    Corpus(Build),
    /// Builds made here, `folder/<configuration>`.
    Folder(PathBuf),
    /// One file, as it is.
    File(PathBuf),
}

pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) group: Group,
    /// The configuration that relive rewrites.
    pub(crate) configuration: String,
    /// Some programs look at their name.
    pub(crate) file_name: String,
    corpus: PathBuf,
    source: Source,
    work: Work,
    /// `step` is called so often.
    steps: Option<u64>,
}

/// Loops and how often each goes round: 0.1 to 0.3 s.
const LOOPS: [(&str, u64); 8] = [
    ("one", 500_000_000),
    ("two", 500_000_000),
    ("three", 500_000_000),
    ("four", 500_000_000),
    ("chase", 200_000_000),
    ("scan", 500_000_000),
    ("branch", 400_000_000),
    ("call", 100_000_000),
];
const STEPS: u64 = 5_000_000;

pub(crate) fn all(corpus: &Path, scratch: &Path, only: &[String]) -> Result<Vec<Subject>> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|own| own == name);
    let mut subjects = Vec::new();
    for build in corpus::table("accuracy.tsv")? {
        if ["gcc-O2", "rustc-O2"].contains(&build.configuration.as_str())
            && wanted(&build.program)
            && build.binary(corpus, ".stripped").exists()
        {
            subjects.push(Subject {
                name: build.program.clone(),
                group: Group::Corpus,
                configuration: build.configuration.clone(),
                file_name: build.program.clone(),
                corpus: corpus.to_owned(),
                work: Work::Script(build.workload(), "train"),
                source: Source::Corpus(build),
                steps: None,
            });
        }
    }
    if wanted("cc1") {
        subjects.extend(compiler(corpus, scratch)?);
    }
    if wanted("threads") {
        let folder = build_driver("threads", &["-pthread"], scratch)?;
        for threads in [1, 2, 4] {
            let arguments = vec![threads.to_string().into(), STEPS.to_string().into()];
            let name = format!("{threads} threads");
            let mut subject = driver(name, Group::Threads, "threads", &folder, arguments, corpus);
            subject.steps = Some(threads * STEPS);
            subjects.push(subject);
        }
    }
    if wanted("loops") {
        let folder = build_driver("loops", &[], scratch)?;
        for (name, times) in LOOPS {
            let arguments = vec![name.into(), times.to_string().into()];
            subjects.push(driver(format!("loop: {name}"), Group::Loops, "loops", &folder, arguments, corpus));
        }
    }
    Ok(subjects)
}

/// Lets programs of the corpus that have more to do do it, so that what happens once does not count for much.
pub(crate) fn lengthen(subjects: &mut [Subject]) {
    const LONGER: [&str; 3] = ["bzip2", "lua", "sqlite"];
    for subject in subjects.iter_mut().filter(|s| LONGER.contains(&s.name.as_str())) {
        if let Work::Script(_, mode) = &mut subject.work {
            *mode = "long";
        }
    }
}

/// Programs as they are installed, and one in C++, for what needs no rewriting.
pub(crate) fn installed(corpus: &Path, scratch: &Path, only: &[String]) -> Result<Vec<Subject>> {
    let drivers = corpus::scripts().join("drivers");
    let subject = |name: &str, file: PathBuf, arguments: Vec<OsString>| Subject {
        name: name.to_owned(),
        group: Group::Long,
        configuration: "as installed".to_owned(),
        file_name: name.to_owned(),
        corpus: corpus.to_owned(),
        source: Source::File(file),
        work: Work::Arguments(arguments),
        steps: None,
    };
    let mut subjects = Vec::new();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|own| own == name);
    if wanted("gzip")
        && let Some(source) = sqlite_source(corpus)?
    {
        let arguments = vec!["-9".into(), "-c".into(), source.into_os_string()];
        subjects.push(subject("gzip", "/bin/gzip".into(), arguments));
    }
    if wanted("python3") {
        let script = drivers.join("objects.py").into_os_string();
        subjects.push(subject("python3", "/usr/bin/python3".into(), vec![script]));
    }
    if wanted("c++") {
        let out = scratch.join("virtual");
        output_of(Command::new("g++").arg("-O2").arg(drivers.join("virtual.cc")).arg("-o").arg(&out))?;
        subjects.push(subject("c++", out, Vec::new()));
    }
    Ok(subjects)
}

fn driver(
    name: String,
    group: Group,
    file_name: &str,
    folder: &Path,
    arguments: Vec<OsString>,
    corpus: &Path,
) -> Subject {
    Subject {
        name,
        group,
        configuration: "gcc-O2".to_owned(),
        file_name: file_name.to_owned(),
        corpus: corpus.to_owned(),
        source: Source::Folder(folder.to_owned()),
        work: Work::Arguments(arguments),
        steps: None,
    }
}

/// cc1 itself, compiling sqlite.
fn compiler(corpus: &Path, scratch: &Path) -> Result<Option<Subject>> {
    let cc1 = output_of(Command::new("gcc").arg("-print-prog-name=cc1"))?;
    let Some(source) = sqlite_source(corpus)? else { return Ok(None) };
    let preprocessed = scratch.join("sqlite3.i");
    output_of(Command::new("gcc").arg("-E").arg(&source).arg("-o").arg(&preprocessed))?;
    let mut arguments: Vec<OsString> = ["-fpreprocessed", "-quiet", "-O2", "-o"].map(OsString::from).into();
    arguments.extend([scratch.join("sqlite3.s").into_os_string(), preprocessed.into_os_string()]);
    Ok(Some(Subject {
        name: "cc1 -O2 sqlite3.c".to_owned(),
        group: Group::Long,
        configuration: "as installed".to_owned(),
        file_name: "cc1".to_owned(),
        corpus: corpus.to_owned(),
        source: Source::File(cc1.trim().into()),
        work: Work::Arguments(arguments),
        steps: None,
    }))
}

/// The source of sqlite in one file, if it was fetched.
fn sqlite_source(corpus: &Path) -> Result<Option<PathBuf>> {
    let sqlite = corpus::table("accuracy.tsv")?.into_iter().find(|build| build.program == "sqlite");
    let sqlite = sqlite.context("no sqlite in accuracy.tsv")?;
    let source = corpus.join("src/sqlite").join(&sqlite.version).join("sqlite3.c");
    if !source.exists() {
        eprintln!("not fetched, left out: what is done with {}", source.display());
        return Ok(None);
    }
    Ok(Some(source))
}

/// A driver in every configuration that a column needs.
fn build_driver(name: &str, flags: &[&str], scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join(name);
    std::fs::create_dir(&folder)?;
    let table = std::fs::read_to_string(corpus::scripts().join("configs.tsv"))?;
    for column in Column::ALL {
        let configuration = column.configuration("gcc-O2");
        let out = folder.join(configuration);
        if out.exists() {
            continue;
        }
        let line = table.lines().find(|line| line.split('\t').next() == Some(configuration));
        let columns: Vec<&str> = line.context("not in configs.tsv")?.split('\t').collect();
        ensure!(columns.len() == 4, "configs.tsv: {configuration} has not four columns");
        let mut command = Command::new(columns[1]);
        command
            .arg(corpus::scripts().join("drivers").join(format!("{name}.c")))
            .args(columns[3].split_whitespace())
            .args(flags)
            .arg("-o")
            .arg(&out);
        output_of(&mut command)?;
    }
    Ok(folder)
}

impl Subject {
    pub(crate) fn binary(&self, configuration: &str) -> Option<PathBuf> {
        let path = match &self.source {
            Source::Corpus(build) => {
                Build { configuration: configuration.to_owned(), ..build.clone() }.binary(&self.corpus, "")
            }
            Source::Folder(folder) => folder.join(configuration),
            Source::File(file) if configuration == self.configuration => file.clone(),
            Source::File(_) => return None,
        };
        path.exists().then_some(path)
    }

    /// `runner` is put before the program.
    pub(crate) fn command(&self, binary: &Path, runner: &str, scratch: &Path) -> Command {
        let mut command = match &self.work {
            Work::Script(script, mode) => {
                let mut command = Command::new("bash");
                command
                    .arg(script)
                    .arg(mode)
                    .env("CORPUS_DIR", &self.corpus)
                    .env("BIN", binary)
                    .env("RUNNER", runner);
                command
            }
            Work::Arguments(arguments) => {
                let mut words = runner.split(' ');
                let mut command = Command::new(words.next().unwrap_or_default());
                command.args(words).arg(binary).args(arguments);
                command
            }
        };
        command.env("TMPDIR", scratch).current_dir(scratch).stdin(Stdio::null());
        command
    }

    /// Known work must have been counted in full, however many threads did it.
    pub(crate) fn check(&self, relive: &Path, ready: &[(Column, Ready)], scratch: &Path) -> Result<()> {
        let Some(steps) = self.steps else { return Ok(()) };
        for (column, ready) in ready.iter().filter(|(column, _)| column.is_ours()) {
            let Ready::Binary(binary) = ready else { continue };
            super::timed::run(self, binary, scratch)?;
            let profile = scratch.join("profiles/relive.rprof");
            let text = output_of(Command::new(relive).arg("dump").arg(profile).arg("--functions"))?;
            let row = text.lines().find(|line| line.split('\t').nth(1) == Some("step"));
            let entries = row.and_then(|row| row.split('\t').nth(5)).unwrap_or("none");
            ensure!(
                entries == steps.to_string(),
                "{}: step ran {steps} times, counted {entries}",
                column.name()
            );
        }
        Ok(())
    }
}
