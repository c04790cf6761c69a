//! What long work shows on a terminal, and only there.

mod support;

use relive_testkit::compile::{compile, stdout};
use relive_testkit::terminal::Terminal;
use std::time::{Duration, Instant};
use support::{relive, text};

/// Clears the line.
const CLEAR: &str = "\r\x1b[K";

#[test]
fn short_work_shows_nothing() {
    let program = compile("gcc", &["-O1"], ("main.c", "int main(void) { return 0; }"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("counted");
    let args = ["instrument", text(&program), "-o", text(&output)];
    let begun = Instant::now();
    let shown = Terminal::default().run(env!("CARGO_BIN_EXE_relive"), &args);
    assert!(shown.status.success());
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("functions"), "{shown}");
    // Even if this machine is busy.
    assert!(!shown.contains(CLEAR) || begun.elapsed() > Duration::from_millis(500), "{shown:?}");
}

#[test]
fn long_work_shows_how_far_it_is() {
    let library = stdout("g++", &["-print-file-name=libstdc++.so.6".as_ref()]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = folder.path().join("counted");
    let args = ["instrument", library.trim(), "-o", text(&output)];
    let terminal = Terminal::default();
    let begun = Instant::now();
    let shown = terminal.run(env!("CARGO_BIN_EXE_relive"), &args);
    let took = begun.elapsed();
    assert!(shown.status.success());
    let shown = String::from_utf8_lossy(&shown.stdout);
    // A fast machine may need no patience.
    if took > Duration::from_secs(1) {
        assert!(shown.contains(" % "), "{shown:?}");
    }
    if let Some((bars, rest)) = shown.rsplit_once(CLEAR) {
        assert!(bars.starts_with("\r["), "{shown:?}");
        assert!(rest.contains("functions") && !rest.contains('['), "{shown:?}");
    }
    let elsewhere = relive(&args);
    assert!(!String::from_utf8_lossy(&elsewhere.stderr).contains('\r'));
}
