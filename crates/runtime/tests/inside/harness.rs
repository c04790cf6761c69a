//! Puts the runtime into C programs, as the rewriter would, and reads the profiles they leave.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use object::{Object, ObjectSegment, ObjectSymbol};
use relive_abi::counters::{PLACES, area_len, key_offset, settled_len, slot_offset};
use relive_abi::parameters;
use relive_abi::rprof::{MAGIC, SlotLayout, VERSION};
use relive_runtime::IMAGE;
use tempfile::TempDir;

/// What the programs count in.
pub const LAYOUT: SlotLayout = SlotLayout { counters: 600, sites: 40, overflows: 340, modules: 4 };
/// Where slots begin in their profiles.
pub const SLOTS_OFFSET: u64 = 8192;

/// A directory with programs and profiles.
pub struct Bench {
    pub dir: TempDir,
}

/// How to link a module.
#[derive(Clone, Copy)]
pub struct Module<'a> {
    pub name: &'a str,
    pub source: &'a str,
    pub flags: u32,
    pub checksum: u64,
    pub pattern: &'a str,
    pub args: &'a [&'a str],
}

impl<'a> Module<'a> {
    /// An executable from one of the programs beside this file.
    pub fn executable(source: &'a str) -> Self {
        Module {
            name: "program",
            source,
            flags: 0,
            checksum: 0x1234_5678_9abc_def0,
            pattern: "program.rprof",
            args: &["-no-pie"],
        }
    }

    /// A library.
    pub fn library(source: &'a str) -> Self {
        let library = Module::executable(source);
        Module {
            name: "library.so",
            flags: parameters::LIBRARY,
            checksum: 77,
            pattern: "library.rprof",
            args: &["-shared", "-fPIC"],
            ..library
        }
    }
}

/// The bytes of a new profile.
pub fn new_file(checksum: u64) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend_from_slice(&MAGIC);
    for word in [VERSION, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for word in [checksum, 4096, 5, SLOTS_OFFSET] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for word in [LAYOUT.counters, LAYOUT.sites, LAYOUT.overflows, LAYOUT.modules, 4, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(b"\x01\x02\x03\x04");
    file.resize(4096, 0);
    file.extend_from_slice(b"hello");
    file.resize(SLOTS_OFFSET as usize, 0);
    file
}

/// The memory that the runtime occupies, and its symbols.
fn flatten() -> (Vec<u8>, BTreeMap<String, u64>) {
    let elf = object::File::parse(IMAGE).unwrap();
    let len = elf.segments().map(|s| s.address() + s.size()).max().unwrap();
    let mut memory = vec![0; len as usize];
    for segment in elf.segments() {
        let data = segment.data().unwrap();
        memory[segment.address() as usize..][..data.len()].copy_from_slice(data);
    }
    let symbols = elf
        .symbols()
        .filter(|s| s.name().is_ok_and(|name| name.starts_with("relive_") && !name.contains('.')));
    (memory, symbols.map(|s| (s.name().unwrap().to_owned(), s.address())).collect())
}

impl Bench {
    pub fn new() -> Self {
        let keep = std::env::var_os("RELIVE_KEEP").is_some();
        Bench { dir: tempfile::Builder::new().prefix("runtime-").disable_cleanup(keep).tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Links a module: C code, the runtime, an area and a new profile; then fills in the parameters.
    pub fn link(&self, module: &Module<'_>) -> PathBuf {
        let (memory, symbols) = flatten();
        fs::write(self.path("blob.bin"), &memory).unwrap();
        fs::write(self.path("file.bin"), new_file(module.checksum)).unwrap();
        let mut stub = String::from(
            ".section .relive, \"awx\", @progbits\n.p2align 12\n.globl relive_blob\n.hidden relive_blob\n\
             relive_blob: .incbin \"blob.bin\"\n",
        );
        for (name, at) in &symbols {
            stub += &format!(".globl {name}\n.hidden {name}\n.set {name}, relive_blob + {at}\n");
        }
        stub += &format!(
            ".bss\n.p2align 12\n.globl relive_area\n.hidden relive_area\nrelive_area: .zero {}\n\
             .globl relive_settled\n.hidden relive_settled\nrelive_settled: .zero {}\n.p2align 12\n\
             .section .rodata\n.p2align 12\n.globl relive_file\n.hidden relive_file\nrelive_file: .incbin \"file.bin\"\n\
             .globl relive_pattern\n.hidden relive_pattern\nrelive_pattern: .asciz \"{}\"\n.asciz \"module\"\n\
             .section .note.GNU-stack, \"\", @progbits\n",
            area_len(&LAYOUT),
            settled_len(LAYOUT.sites),
            module.pattern
        );
        fs::write(self.path("stub.s"), stub).unwrap();
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let out = self.path(module.name);
        let library = module.flags & parameters::LIBRARY != 0;
        let entry = if library { "-Wl,-init,relive_init" } else { "-Wl,-e,relive_start" };
        let status = Command::new(compiler())
            .current_dir(self.dir.path())
            .args(["-O1", "-mno-red-zone", "-pthread", "-Wl,--no-warn-rwx-segments", entry, "-o"])
            .arg(&out)
            .arg(format!("-DSLOT={}", slot_offset(LAYOUT.sites)))
            .args((0..PLACES).flat_map(|place| {
                let (key, next) = (key_offset(0, place), key_offset(1, place));
                let (count, another) = (LAYOUT.count_offset(0, place), LAYOUT.count_offset(1, place));
                [
                    format!("-DKEY_{place}(site)=({key}+{}*(site))", next - key),
                    format!("-DCOUNT_{place}(site)=({count}+{}*(site))", another - count),
                ]
            }))
            .arg(programs.join(module.source))
            .arg("stub.s")
            .args(module.args)
            .arg("-ldl")
            .status()
            .unwrap();
        assert!(status.success());
        self.fill_in(&out, module);
        out
    }

    /// Compiles an executable as it is.
    pub fn compile(&self, source: &str, args: &[&str]) {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let mut cc = Command::new(compiler());
        cc.current_dir(self.dir.path()).args(["-O1", "-pthread", "-DPLAIN", "-o", "program"]);
        assert!(cc.arg(programs.join(source)).args(args).arg("-ldl").status().unwrap().success());
    }

    fn fill_in(&self, path: &Path, module: &Module<'_>) {
        let mut bytes = fs::read(path).unwrap();
        let (values, offset) = {
            let elf = object::File::parse(&*bytes).unwrap();
            let symbol = |name: &str| elf.symbol_by_name(name).unwrap_or_else(|| panic!("{name}")).address();
            let here = symbol("relive_parameters");
            let library = module.flags & parameters::LIBRARY != 0;
            let next = if library { symbol("_init") } else { symbol("_start") };
            let low = elf.segments().map(|s| s.address()).min().unwrap() & !4095;
            let high = elf.segments().map(|s| s.address() + s.size()).max().unwrap();
            let values = [
                parameters::MAGIC,
                u64::from(module.flags),
                here,
                next,
                symbol("relive_area"),
                symbol("relive_file"),
                SLOTS_OFFSET,
                symbol("relive_pattern"),
                low,
                high,
                symbol("relive_settled"),
            ];
            let segment = elf.segments().find(|s| (s.address()..s.address() + s.size()).contains(&here));
            let segment = segment.unwrap();
            (values, segment.file_range().0 + here - segment.address())
        };
        for (n, value) in values.iter().enumerate() {
            bytes[offset as usize + n * 8..][..8].copy_from_slice(&value.to_le_bytes());
        }
        fs::write(path, bytes).unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path("program"));
        command.current_dir(self.dir.path()).env_remove("RELIVE_PROFILE").args(args);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the program, which must say nothing and succeed.
    #[track_caller]
    pub fn run_quietly(&self, args: &[&str]) {
        let output = self.run(args);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert!(output.status.success(), "{}", output.status);
    }

    /// Starts the program and waits until it has said something.
    pub fn start(&self, args: &[&str]) -> Running {
        use std::io::Read;
        let mut child = self.command(args).stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().unwrap();
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        Running { child }
    }

    pub fn profile(&self, name: &str) -> Profile {
        Profile { bytes: fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}")) }
    }
}

/// A program that waits for the end of its input.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A profile, as bytes.
pub struct Profile {
    pub bytes: Vec<u8>,
}

impl Profile {
    pub fn slots(&self) -> usize {
        let slots = self.bytes.len() - SLOTS_OFFSET as usize;
        assert_eq!(slots % LAYOUT.len() as usize, 0);
        slots / LAYOUT.len() as usize
    }

    pub fn word(&self, slot: usize, at: u64) -> u64 {
        let at = SLOTS_OFFSET as usize + slot * LAYOUT.len() as usize + at as usize;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    pub fn counter_in(&self, slot: usize, n: u64) -> u64 {
        self.word(slot, LAYOUT.counters_offset() + n * 8)
    }

    /// The sum over all slots.
    pub fn counter(&self, n: u64) -> u64 {
        (0..self.slots()).map(|slot| self.counter_in(slot, n)).sum()
    }

    pub fn runs(&self) -> u64 {
        (0..self.slots()).map(|slot| self.word(slot, 8)).sum()
    }

    pub fn lost(&self) -> u64 {
        (0..self.slots()).map(|slot| self.word(slot, 24) & 0xffff_ffff).fold(0, |a, b| a | b)
    }

    /// Counts by site and target, over all slots.
    pub fn targets(&self) -> BTreeMap<(u32, u64), u64> {
        let mut targets = BTreeMap::new();
        for slot in 0..self.slots() {
            for site in 0..LAYOUT.sites {
                let at = LAYOUT.sites_offset() + u64::from(site) * 16;
                let (target, count) = (self.word(slot, at), self.word(slot, at + 8));
                if target != 0 || count != 0 {
                    *targets.entry((site, target)).or_default() += count;
                }
            }
            let used = self.word(slot, 16) & 0xffff_ffff;
            let shared = u64::from(LAYOUT.shared_overflows());
            assert!(used <= shared);
            for n in (0..used).chain(shared..shared + u64::from(LAYOUT.sites)) {
                let at = LAYOUT.overflows_offset() + n * 24;
                let site = self.word(slot, at) as u32;
                if n >= used && self.word(slot, at + 16) == 0 {
                    continue;
                }
                *targets.entry((site, self.word(slot, at + 8))).or_default() += self.word(slot, at + 16);
            }
        }
        targets
    }
}

/// The C compiler: tried with those of other C libraries too.
fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".into())
}
