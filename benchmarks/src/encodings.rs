//! How small the same trace is when it is written down in other ways: those of the paper on DEP, and lackey's text.
//!
//! Of each program, the first so many instructions of each thread are recorded. `crates/trace/examples/encodings.rs` replays them and
//! writes them down in each way; what lackey writes is read up to as many instructions.

use crate::overhead::subjects::Subject;
use crate::process::output_of;
use crate::table::Table;
use crate::traces;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What writes a trace down in other ways
    #[arg(long, default_value = "target/release/examples/encodings")]
    encodings: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// How many million instructions of each program
    #[arg(long, default_value_t = 100, value_name = "MILLION")]
    instructions: u64,
    /// Leave lackey out, which takes a minute for each hundred million
    #[arg(long)]
    no_lackey: bool,
    /// Programs [default: those below]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

const PROGRAMS: [&str; 6] = ["bzip2", "lua", "sqlite", "gzip", "python3", "c++"];

/// What is asked of each way: its name, and what is above its column.
const CONTROL: [(&str, &str); 4] =
    [("bb_pc", "4-byte block"), ("cf_bit", "bits"), ("dep_c", "DEPc, paper"), ("tags", "relive")];
const MEMORY: [(&str, &str); 4] = [
    ("mem_addr", "8-byte address"),
    ("mem_addr_4", "4-byte"),
    ("mem_delta", "difference"),
    ("values", "relive"),
];

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let encodings = options.encodings.canonicalize().context(
        "no encodings: `cargo build --release -p relive-trace --example encodings` makes it, --encodings names it",
    )?;
    let scratch = tempfile::tempdir()?;
    let only: Vec<String> = match options.only.is_empty() {
        true => PROGRAMS.map(String::from).to_vec(),
        false => options.only.clone(),
    };
    let all = traces::programs(&corpus, scratch.path(), &only)?;
    ensure!(!all.is_empty(), "nothing to measure: --only names {}", PROGRAMS.join(", "));
    let mut control = Sizes::new("control flow", &CONTROL, "stored_control");
    let mut memory = Sizes::new("memory", &MEMORY, "stored_memory");
    let mut whole = Table::new(&["both", "M instructions", "stored", "lackey", "lackey zstd"]);
    for subject in &all {
        let Some(binary) = subject.binary(&subject.configuration) else { continue };
        eprintln!("{}", subject.name);
        let trace = scratch.path().join("part.rtrace");
        let runner = format!(
            "{} trace -q --stop {}000000 -o {} --",
            relive.display(),
            options.instructions,
            trace.display()
        );
        let output = subject.command(&binary, &runner, scratch.path()).stdout(Stdio::null()).output()?;
        ensure!(output.status.success(), "{}: {}", subject.name, String::from_utf8_lossy(&output.stderr));
        let ways = Ways::read(&output_of(Command::new(&encodings).arg(&trace))?)?;
        control.row(&subject.name, &ways)?;
        memory.row(&subject.name, &ways)?;
        let instructions = ways.get("instructions")?[0];
        let each = |bytes: u64, of: u64| format!("{:.4}", bytes as f64 / of.max(1) as f64);
        let mut cells = vec![
            subject.name.clone(),
            (instructions / 1_000_000).to_string(),
            each(ways.get("stored")?[0], instructions),
        ];
        if !options.no_lackey {
            let lackey = lackey(subject, &binary, instructions, scratch.path())?;
            cells.extend([lackey.text, lackey.packed].map(|bytes| each(bytes, lackey.instructions)));
        }
        whole.row(cells);
    }
    println!("\n{}\n{}\n{whole}", control.finish(), memory.finish());
    println!(
        "Bytes for each instruction, of the first {} million instructions of each thread; then zstd -3 of that.",
        options.instructions
    );
    Ok(0)
}

/// How many bytes each way takes, and packed.
struct Ways(HashMap<String, Vec<u64>>);

impl Ways {
    fn read(text: &str) -> Result<Self> {
        let line = |line: &str| -> Result<(String, Vec<u64>)> {
            let mut words = line.split('\t');
            let name = words.next().unwrap_or_default().to_owned();
            Ok((name, words.map(str::parse).collect::<Result<_, _>>()?))
        };
        text.lines().map(line).collect::<Result<_>>().map(Self)
    }

    fn get(&self, name: &str) -> Result<&[u64]> {
        self.0
            .get(name)
            .map(Vec::as_slice)
            .filter(|numbers| !numbers.is_empty())
            .with_context(|| format!("no {name}"))
    }
}

/// A table of ways, each before and behind zstd, and what is stored; with geometric means.
struct Sizes {
    ways: &'static [(&'static str, &'static str)],
    stored: &'static str,
    table: Table,
    logs: Vec<f64>,
    rows: u32,
}

impl Sizes {
    fn new(what: &str, ways: &'static [(&'static str, &'static str)], stored: &'static str) -> Self {
        let mut header = vec![what.to_owned()];
        header.extend(ways.iter().flat_map(|(_, name)| [(*name).to_owned(), "zstd".to_owned()]));
        header.push("stored".to_owned());
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        Self { ways, stored, table: Table::new(&header), logs: vec![0.0; ways.len() * 2 + 1], rows: 0 }
    }

    fn row(&mut self, program: &str, ways: &Ways) -> Result<()> {
        let instructions = ways.get("instructions")?[0].max(1) as f64;
        let mut figures = Vec::new();
        for name in self.ways.iter().map(|(name, _)| *name).chain([self.stored]) {
            figures.extend(ways.get(name)?.iter().map(|bytes| *bytes as f64 / instructions));
        }
        self.logs.iter_mut().zip(&figures).for_each(|(sum, figure)| *sum += figure.ln());
        self.rows += 1;
        self.cells(program, &figures);
        Ok(())
    }

    fn cells(&mut self, name: &str, figures: &[f64]) {
        let cells = [name.to_owned()].into_iter().chain(figures.iter().map(|figure| format!("{figure:.4}")));
        self.table.row(cells.collect());
    }

    fn finish(mut self) -> Table {
        let means: Vec<f64> = self.logs.iter().map(|sum| (sum / f64::from(self.rows)).exp()).collect();
        self.cells("**geometric mean**", &means);
        self.table
    }
}

/// What lackey writes.
struct Lackey {
    instructions: u64,
    text: u64,
    packed: u64,
}

/// Reads what lackey writes of a program, up to so many instructions.
fn lackey(subject: &Subject, binary: &Path, most: u64, scratch: &Path) -> Result<Lackey> {
    let pipe = scratch.join(format!("lackey-{}", subject.name));
    output_of(Command::new("mkfifo").arg(&pipe))?;
    let runner = format!("valgrind -q --tool=lackey --trace-mem=yes --log-file={}", pipe.display());
    let mut command = subject.command(binary, &runner, scratch);
    let errors = scratch.join("lackey.err");
    command.process_group(0).stdout(Stdio::null()).stderr(File::create(&errors)?);
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let mut lines = BufReader::with_capacity(1 << 20, File::open(&pipe)?);
    let mut packer = zstd::stream::write::Encoder::new(Counted(0), 3)?;
    let (mut instructions, mut text, mut line) = (0, 0, Vec::new());
    while instructions < most && {
        line.clear();
        lines.read_until(b'\n', &mut line)? > 0
    } {
        instructions += u64::from(line.starts_with(b"I "));
        text += line.len() as u64;
        packer.write_all(&line)?;
    }
    // The rest would take an hour.
    output_of(Command::new("kill").arg("-KILL").arg("--").arg(format!("-{}", child.id())))?;
    child.wait()?;
    ensure!(instructions > 0, "lackey: {}", std::fs::read_to_string(errors)?);
    Ok(Lackey { instructions, text, packed: packer.finish()?.0 })
}

/// Counts what is written to it.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
