//! Traces against those of Valgrind's lackey: every instruction of a program's own code, and every access it makes.
//!
//! Both write the same text, `relive replay --format lackey` and `valgrind --tool=lackey --trace-mem=yes`. Memory lies elsewhere under
//! Valgrind, and libc chooses other code as Valgrind's processor has other instructions. So what is compared is the program
//! itself, by place: how often each instruction was executed, how often it read and wrote and how many bytes, and a hash of how
//! far apart its accesses were, one after the other. An instruction that repeats itself is written down for each time by lackey, and
//! counts once here. Valgrind is told not to execute code that a condition may keep from being executed, which it otherwise does
//! where that is harmless.

use crate::table::Table;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSegment};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The binary under test
    #[arg(long, default_value = "target/release/relive")]
    relive: PathBuf,
    /// What benchmarks/corpus/build.sh made
    #[arg(long, env = "CORPUS_DIR", default_value = "target/corpus")]
    corpus: PathBuf,
    /// Programs [default: bzip2, lua, sqlite]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// What one instruction did.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Did {
    times: u64,
    accesses: [u64; 3],
    bytes: u64,
    last: u64,
    steps: u64,
}

/// By place in the file.
type All = BTreeMap<u64, Did>;

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let scratch = tempfile::tempdir()?;
    let small = scratch.path().join("small");
    let text =
        std::fs::read(corpus.join("inputs/prep/mix_train")).context("no inputs: fetch.sh brings them")?;
    std::fs::write(&small, &text[..text.len().min(100_000)])?;
    let script = scratch.path().join("script.lua");
    std::fs::write(&script, LUA)?;
    let subjects = [
        ("bzip2", "bin/bzip2/1.0.8/gcc-O2", vec!["-9".into(), "-c".into(), small.into_os_string()]),
        ("lua", "bin/lua/5.4.6/gcc-O2", vec![script.into_os_string()]),
        (
            "sqlite",
            "bin/sqlite/3.46.0/gcc-O2",
            ["--memdb", "--size", "1", "--testset", "main"].map(Into::into).to_vec(),
        ),
    ];
    let mut table = Table::new(&[
        "program",
        "places",
        "instructions",
        "accesses",
        "executed as often",
        "accesses as many",
        "addresses as far apart",
    ]);
    let mut violations = 0;
    for (name, binary, arguments) in subjects {
        let binary = corpus.join(binary);
        if !(options.only.is_empty() || options.only.iter().any(|own| own == name)) || !binary.exists() {
            continue;
        }
        eprintln!("{name}");
        let (own, range) = shape(&binary)?;
        let trace = scratch.path().join("own.rtrace");
        let mut recording = Command::new("setarch");
        recording
            .arg("-R")
            .arg(&relive)
            .args(["trace", "-q", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(&binary)
            .args(&arguments);
        let status = recording.stdout(Stdio::null()).status()?;
        ensure!(status.success(), "{name} under relive: {status}");
        let mut replaying = Command::new(&relive);
        replaying.arg("replay").arg(&trace).args(["--format", "lackey"]).stdout(Stdio::piped());
        let ours = read(&mut replaying, false, own, &range)?;
        let mut tracing = Command::new("valgrind");
        tracing
            .args([
                "--tool=lackey",
                "--trace-mem=yes",
                "--log-fd=2",
                "--vex-guest-chase=no",
                "--vex-iropt-unroll-thresh=0",
            ])
            .arg(&binary)
            .args(&arguments);
        tracing.stdout(Stdio::null()).stderr(Stdio::piped());
        let theirs = read(&mut tracing, true, own, &range)?;
        let places: std::collections::BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
        let of = |all: &All, place: u64| all.get(&place).copied().unwrap_or_default();
        let differ = |what: fn(&Did) -> (u64, [u64; 3], u64)| {
            places.iter().filter(|place| what(&of(&ours, **place)) != what(&of(&theirs, **place))).count()
        };
        let executed = differ(|did| (did.times, [0; 3], 0));
        let accessed = differ(|did| (0, did.accesses, did.bytes));
        let apart = differ(|did| (0, [0; 3], did.steps));
        let sum = |of: fn(&Did) -> u64| ours.values().map(of).sum::<u64>();
        let share = |wrong: usize| format!("{} of {}", places.len() - wrong, places.len());
        table.row(vec![
            name.to_owned(),
            places.len().to_string(),
            sum(|did| did.times).to_string(),
            sum(|did| did.accesses.iter().sum()).to_string(),
            share(executed),
            share(accessed),
            share(apart),
        ]);
        violations += (executed + accessed) as u64;
    }
    println!("\n{table}\nviolations: {violations}");
    Ok(violations)
}

/// Nothing in it depends on where tables lie: strings are not hashed with addresses.
const LUA: &str = "\
local t = {}
for i = 1, 20000 do t[i] = (i * 7919) % 10007 end
table.sort(t)
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local s = 0
for i = 1, #t do s = s + t[i] // 3 end
io.write(s, ' ', fib(20), '\\n')
";

/// Where a program begins to execute, and from where to where its code lies; all as linked.
fn shape(binary: &Path) -> Result<(u64, std::ops::Range<u64>)> {
    let bytes = std::fs::read(binary)?;
    let file = object::File::parse(&*bytes)?;
    let segment = file
        .segments()
        .find(|segment| (segment.address()..segment.address() + segment.size()).contains(&file.entry()));
    let segment = segment.context("a program without code")?;
    Ok((file.entry(), segment.address()..segment.address() + segment.size()))
}

/// What the program's own instructions did, by what a command writes.
fn read(command: &mut Command, is_valgrind: bool, entry: u64, range: &std::ops::Range<u64>) -> Result<All> {
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let out: Box<dyn std::io::Read> = match is_valgrind {
        true => Box::new(child.stderr.take().context("no output")?),
        false => Box::new(child.stdout.take().context("no output")?),
    };
    let mut lines = BufReader::with_capacity(1 << 20, out);
    let mut all = All::new();
    let (mut base, mut now) = (None, None);
    let mut line = Vec::new();
    while {
        line.clear();
        lines.read_until(b'\n', &mut line)?
    } > 0
    {
        let Some((kind, address, size)) = parse(&line) else { continue };
        if kind == b'I' {
            // The loader comes first. The program has been moved by a multiple of a page.
            if base.is_none() && address & 0xfff == entry & 0xfff && is_program(address, is_valgrind) {
                base = Some(address - entry);
            }
            let before = now;
            now = base.map(|base| address.wrapping_sub(base)).filter(|place| range.contains(place));
            if let Some(place) = now.filter(|_| now != before) {
                all.entry(place).or_default().times += 1;
            }
        } else if let Some(place) = now {
            let did = all.entry(place).or_default();
            let kind = match kind {
                b'L' => 0,
                b'S' => 1,
                _ => 2,
            };
            did.accesses[kind] += 1;
            did.bytes += size;
            let step = address.wrapping_sub(did.last);
            if did.last != 0 {
                did.steps = did.steps.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(step);
            }
            did.last = address;
        }
    }
    child.wait()?;
    ensure!(base.is_some(), "the beginning of the program was not found");
    Ok(all)
}

/// Where a program that can be anywhere is put, and no library: by Valgrind, and by the kernel.
fn is_program(address: u64, is_valgrind: bool) -> bool {
    let places = if is_valgrind { 0x10_0000..0x400_0000 } else { 0x5000_0000_0000..0x6000_0000_0000 };
    places.contains(&address)
}

fn parse(line: &[u8]) -> Option<(u8, u64, u64)> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let (head, rest) = line.split_at_checked(3)?;
    let kind = match head {
        "I  " => b'I',
        " L " => b'L',
        " S " => b'S',
        " M " => b'M',
        _ => return None,
    };
    let (address, size) = rest.split_once(',')?;
    Some((kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}
