//! Compiles fixtures: small programs whose tables a test reads and compares with what another tool
//! says of them.
//!
//! Tests assume that the compilers are installed and fail where they are not: a skipped test proves
//! nothing.

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A compiled file. It lies in a directory of its own, which goes when this value goes.
#[derive(Debug)]
pub struct Compiled {
    path: PathBuf,
    _dir: TempDir,
}

impl Compiled {
    /// The whole file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }
}

impl Deref for Compiled {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<OsStr> for Compiled {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}

/// Runs `compiler args… -o OUTPUT NAME`, where `source` is `(NAME, text)`; the name's ending tells
/// the language.
///
/// `compile("clang-19", &["-O2"], ("main.c", "int main(void) { return 0; }"))`. It suits every
/// compiler with that command line, among them `go` with `build` as its first argument: Go is told
/// to do without modules and C.
///
/// # Panics
///
/// If the compiler is missing or refuses the source; its complaint is in the message.
#[must_use]
pub fn compile(compiler: &str, args: &[&str], (name, text): (&str, &str)) -> Compiled {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = dir.path().join(name);
    let path = dir.path().join("output");
    std::fs::write(&source, text).expect("a writable temporary directory");
    let mut command = Command::new(compiler);
    command.args(args).arg("-o").arg(&path).arg(&source);
    command.env("GO111MODULE", "off").env("CGO_ENABLED", "0");
    run(command);
    Compiled { path, _dir: dir }
}

/// What a program prints, for reading oracles: `stdout("nm", &["--defined-only".as_ref(),
/// file.as_ref()])`.
///
/// # Panics
///
/// If the program is missing, fails or prints something other than UTF-8.
#[must_use]
pub fn stdout(program: &str, args: &[&OsStr]) -> String {
    let mut command = Command::new(program);
    command.args(args);
    String::from_utf8(run(command)).expect("UTF-8")
}

fn run(mut command: Command) -> Vec<u8> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{complaint}", output.status);
    output.stdout
}
