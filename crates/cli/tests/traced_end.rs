//! How traces end when somebody is killed.

mod support;

use relive_testkit::compile::{Compiled, compile};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{relive, text};

/// Counts in a file: where in its memory that is, which process it is, and how far it has come. Ends at some number.
const COUNTS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR);
    volatile long *words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    words[0] = (long)&words[2];
    words[1] = getpid();
    for (long end = atol(argv[2]); words[2] < end;) words[2]++;
    return 7;
}
"#;

/// A program that counts, and its file.
struct Counting {
    program: Compiled,
    folder: tempfile::TempDir,
}

impl Counting {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("count"), [0; 4096]).expect("a file");
        Self { program: compile("gcc", &["-O1"], ("counts.c", COUNTS)), folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("count")
    }

    fn trace(&self, options: &[&str], end: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relive"));
        command.arg("trace").args(options).arg("--").args([&*self.program, &*self.file()]).arg(end);
        command.stderr(Stdio::null()).spawn().expect("it starts")
    }

    /// Where it counts, which process it is, and how far it has come.
    fn words(&self) -> [u64; 3] {
        let bytes = std::fs::read(self.file()).expect("the file");
        std::array::from_fn(|i| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().expect("eight bytes")))
    }

    fn wait(&self, mut until: impl FnMut(u64) -> bool) {
        let begun = Instant::now();
        while !until(self.words()[2]) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.words());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How often it is told that the counter was written.
    fn told(&self, trace: &Path) -> u64 {
        let output = relive(&["replay", "--mem", text(trace)]);
        assert!(output.status.success(), "{output:?}");
        let address = format!("\t{:x}\t8\tw", self.words()[0]);
        String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.ends_with(&address)).count() as u64
    }
}

fn signal(name: &str, process: u64) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().expect("kill").success());
}

#[test]
fn nothing_is_lost_of_a_process_that_is_killed() {
    let counting = Counting::new();
    let trace = counting.folder.path().join("trace");
    let mut tool = counting.trace(&["-q", "-o", text(&trace)], "1000000000000");
    // Several buffers of it.
    counting.wait(|count| count > 300_000);
    signal("-KILL", counting.words()[1]);
    assert!(!tool.wait().expect("it ends").success());
    let (told, done) = (counting.told(&trace), counting.words()[2]);
    // What it was doing when it was killed was not over.
    assert!(told == done || told + 1 == done, "{told} of {done}");
}

#[test]
fn a_program_goes_on_without_the_tool() {
    let counting = Counting::new();
    let mut tool = counting.trace(&["-q", "--no-store"], "20000000");
    counting.wait(|count| count > 1000);
    // Now nobody makes room for what it writes down: it waits.
    signal("-STOP", tool.id().into());
    let mut last = 0;
    counting.wait(|count| {
        std::thread::sleep(Duration::from_millis(200));
        std::mem::replace(&mut last, count) == count
    });
    assert!(counting.words()[2] < 20_000_000);
    tool.kill().expect("it is there");
    tool.wait().expect("it ends");
    counting.wait(|count| count == 20_000_000);
}
