//! Files that are damaged, made to do harm, or no programs at all: the tool says so, in time, and leaves
//! with a status a script can rely on.

use relive_promises::dice::Dice;
use relive_promises::{mutate, seeds};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to look at a small file, on a machine that has other things to do.
const LIMIT: Duration = Duration::from_secs(30);

/// Kilobytes of memory it may ask for.
const MEMORY: u32 = 2_000_000;

/// What came of it.
struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs `relive inspect` on whatever is at `path` and checks what holds in any case.
fn inspect(path: &Path, what: &str) -> Outcome {
    let script = format!("ulimit -v {MEMORY}; exec \"$0\" inspect \"$1\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_relive")]).arg(path);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut stderr = child.stderr.take().expect("a pipe");
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        stdout.read_to_end(&mut text).expect("a readable pipe");
        text
    });
    let complaints = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).expect("a readable pipe");
        text
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().expect("a child to end");
            child.wait().expect("a child that ended");
            panic!("{what}: still at it after {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().expect("a reader")).into_owned()
    };
    let (stdout, stderr) = (text(reader), text(complaints));
    let code = status.code().unwrap_or_else(|| panic!("{what}: {status}\n{stderr}"));
    match code {
        0 => assert!(!stdout.is_empty(), "{what}: says nothing"),
        2 => {
            assert_eq!(stdout, "", "{what}: output in spite of an error");
            assert!(stderr.starts_with("relive: "), "{what}: {stderr}");
            assert!(stderr.contains(&path.display().to_string()), "{what}: does not name the file: {stderr}");
            assert!(stderr.trim_end().ends_with(')'), "{what}: does not say what to do: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{what}: {stderr}");
        }
        _ => panic!("{what}: exit status {code}\n{stderr}"),
    }
    Outcome { code, stdout, stderr }
}

/// A folder with one file in it, written anew for each case.
struct Victim {
    path: PathBuf,
    _folder: TempDir,
}

impl Victim {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { path: folder.path().join("victim"), _folder: folder }
    }

    fn inspect(&self, bytes: &[u8], what: &str) -> Outcome {
        fs::write(&self.path, bytes).expect("a writable folder");
        inspect(&self.path, what)
    }

    /// It must be refused, and the message must hold `why`.
    fn is_refused(&self, bytes: &[u8], why: &str) {
        let outcome = self.inspect(bytes, why);
        assert_eq!(outcome.code, 2, "{why}: {}", outcome.stdout);
        assert!(outcome.stderr.contains(why), "{why}: {}", outcome.stderr);
    }
}

fn number(file: &[u8], at: usize, len: usize) -> u64 {
    file[at..at + len].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn put(file: &mut [u8], at: usize, len: usize, value: u64) {
    file[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

fn with(file: &[u8], at: usize, len: usize, value: u64) -> Vec<u8> {
    let mut changed = file.to_vec();
    put(&mut changed, at, len, value);
    changed
}

/// Where the section headers begin, and how many there are.
fn section_headers(file: &[u8]) -> (usize, usize) {
    (number(file, 40, 8) as usize, number(file, 60, 2) as usize)
}

/// The header of the first section of that type.
fn header_of(file: &[u8], kind: u64) -> usize {
    let (at, count) = section_headers(file);
    (0..count)
        .map(|i| at + i * 64)
        .find(|&header| number(file, header + 4, 4) == kind)
        .expect("such a section")
}

const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const SYMTAB: u64 = 2;
const STRTAB: u64 = 3;

#[test]
fn not_there_or_not_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |path: &Path, why: &str| {
        let outcome = inspect(path, why);
        assert_eq!(outcome.code, 2, "{why}: {}", outcome.stdout);
        assert!(outcome.stderr.contains(why), "{why}: {}", outcome.stderr);
    };
    refused(&folder.path().join("missing"), "no such file");
    refused(folder.path(), "a directory");
    refused(Path::new("/dev/zero"), "a device");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    refused(&pipe, "a pipe");
    let empty = folder.path().join("empty");
    fs::write(&empty, "").expect("a writable folder");
    refused(&empty, "empty");
    let below = empty.join("below");
    refused(&below, "no such file");
    // Permissions mean nothing to root.
    let secret = folder.path().join("secret");
    fs::write(&secret, seeds::program("static")).expect("a writable folder");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o0)).expect("permissions");
    match File::open(&secret) {
        Ok(_) => assert_eq!(inspect(&secret, "a secret").code, 0),
        Err(_) => refused(&secret, "permission denied"),
    }
}

#[test]
fn something_else() {
    let victim = Victim::new();
    for bytes in [
        &b"#!/bin/sh\nexec true\n"[..],
        b"!<arch>\n/               0           0     0     0       4         `\n\0\0\0\0",
        b"MZ\x90\0\x03\0\0\0",
        b"\x7f",
        b"\x7fEL",
        b"\0",
        &[0xff; 100],
    ] {
        victim.is_refused(bytes, "not an ELF file");
    }
    let file = seeds::program("static");
    victim.is_refused(&with(&file, 4, 1, 1), "32-bit");
    victim.is_refused(&with(&file, 5, 1, 2), "big-endian");
    victim.is_refused(&with(&file, 4, 1, 7), "another class");
    victim.is_refused(&with(&file, 18, 2, 183), "another machine (machine number 183)");
    victim.is_refused(&with(&file, 16, 2, 1), "a relocatable object");
    victim.is_refused(&with(&file, 16, 2, 4), "a core dump");
    victim.is_refused(&with(&file, 16, 2, 0), "unknown type");
    victim.is_refused(b"\x7fELF\x02\x01", "damaged");
}

#[test]
fn cut_short() {
    let victim = Victim::new();
    let file = seeds::program("dynamic");
    let (sections, count) = section_headers(&file);
    let mut lengths = vec![0, 1, 3, 4, 5, 6, 16, 20, 63, 64, 65];
    // Behind each program header, at the borders of each section, and all over.
    lengths.extend((1..=number(&file, 56, 2) as usize).map(|i| 64 + i * PROGRAM_HEADER - i % 2));
    for header in (0..count).map(|i| sections + i * SECTION_HEADER) {
        let start = number(&file, header + 24, 8) as usize;
        lengths.extend([start, start + number(&file, header + 32, 8) as usize / 2, header + 9]);
    }
    lengths.extend((0..20).map(|i| file.len() * i / 20));
    lengths.extend([file.len() - 1, file.len()]);
    lengths.sort_unstable();
    lengths.dedup();
    lengths.retain(|&len| len <= file.len());
    assert!(lengths.len() > 80, "{}", lengths.len());
    for len in lengths {
        victim.inspect(&file[..len], &format!("the first {len} bytes"));
    }
}

#[test]
fn damaged_at_random() {
    let victim = Victim::new();
    for (name, file) in seeds::programs() {
        for seed in 1000..1020 {
            let mut damaged = file.clone();
            mutate::mutate(&mut damaged, 1 << 16, &mut Dice::new(seed));
            victim.inspect(&damaged, &format!("{name} damaged with seed {seed}"));
        }
    }
}

#[test]
fn sizes_that_overflow() {
    let victim = Victim::new();
    let file = seeds::program("dynamic");
    let extremes = [u64::MAX, 1 << 63, u64::MAX - 4095];
    let mut cases = Vec::new();
    for index in 0..number(&file, 56, 2) as usize {
        // Offset, address, size in the file, size in memory.
        cases.extend([8, 16, 32, 40].map(|field| 64 + index * PROGRAM_HEADER + field));
    }
    let (sections, count) = section_headers(&file);
    for index in 0..count {
        // Address, offset, size, entry size.
        cases.extend([16, 24, 32, 56].map(|field| sections + index * SECTION_HEADER + field));
    }
    for (case, at) in cases.into_iter().enumerate() {
        let value = extremes[case % extremes.len()];
        victim.inspect(&with(&file, at, 8, value), &format!("{value:#x} at {at}"));
    }
    // A segment of code that is nearly all of the address space.
    let mut whole = file.clone();
    for index in 0..number(&file, 56, 2) as usize {
        put(&mut whole, 64 + index * PROGRAM_HEADER + 40, 8, 1 << 62);
    }
    victim.inspect(&whole, "segments as large as can be");
    for header in (1..count).map(|i| sections + i * SECTION_HEADER) {
        put(&mut whole, header + 32, 8, 1 << 61);
    }
    victim.inspect(&whole, "segments and sections as large as can be");
}

#[test]
fn counts_that_are_huge() {
    let victim = Victim::new();
    for file in [seeds::program("static"), seeds::program("dynamic")] {
        let (sections, _) = section_headers(&file);
        for (at, value) in [(56, 0xfffe), (56, 0xffff), (56, 0), (60, 0xffff), (60, 0), (62, 0xffff), (62, 0)]
        {
            victim.inspect(&with(&file, at, 2, value), &format!("{value:#x} at {at}"));
        }
        for (at, value) in [(54, 0), (54, 1), (58, 0), (58, 63), (52, 0)] {
            victim.inspect(&with(&file, at, 2, value), &format!("a size of {value} at {at}"));
        }
        // The true count of sections in the size of the first, that of segments in its info.
        let mut counted = with(&file, 60, 2, 0);
        put(&mut counted, sections + 32, 8, u64::MAX);
        victim.inspect(&counted, "as many sections as can be");
        put(&mut counted, 56, 2, 0xffff);
        put(&mut counted, sections + 44, 4, 0xffff_ffff);
        victim.inspect(&counted, "as many segments as can be");
        for (field, len) in [(40, 8), (32, 8)] {
            for value in [0, 1, 63, file.len() as u64 - 1, file.len() as u64, u64::MAX - 63, u64::MAX] {
                victim.inspect(&with(&file, field, len, value), &format!("headers at {value:#x}"));
            }
        }
    }
}

/// A program with a symbol table of our own behind its end: `(name, kind, address, size)`.
fn with_symbols(file: &[u8], symbols: impl Iterator<Item = (u32, u8, u64, u64)>) -> Vec<u8> {
    let mut file = file.to_vec();
    file.resize(file.len().next_multiple_of(8), 0);
    let start = file.len();
    file.extend([0; 24]);
    for (name, kind, address, size) in symbols {
        file.extend(name.to_le_bytes());
        file.extend([kind, 0, 1, 0]);
        file.extend(address.to_le_bytes());
        file.extend(size.to_le_bytes());
    }
    let header = header_of(&file, SYMTAB);
    let len = file.len() - start;
    put(&mut file, header + 24, 8, start as u64);
    put(&mut file, header + 32, 8, len as u64);
    file
}

#[test]
fn symbols_that_cannot_be() {
    let victim = Victim::new();
    let file = seeds::program("static");
    let (sections, count) = section_headers(&file);
    let text = (0..count)
        .map(|i| sections + i * SECTION_HEADER)
        .find(|header| number(&file, header + 8, 8) & 4 != 0)
        .expect("code");
    let (start, len) = (number(&file, text + 16, 8), number(&file, text + 32, 8));
    const FUNCTION: u8 = 0x12;
    const OBJECT: u8 = 0x11;
    const LABEL: u8 = 0x10;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "each as large as can be",
            with_symbols(&file, (0..len).map(|i| (1, FUNCTION, start + i, u64::MAX))),
        ),
        ("each within the one before", {
            with_symbols(&file, (0..len).map(|i| (1, FUNCTION, start + i, len - i)))
        }),
        ("each around the one before", {
            with_symbols(&file, (0..len).map(|i| (1, FUNCTION, start + len - i, i)))
        }),
        ("each across the next", with_symbols(&file, (0..len).map(|i| (1, FUNCTION, start + i, 7)))),
        (
            "all at one place",
            with_symbols(&file, (0..20_000).map(|i| (i % 50, FUNCTION, start, u64::from(i)))),
        ),
        ("data everywhere", with_symbols(&file, (0..len).map(|i| (1, OBJECT, start + i, u64::MAX - i)))),
        ("data in crumbs", with_symbols(&file, (0..len).map(|i| (1, OBJECT, start + i, i % 2)))),
        ("a label on every byte", with_symbols(&file, (0..len).map(|i| (1, LABEL, start + i, 0)))),
        ("all kinds", {
            with_symbols(&file, (0..4 * len).map(|i| (1, (i % 16) as u8 | 0x10, start + i / 4, i * 3)))
        }),
        ("names out of range", {
            with_symbols(&file, (0..len).map(|i| (u32::MAX - i as u32, FUNCTION, start + i, 1)))
        }),
        ("outside all code", with_symbols(&file, (0..9000).map(|i| (1, FUNCTION, i << 50, u64::MAX)))),
    ];
    for (what, bytes) in cases {
        assert_eq!(victim.inspect(&bytes, what).code, 0, "{what}");
    }
}

#[test]
fn tables_that_point_to_each_other() {
    let victim = Victim::new();
    for file in [
        seeds::program("static"),
        seeds::program("dynamic"),
        seeds::program("relocs"),
        seeds::program("dwarf"),
    ] {
        let (sections, count) = section_headers(&file);
        let header = |index: usize| sections + index * SECTION_HEADER;
        let symtab = header_of(&file, SYMTAB);
        let strtab = header_of(&file, STRTAB);
        let symtab_index = ((symtab - sections) / SECTION_HEADER) as u64;
        victim.inspect(&with(&file, symtab + 40, 4, symtab_index), "symbols whose strings are symbols");
        victim.inspect(&with(&file, symtab + 40, 4, u64::from(u32::MAX)), "symbols without strings");
        victim.inspect(&with(&file, strtab + 32, 8, 1), "strings of one byte");
        let at_symbols = number(&file, symtab + 24, 8);
        victim.inspect(&with(&file, strtab + 24, 8, at_symbols), "strings where the symbols are");
        victim.inspect(&with(&file, 62, 2, symtab_index), "section names where the symbols are");
        victim.inspect(&with(&file, 40, 8, at_symbols), "section headers where the symbols are");
        victim.inspect(&with(&file, 32, 8, sections as u64), "program headers where the section headers are");
        victim.inspect(&with(&file, 40, 8, 64), "section headers where the program headers are");
        // Every section holds the section headers, then what the next one holds; names are all the same.
        let mut circular = file.clone();
        for index in 1..count {
            put(&mut circular, header(index) + 24, 8, sections as u64);
            put(&mut circular, header(index) + 32, 8, (count * SECTION_HEADER) as u64);
        }
        victim.inspect(&circular, "sections that hold the section headers");
        let mut shifted = file.clone();
        for index in 1..count {
            let next = header(1 + index % (count - 1));
            shifted[header(index) + 24..header(index) + 40].copy_from_slice(&file[next + 24..next + 40]);
            put(&mut shifted, header(index) + 40, 4, index as u64 + 1);
            put(&mut shifted, header(index) + 44, 4, index as u64 - 1);
        }
        victim.inspect(&shifted, "sections that hold what the next one should");
        let mut nameless = file.clone();
        (0..count).for_each(|index| put(&mut nameless, header(index), 4, u64::from(u32::MAX)));
        victim.inspect(&nameless, "sections with names out of range");
    }
}
