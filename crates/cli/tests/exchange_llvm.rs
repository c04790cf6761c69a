//! `relive export --format llvm-sample` with llvm-profdata and clang themselves.

mod support;

use relive_testkit::compile::{Compiled, compile};
use std::path::Path;
use std::process::Command;
use support::versions::profile;
use support::{relive, stdout, text};

/// A branch that is expected to go one way and goes the other, a function that is inlined at two places, and a computed call.
const PROGRAM: &str = r#"#include <stdio.h>
#include <stdlib.h>
static inline int pick(int x) {
  if (x % 100 == 7)
    return x * 3;
  return x + 1;
}
__attribute__((noinline)) int work(int n, int s) {
  for (int i = 0; i < n; i++) {
    if (__builtin_expect(i % 50 == 3, 1))
      s += pick(s);
    else
      s ^= pick(i);
  }
  return s;
}
__attribute__((noinline)) static int up(int x) { return x + 2; }
__attribute__((noinline)) static int down(int x) { return x - 1; }
int (*volatile step[2])(int) = { up, down };
int main(int argc, char **argv) {
  int s = 0;
  for (int r = 0; r < 200; r++) {
    s += work(1000, r);
    s = step[r % 10 == 0](s);
    if (argc > 3)
      s += rand();
  }
  printf("%d\n", s);
  return 0;
}
"#;

const FLAGS: [&str; 3] = ["-O2", "-gline-tables-only", "-fdebug-info-for-profiling"];

fn exported(program: &Compiled, folder: &Path) -> String {
    let measured = profile(folder, "program", program);
    let samples = folder.join("program.prof");
    stdout(&["export", &measured, "--format", "llvm-sample", "-o", text(&samples)]);
    text(&samples).to_string()
}

fn succeed(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert!(output.status.success(), "{command:?}: {}", texts[1]);
    texts.into()
}

#[test]
fn profdata_reads_it_and_clang_uses_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let samples = exported(&compile("clang-19", &FLAGS, ("program.c", PROGRAM)), folder.path());
    let (shown, _) =
        succeed(Command::new("llvm-profdata-19").args(["merge", "--sample", "--text", &samples, "-o", "-"]));
    // Lines from the declaration; what was inlined is below the line of the call.
    let lines = [
        "work:804400:200\n",
        "\n 3: 4000\n",
        "\n 5: 196000\n",
        "\n 5: pick:196000\n  1: 196000\n",
        "up:180:180\n",
    ];
    for line in lines {
        assert!(shown.contains(line), "{line:?}: {shown}");
    }
    assert!(shown.contains("\n 4: 200 up:180 down:20\n"), "{shown}");
    let source = folder.path().join("program.c");
    std::fs::write(&source, PROGRAM).expect("written");
    let by = format!("-fprofile-sample-use={samples}");
    let ll = folder.path().join("program.ll");
    let mut clang = Command::new("clang-19");
    clang.args(FLAGS).args([
        by.as_str(),
        "-Werror",
        "-Wall",
        "-Rpass=sample-profile-inline",
        "-S",
        "-emit-llvm",
    ]);
    let (_, remarks) = succeed(clang.arg("-o").arg(&ll).arg(&source));
    assert!(remarks.contains("'pick' inlined into 'work' to match profiling context"), "{remarks}");
    let ir = std::fs::read_to_string(&ll).expect("written");
    // One more than was counted: clang takes no function of the profile for one that is never called.
    for metadata in [
        r#""function_entry_count", i64 201}"#,
        r#""function_entry_count", i64 181}"#,
        r#""branch_weights", i32 201, i32 199800}"#,
    ] {
        assert!(ir.contains(metadata), "{metadata}: {ir}");
    }
}

#[test]
fn without_debug_information_there_is_nothing_to_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("clang-19", &["-O2"], ("program.c", PROGRAM));
    let measured = profile(folder.path(), "program", &program);
    let out = folder.path().join("program.prof");
    let output = relive(&["export", &measured, "--format", "llvm-sample", "-o", text(&out)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("debug information") && said.contains("-fdebug-info-for-profiling"), "{said}");
    assert!(!out.exists());
}
