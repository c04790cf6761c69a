//! Traces against those of Valgrind's lackey: every instruction of a program's own code, and every access it makes.
//!
//! Both write the same text, `relive replay --format lackey` and `valgrind --tool=lackey --trace-mem=yes`. Memory lies elsewhere under
//! Valgrind, and libc chooses other code as Valgrind's processor has other instructions. So what is compared is the program
//! itself, by place: how often each instruction was executed, how often it read and wrote and how many bytes, and a hash of how
//! far apart its accesses were, one after the other. An instruction that repeats itself is written down for each time by lackey, and
//! counts once here. Valgrind is told not to make code better: otherwise it leaves out loads that nobody needs, unrolls loops, and executes
//! code that a condition may keep from being executed where that is harmless.
//!
//! What depends on where memory lies differs between two runs without Valgrind too, as each has its memory elsewhere. To test a bit of
//! a register whose number is in another, Valgrind puts it on the stack, and lackey tells of that; to exchange a register with memory, it
//! reads that twice. Valgrind's `long double` has 64 bits, which sqlite notices, and then computes in another way. There is a signal
//! less under Valgrind, and other things that a program may ask for are otherwise: breakpoints tell how often an instruction is
//! executed natively, and how registers went from time to time, by which it reaches memory. A place that differs for none of these reasons is a mistake.

use crate::corpus;
use crate::oracle::breakpoints::{Breakpoints, FACTOR, Hits};
use crate::process::output_of;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSegment, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::Range;
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
    /// Programs [default: all: bzip2, lua, sqlite, c++, gzip, xz, sort, sed, awk, python3]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// So much text is packed, sorted and searched
    #[arg(long, default_value_t = 20_000)]
    bytes: usize,
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

impl Did {
    /// How often it was executed, what it accessed, and how far apart that was.
    fn facts(self) -> [(u64, [u64; 3]); 3] {
        [(self.times, [0; 3]), (self.bytes, self.accesses), (self.steps, [0; 3])]
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [loads, stores, both] = self.accesses;
        write!(
            f,
            "{} times, {loads} loads, {stores} stores, {both} of both, {} bytes, last at {:#x}",
            self.times, self.bytes, self.last
        )
    }
}

/// By place in the file.
type All = BTreeMap<u64, Did>;

/// A program and what it is to do.
struct Subject {
    name: &'static str,
    binary: PathBuf,
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<u64> {
    let corpus =
        options.corpus.canonicalize().with_context(|| format!("no corpus: {}", options.corpus.display()))?;
    let relive = options.relive.canonicalize().context("no relive: --relive names it")?;
    let scratch = tempfile::tempdir()?;
    let mut table = Table::new(&[
        "program",
        "places",
        "instructions",
        "loads",
        "stores",
        "executed as often",
        "accesses as many",
        "addresses as far apart",
        "not as in another run",
        "Valgrind's processor",
        "as breakpoints count",
        "not explained",
    ]);
    let bench = Bench {
        relive: &relive,
        scratch: scratch.path(),
        environment: environment()?,
        breakpoints: Breakpoints::compile(scratch.path())?,
    };
    let mut violations = 0;
    for subject in subjects(&corpus, scratch.path(), options)? {
        eprintln!("{}", subject.name);
        let compared = compare(&subject, &bench)?;
        violations += compared.unexplained as u64;
        table.row(compared.row(subject.name));
    }
    println!("\n{table}\nviolations: {violations}");
    Ok(violations)
}

/// The programs that there are and that are asked for.
fn subjects(corpus: &Path, scratch: &Path, options: &Options) -> Result<Vec<Subject>> {
    let small = scratch.join("small");
    let text =
        std::fs::read(corpus.join("inputs/prep/mix_train")).context("no inputs: fetch.sh brings them")?;
    std::fs::write(&small, &text[..text.len().min(options.bytes)])?;
    let script = scratch.join("script.lua");
    std::fs::write(&script, LUA)?;
    let virtual_calls = scratch.join("virtual");
    let source = corpus::scripts().join("drivers/virtual.cc");
    output_of(Command::new("g++").arg("-O2").arg(source).arg("-o").arg(&virtual_calls))?;
    let (small, script) = (text_of(&small), text_of(&script));
    let (small, script) = (&*small, &*script);
    let all: [(&str, PathBuf, &[&str]); 10] = [
        ("bzip2", corpus.join("bin/bzip2/1.0.8/gcc-O2"), &["-9", "-c", small]),
        ("lua", corpus.join("bin/lua/5.4.6/gcc-O2"), &[script]),
        ("sqlite", corpus.join("bin/sqlite/3.46.0/gcc-O2"), &["--memdb", "--size", "1", "--testset", "orm"]),
        ("c++", virtual_calls, &["20000"]),
        ("gzip", "/usr/bin/gzip".into(), &["-9", "-c", small]),
        ("xz", "/usr/bin/xz".into(), &["-1", "-c", small]),
        ("sort", "/usr/bin/sort".into(), &[small]),
        ("sed", "/usr/bin/sed".into(), &["s/[a-f][^ ]*e/<&>/g", small]),
        ("awk", "/usr/bin/mawk".into(), &["{n[$1]+=NF} END {for (k in n) s+=n[k]; print s}", small]),
        ("python3", "/usr/bin/python3".into(), &["-S", "-I", "-c", PYTHON]),
    ];
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|own| own == name);
    let subjects = all.into_iter().filter(|(name, binary, _)| is_wanted(name) && binary.exists());
    Ok(subjects
        .map(|(name, binary, arguments)| Subject {
            name,
            binary,
            arguments: arguments.iter().map(ToString::to_string).collect(),
        })
        .collect())
}

/// What all programs are recorded with.
struct Bench<'a> {
    relive: &'a Path,
    scratch: &'a Path,
    /// What there is under Valgrind, in the order in which it is there: python3 makes a table of it.
    environment: Vec<String>,
    breakpoints: Breakpoints,
}

/// So many places that are not explained are shown of each program.
const SHOWN: usize = 30;

/// While places are not explained, programs are recorded up to so many times more, with their memory elsewhere: what python3 does goes
/// by where in its chunks of memory something lies, which few runs have differently.
const MORE: usize = 6;

/// What was found of a program.
#[derive(Default)]
struct Compared {
    places: usize,
    instructions: u64,
    accesses: [u64; 3],
    /// Places that do not agree with lackey: how often they were executed, their accesses, how far apart these were.
    differ: [usize; 3],
    /// Of these, those that another run has otherwise too.
    elsewhere: usize,
    /// Those at which Valgrind is another processor.
    other_processor: usize,
    /// And those that are executed as often natively as relive says.
    natively: usize,
    unexplained: usize,
}

/// A place at which relive and lackey do not agree.
struct Difference {
    place: u64,
    is_other: [bool; 3],
}

fn compare(subject: &Subject, bench: &Bench<'_>) -> Result<Compared> {
    let shape = shape(&subject.binary)?;
    let ours = bench.record(subject, &shape, true)?;
    let theirs = bench.trace(subject, &shape)?;
    let places: BTreeSet<u64> = ours.keys().chain(theirs.keys()).copied().collect();
    let mut compared = Compared {
        places: places.len(),
        instructions: ours.values().map(|did| did.times).sum(),
        accesses: std::array::from_fn(|kind| ours.values().map(|did| did.accesses[kind]).sum()),
        ..Compared::default()
    };
    let of = |all: &All, place: u64| all.get(&place).copied().unwrap_or_default().facts();
    let mut open = Vec::new();
    for place in places {
        let (own, lackey) = (of(&ours, place), of(&theirs, place));
        let is_other: [bool; 3] = std::array::from_fn(|fact| own[fact] != lackey[fact]);
        for (differ, is_other) in compared.differ.iter_mut().zip(is_other) {
            *differ += usize::from(is_other);
        }
        if is_other.contains(&true) {
            open.push(Difference { place, is_other });
        }
    }
    // Takes away those that are explained by something, and says how many they were.
    let settle = |open: &mut Vec<Difference>, is_explained: &dyn Fn(&Difference) -> bool| {
        let before = open.len();
        open.retain(|difference| !is_explained(difference));
        before - open.len()
    };
    compared.other_processor = settle(&mut open, &|it| {
        shape.emulated.contains(&it.place) && !it.is_other[0] || shape.is_inexact(it.place)
    });
    let mut varies: BTreeMap<u64, [bool; 3]> = BTreeMap::new();
    for _ in 0..MORE {
        if open.is_empty() {
            break;
        }
        let other = bench.record(subject, &shape, false)?;
        for it in &open {
            let (own, other) = (of(&ours, it.place), of(&other, it.place));
            let varies = varies.entry(it.place).or_default();
            (0..own.len()).for_each(|fact| varies[fact] |= own[fact] != other[fact]);
        }
        compared.elsewhere += settle(&mut open, &|it| {
            it.is_other.iter().zip(varies[&it.place]).all(|(is_other, varies)| !is_other || varies)
        });
    }
    if !open.is_empty() {
        let hits = bench.natively(subject, &open)?;
        compared.natively = settle(&mut open, &|it| {
            let did = ours.get(&it.place).copied().unwrap_or_default();
            let Some(reached) = hits.get(&it.place) else { return false };
            let as_far_apart =
                || access(&subject.binary, it.place).is_some_and(|by| by.steps(&reached.steps) == did.steps);
            reached.times == did.times && (it.is_other[0] || as_far_apart())
        });
    }
    compared.unexplained = open.len();
    for Difference { place, .. } in open.iter().take(SHOWN) {
        let [own, lackey] = [&ours, &theirs].map(|all| all.get(place).copied().unwrap_or_default());
        eprintln!("  {place:#x}: {own}, lackey {lackey}");
    }
    Ok(compared)
}

/// How an instruction reaches memory: registers and by what they are multiplied.
struct Access(Vec<(usize, u64)>);

impl Access {
    /// How addresses went, by how registers went.
    fn steps(&self, steps: &[u64; 16]) -> u64 {
        self.0.iter().fold(0, |sum, &(register, scale)| sum.wrapping_add(steps[register].wrapping_mul(scale)))
    }
}

/// That of the instruction at a place, as a disassembler tells it; of one that reaches memory once, by an operand that is written down.
fn access(binary: &Path, place: u64) -> Option<Access> {
    let to = |name: &str, address: u64| format!("--{name}-address={address:#x}");
    let mut listing = Command::new("llvm-objdump-19");
    listing.args(["-d", "--no-show-raw-insn", &to("start", place), &to("stop", place + 1)]).arg(binary);
    let text = output_of(&mut listing).ok()?;
    let instruction = text.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{place:x}:")))?;
    let (_, operand) = instruction.split_once('(')?;
    let mut parts = operand.split_once(')')?.0.split(',').map(str::trim);
    let number = |name: &str| REGISTERS.iter().position(|own| name.strip_prefix('%') == Some(own));
    let mut registers = Vec::new();
    if let Some(base) = parts.next().filter(|base| !base.is_empty()) {
        registers.push((number(base)?, 1));
    }
    if let Some(index) = parts.next() {
        registers.push((number(index)?, parts.next().map_or(Some(1), |scale| scale.parse().ok())?));
    }
    Some(Access(registers))
}

/// As instructions number them.
const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];

impl Compared {
    fn row(&self, name: &str) -> Vec<String> {
        let as_there = |wrong: usize| format!("{} of {}", self.places - wrong, self.places);
        let [loads, stores, both] = self.accesses;
        let mut cells = vec![name.to_owned()];
        cells.extend(
            [self.places as u64, self.instructions, loads + both, stores + both].map(|n| n.to_string()),
        );
        cells.extend(self.differ.map(as_there));
        cells.extend(
            [self.elsewhere, self.other_processor, self.natively, self.unexplained].map(|n| n.to_string()),
        );
        cells
    }
}

impl Bench<'_> {
    /// What a program's own instructions do, as relive has it; with its memory where it mostly is, or somewhere.
    fn record(&self, subject: &Subject, shape: &Shape, is_fixed: bool) -> Result<All> {
        let file = self.scratch.join("own.rtrace");
        let mut recording = self.command(is_fixed);
        recording.arg(self.relive).args(["trace", "-q", "-o"]).arg(&file).arg("--");
        // As under lackey, standard error is a pipe: programs look at that.
        output_of(recording.arg(&subject.binary).args(&subject.arguments))?;
        let mut replaying = Command::new(self.relive);
        replaying.arg("replay").arg(&file).args(["--format", "lackey"]).stdout(Stdio::piped());
        read(&mut replaying, false, shape)
    }

    /// The same, as lackey has it.
    fn trace(&self, subject: &Subject, shape: &Shape) -> Result<All> {
        let mut tracing = valgrind();
        tracing.args(["--trace-mem=yes", "--log-fd=2", "--vex-guest-chase=no", "--vex-iropt-level=0"]);
        tracing.arg(&subject.binary).args(&subject.arguments);
        read(tracing.stdout(Stdio::null()).stderr(Stdio::piped()), true, shape)
    }

    /// How often these places are executed with memory where it mostly is.
    fn natively(&self, subject: &Subject, open: &[Difference]) -> Result<Hits> {
        let places = open.iter().map(|it| it.place).collect();
        self.breakpoints.count(&places, |words| {
            let mut running = self.command(true);
            output_of(running.args(words).arg(&subject.binary).args(&subject.arguments)).map(drop)
        })
    }

    /// Runs what is added to it with the environment of Valgrind's programs.
    fn command(&self, is_fixed: bool) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.arg("-i").args(&self.environment).stdin(Stdio::null()).stdout(Stdio::null());
        if is_fixed {
            command.args(["setarch", "-R"]);
        }
        command
    }
}

/// What Valgrind adds to the environment of programs, they may look at: they have the same without it.
fn environment() -> Result<Vec<String>> {
    Ok(output_of(valgrind().args(["-q", "/usr/bin/env"]))?.lines().map(str::to_owned).collect())
}

/// Little that is in the environment depends on who runs it.
fn valgrind() -> Command {
    let mut command = Command::new("valgrind");
    command.env_clear().envs([("PATH", "/usr/bin:/bin"), ("LC_ALL", "C"), ("PYTHONHASHSEED", "0")]);
    command.arg("--tool=lackey").stdin(Stdio::null());
    command
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Little, as lackey needs a microsecond for each instruction.
const PYTHON: &str =
    "print(sum(len(str(i * i)) for i in range(2000)), sorted({i: -i for i in range(500)}.values())[3])";

/// Nothing in it depends on where tables lie: strings are not hashed with addresses.
const LUA: &str = "\
local t = {}
for i = 1, 4000 do t[i] = (i * 7919) % 10007 end
table.sort(t)
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local s = 0
for i = 1, #t do s = s + t[i] // 3 end
io.write(s, ' ', fib(15), '\\n')
";

/// Where a program begins to execute, and from where to where its code lies; all as linked.
struct Shape {
    entry: u64,
    code: Range<u64>,
    /// It lies where it was linked for.
    is_fixed: bool,
    /// Where an instruction may begin that Valgrind does with more accesses.
    emulated: BTreeSet<u64>,
    /// Functions that compute with `long double` if that is more exact.
    inexact: Vec<Range<u64>>,
}

/// Such functions, by name: those of sqlite that print numbers.
const INEXACT: [&str; 2] = ["sqlite3_str_vappendf", "dekkerMul2"];

impl Shape {
    fn is_inexact(&self, place: u64) -> bool {
        self.inexact.iter().any(|function| function.contains(&place))
    }
}

/// `bt`, `bts`, `btr`, `btc` of two registers, or `xchg` of one with memory; without what may be before.
fn is_emulated(code: &[u8]) -> bool {
    matches!(code, [0x0f, 0xa3 | 0xab | 0xb3 | 0xbb, 0xc0..=0xff, ..] | [0x86 | 0x87, ..0xc0, ..])
}

fn shape(binary: &Path) -> Result<Shape> {
    let bytes = std::fs::read(binary)?;
    let file = object::File::parse(&*bytes)?;
    let segment = file
        .segments()
        .find(|segment| (segment.address()..segment.address() + segment.size()).contains(&file.entry()));
    let segment = segment.context("a program without code")?;
    let code = segment.address()..segment.address() + segment.size();
    let bytes = segment.data()?;
    let at = (0..bytes.len()).filter(|&at| is_emulated(&bytes[at..]));
    // A prefix for wide registers may be before it.
    let emulated = at.flat_map(|at| (at.saturating_sub(1)..=at).map(|at| code.start + at as u64)).collect();
    let is_named = |symbol: &object::Symbol<'_, '_>| symbol.name().is_ok_and(|name| INEXACT.contains(&name));
    let inexact = file.symbols().filter(is_named).map(|it| it.address()..it.address() + it.size()).collect();
    let is_fixed = file.kind() == object::ObjectKind::Executable;
    Ok(Shape { entry: file.entry(), code, is_fixed, emulated, inexact })
}

/// What the program's own instructions did, by what a command writes.
fn read(command: &mut Command, is_valgrind: bool, shape: &Shape) -> Result<All> {
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let out: Box<dyn std::io::Read> = match is_valgrind {
        true => Box::new(child.stderr.take().context("no output")?),
        false => Box::new(child.stdout.take().context("no output")?),
    };
    let mut lines = BufReader::with_capacity(1 << 20, out);
    let mut all = All::new();
    let entry = shape.entry;
    let (mut base, mut now) = (shape.is_fixed.then_some(0), None);
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
            now = base.map(|base| address.wrapping_sub(base)).filter(|place| shape.code.contains(place));
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
                did.steps = did.steps.wrapping_mul(FACTOR).wrapping_add(step);
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
