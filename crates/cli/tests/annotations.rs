//! `relive annotate`, and what other commands make of annotations, on programs compiled here.

mod support;

use relive_promises::dice::Dice;
use relive_promises::mutate;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{relive, stdout, text};
use tempfile::TempDir;

/// `skip` has data among its code, `give` calls what does not return through a pointer, and nothing but the compiler knows
/// how many cases `choose` has.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noreturn)) static void quit(void) { puts("bye"); exit(7); }
void (*leave)(void) __attribute__((noreturn)) = quit;
int skip(int x) {
    __asm__ volatile("jmp 1f\n .long 0x06060606, 0x06060606\n1: add $1, %0" : "+r"(x));
    return x;
}
int give(int x) {
    if (x > 3) { puts("up"); leave(); }
    return x;
}
int choose(int x) {
    switch (x) {
    case 0: return puts("zero");
    case 1: return puts("one");
    case 2: return puts("two");
    case 3: return puts("three");
    case 4: return puts("four");
    case 5: return puts("five");
    default: __builtin_unreachable();
    }
}
int other(int x);
int main(int argc, char **argv) {
    printf("%d %d\n", skip(argc), other(argc));
    choose(argc);
    return give(argc + 5);
}
"#;

const OTHER: &str = "int other(int x) { return x > 1 ? x * 3 : x - 1; }\n";

struct Program {
    folder: TempDir,
}

impl Program {
    /// With the parts of it that relive is to describe.
    fn new(parts: &[&str], options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("program.c"), PROGRAM).expect("written");
        fs::write(folder.path().join("other.c"), OTHER).expect("written");
        let this = Self { folder };
        for part in ["program", "other"] {
            let (source, object) = (format!("{part}.c"), format!("{part}.o"));
            let compile = ["gcc", "-O0", "-c", &source, "-o", &object];
            this.make(&if parts.contains(&part) { this.by_relive(&compile) } else { owned(&compile) });
        }
        let link = [&["gcc", "program.o", "other.o", "-o", "program"], options].concat();
        // `relive cc` would describe all objects.
        this.make(&owned(&link));
        this
    }

    fn by_relive(&self, command: &[&str]) -> Vec<String> {
        owned(&[&[env!("CARGO_BIN_EXE_relive"), "cc", "--"], command].concat())
    }

    fn make(&self, command: &[String]) {
        let made = Command::new(&command[0]).args(&command[1..]).current_dir(self.folder.path()).output();
        let made = made.expect("the compiler starts");
        assert!(made.status.success(), "{command:?}: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        text(&self.path(name)).to_string()
    }
}

fn owned(command: &[&str]) -> Vec<String> {
    command.iter().map(|&arg| arg.to_string()).collect()
}

const WITH_ID: &[&str] = &["-Wl,--build-id=sha1"];
const BOTH: &[&str] = &["program", "other"];

/// What it prints, and how it ends.
fn run(program: &Path) -> (String, Option<i32>) {
    let output = Command::new(program).output().expect("the program starts");
    (String::from_utf8(output.stdout).expect("text"), output.status.code())
}

fn expected() -> (String, Option<i32>) {
    ("2 0\none\nup\nbye\n".to_string(), Some(7))
}

/// The message of a command that does nothing.
fn refused(args: &[&str]) -> String {
    let output = relive(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(&[&["inspect", "--json"], args].concat())).expect("JSON")
}

fn count(value: &serde_json::Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

/// Nothing that reads headers finds anything to say.
fn is_sound(program: &Path) {
    let output = Command::new("readelf").args(["-aW", text(program)]).output().expect("readelf starts");
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_help_shows_examples() {
    for command in ["add", "extract"] {
        let help = stdout(&["annotate", command, "--help"]);
        assert!(help.contains("EXAMPLES:") && help.contains("Exit status:"), "{help}");
    }
}

#[test]
fn what_follows_from_code_is_added() {
    let program = Program::new(&[], WITH_ID);
    let (plain, annotated) = (program.at("program"), program.at("annotated"));
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o750)).expect("own file");
    stdout(&["annotate", "add", &plain, "-o", &annotated]);
    let mode = fs::metadata(&annotated).expect("written").permissions().mode();
    assert_eq!(mode & 0o7777, 0o750);
    assert_eq!(run(Path::new(&annotated)), expected());
    is_sound(Path::new(&annotated));

    let said = &json(&[&annotated])["annotations"];
    assert_eq!(said["units"][0]["derived"], true, "{said}");
    assert_eq!(count(&said["refused"]), 0, "{said}");
    assert!(said["pieces"].as_u64() > Some(5), "{said}");
    let summary = stdout(&["inspect", &annotated]);
    assert!(summary.contains("sources: annotation "), "{summary}");
    // A guess does not become a fact: `choose` is still left to analysis, as is `skip`.
    for view in ["--functions", "--blocks"] {
        assert_eq!(stdout(&["inspect", &annotated, view]), stdout(&["inspect", &plain, view]));
    }
    let told = stdout(&["inspect", &annotated, "--annotations"]);
    assert!(told.contains("derived from the code") && told.contains("by itself"), "{told}");

    let before = fs::read(&annotated).expect("there");
    let message = refused(&["annotate", "add", &annotated]);
    assert!(message.contains("already") && message.contains("--force"), "{message}");
    let message = refused(&["annotate", "add", &annotated, "--force"]);
    assert!(message.contains("nothing to add"), "{message}");
    assert_eq!(fs::read(&annotated).expect("there"), before);

    // In its place.
    stdout(&["annotate", "add", &plain]);
    assert_eq!(fs::read(&plain).expect("there"), before);
}

#[test]
fn what_a_compiler_said_stays_when_more_is_added() {
    let program = Program::new(&["program"], WITH_ID);
    let path = program.at("program");
    let before = json(&[&path]);
    assert_eq!(count(&before["annotations"]["units"]), 1, "{before}");
    stdout(&["annotate", "add", &path, "--force"]);
    assert_eq!(run(Path::new(&path)), expected());
    let after = json(&[&path, "--annotations"]);
    let said = &after["annotations"];
    assert_eq!(count(&said["refused"]), 0, "{said}");
    let derived = said["units"].as_array().expect("units").iter().map(|unit| unit["derived"] == true);
    assert_eq!(derived.collect::<Vec<_>>(), [true, false]);
    assert!(said["pieces"].as_u64() > before["annotations"]["pieces"].as_u64());
    // What only the compiler knows is known as before.
    assert_eq!(count(&said["gains"]["understood"]), 1, "{said}");
    assert_eq!(count(&said["gains"]["calls"]), 1, "{said}");
    let sources = after["sources"].as_array().expect("sources");
    let source = sources.iter().find(|source| source["name"] == "annotation").expect("a source");
    assert!(source["detail"].as_str().expect("text").contains("1 of 2 units derived"), "{source}");
}

#[test]
fn annotations_are_found_again_beside_the_program() {
    let program = Program::new(BOTH, WITH_ID);
    let [path, file, bare] = ["program", "bare.annotate", "bare"].map(|name| program.at(name));
    stdout(&["annotate", "extract", &path, "-o", &file, "--stripped", &bare]);
    assert_eq!(run(Path::new(&bare)), expected());
    is_sound(Path::new(&bare));
    assert!(fs::metadata(&bare).expect("written").len() < fs::metadata(&path).expect("there").len());
    let of = |path: &str| {
        let mut said = json(&[path])["annotations"].take();
        (said["file"].take(), said)
    };
    let ((own, said), (beside, found)) = (of(&path), of(&bare));
    assert_eq!((own, beside), (serde_json::Value::Null, file.as_str().into()));
    assert_eq!(said, found);
    assert!(json(&[&bare, "--no-debug-file"])["annotations"].is_null());
    let message = refused(&["annotate", "extract", &bare, "-o", &program.at("more")]);
    assert!(message.contains("no annotations") && message.contains("relive cc"), "{message}");
    // In its own place, too.
    stdout(&["annotate", "extract", &path, "-o", &program.at("again"), "--stripped", &path]);
    assert_eq!(fs::read(&path).expect("there"), fs::read(&bare).expect("there"));
    assert_eq!(fs::read(program.path("again")).expect("there"), fs::read(&file).expect("there"));
}

#[test]
fn annotations_are_found_again_by_build_id() {
    let program = Program::new(BOTH, WITH_ID);
    let path = program.at("program");
    let id = json(&[&path])["file"]["build_id"].as_str().expect("a build-id").to_string();
    let folder = program.path("debug").join(".build-id").join(&id[..2]);
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(format!("{}.annotate", &id[2..]));
    stdout(&["annotate", "extract", &path, "-o", text(&file), "--stripped", &path]);
    assert!(json(&[&path])["annotations"].is_null());
    let found = json(&[&path, "--debug-root", &program.at("debug")]);
    assert_eq!(found["annotations"]["file"], text(&file));
}

#[test]
fn annotations_of_another_build_are_not_used() {
    let program = Program::new(BOTH, WITH_ID);
    let stranger = Program::new(&[], &["-Wl,--build-id=0xabcdef01"]);
    let (path, file) = (program.at("program"), stranger.at("program.annotate"));
    let id = json(&[&path])["file"]["build_id"].as_str().expect("a build-id").to_string();
    stdout(&["annotate", "extract", &path, "-o", &file]);
    let other = stranger.at("program");
    for args in [
        &["inspect", &other, "--annotations", &file][..],
        &["instrument", &other, "-o", &stranger.at("counted"), "--annotations", &file],
    ] {
        let message = refused(args);
        assert!(message.contains(&id) && message.contains("abcdef01"), "{message}");
        assert!(message.contains("relive annotate extract"), "{message}");
    }
    // Found by chance, it is only noted.
    let report = json(&[&other]);
    assert!(report["annotations"].is_null(), "{report}");
    let note = report["complaints"][0].as_str().expect("a note");
    assert!(note.contains(&id) && note.contains("not used"), "{note}");

    let message = refused(&["inspect", &path, "--annotations", &program.at("program.c")]);
    assert!(message.contains("not a file of annotations"), "{message}");
    let message = refused(&["inspect", &path, "--annotations", &program.at("nowhere")]);
    assert!(message.contains("nowhere: no such file"), "{message}");
}

#[test]
fn a_program_without_build_id_keeps_its_annotations() {
    let program = Program::new(BOTH, &["-Wl,--build-id=none"]);
    let file = program.at("file");
    let message = refused(&["annotate", "extract", &program.at("program"), "-o", &file]);
    assert!(message.contains("no build-id") && message.contains("-Wl,--build-id"), "{message}");
    assert!(!Path::new(&file).exists());
}

#[test]
fn what_only_annotations_tell_is_shown() {
    let program = Program::new(BOTH, WITH_ID);
    let path = program.at("program");
    let told = stdout(&["inspect", &path, "--annotations"]);
    for part in [
        "made by\n    GCC: ",
        ", C, -O0\n",
        "1 function would not be understood\n    skip at ",
        ": unexplained-bytes at ",
        "1 jump table would be of unknown or wrong size\n    choose at ",
        ": 6 entries for the jump at ",
        "1 call would be taken to return\n",
        " in give at ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let said = &json(&[&path, "--annotations"])["annotations"];
    assert_eq!(said["gains"]["understood"][0]["reason"], "unexplained-bytes", "{said}");
    assert_eq!(said["gains"]["calls"][0]["returns"], false, "{said}");
    assert!(json(&[&path])["annotations"]["gains"].is_null());

    // Code that has changed since is not what was described.
    let mut bytes = fs::read(&path).expect("there");
    let code = bytes.windows(8).position(|w| w == [6; 8]).expect("data among code") + 8;
    // add eax, 1
    assert_eq!(bytes[code..code + 3], [0x83, 0xc0, 1]);
    bytes[code + 2] = 2;
    let changed = program.at("changed");
    fs::write(&changed, bytes).expect("written");
    let told = stdout(&["inspect", &changed, "--annotations"]);
    assert!(told.contains("not believed, and left to analysis: 1\n"), "{told}");
    assert!(told.contains("the checksum is "), "{told}");

    let none = stdout(&["inspect", "/bin/true", "--annotations"]);
    assert!(none.contains("no annotations") && none.contains("relive cc"), "{none}");
}

/// The bytes of the section, with something wrong in them.
fn damaged(section: &[u8], seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut bytes = section.to_vec();
    let len = bytes.len();
    for _ in 0..=dice.roll(3) {
        let (at, from) = (dice.roll(len), dice.roll(len));
        let stretch = 1 + dice.roll(12.min(len - at.max(from)));
        match dice.roll(5) {
            0 => bytes[at] ^= 1 << dice.roll(8),
            1 => bytes[at] = dice.number() as u8,
            2 => bytes[at..at + stretch].fill(0),
            3 => bytes.copy_within(from..from + stretch, at),
            _ => mutate::mutate(&mut bytes, len, &mut dice),
        }
        bytes.resize(len, 0);
    }
    bytes
}

#[test]
fn whatever_the_section_holds_the_program_goes_on() {
    let program = Program::new(BOTH, WITH_ID);
    let [path, changed, counted] = ["program", "changed", "counted"].map(|name| program.at(name));
    let out = program.at("section");
    program.make(&owned(&[
        "objcopy",
        "--dump-section",
        &format!(".annotate={out}"),
        &path,
        &program.at("rest"),
    ]));
    let (section, file) = (fs::read(out).expect("a section"), fs::read(&path).expect("there"));
    let at = file.windows(section.len()).position(|bytes| bytes == section).expect("in the file");
    for seed in 0..100 {
        let mut file = file.clone();
        file[at..at + section.len()].copy_from_slice(&damaged(&section, seed));
        fs::write(&changed, file).expect("written");
        let made = relive(&["instrument", &changed, "-o", &counted, "--verify"]);
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{seed}: {said}");
        fs::set_permissions(&counted, fs::Permissions::from_mode(0o700)).expect("own file");
        let run = Command::new(&counted).env("RELIVE_PROFILE", program.at("profile")).output();
        let run = run.expect("it starts");
        let shown = (String::from_utf8_lossy(&run.stdout).into_owned(), run.status.code());
        assert_eq!(shown, expected(), "{seed}");
    }
}

#[test]
fn a_function_is_measured_that_only_annotations_explain() {
    let program = Program::new(BOTH, WITH_ID);
    let [path, file, bare, counted] = ["program", "kept", "bare", "counted"].map(|name| program.at(name));
    stdout(&["annotate", "extract", &path, "-o", &file, "--stripped", &bare]);
    let state = |more: &[&str]| {
        stdout(&[&["instrument", &bare, "-o", &counted], more].concat());
        let profile = program.at("profile");
        let _ = fs::remove_file(&profile);
        let run = Command::new(&counted).env("RELIVE_PROFILE", &profile).output().expect("it starts");
        assert_eq!(String::from_utf8_lossy(&run.stdout), expected().0);
        let functions = stdout(&["dump", &profile, "--functions"]);
        let row =
            functions.lines().find(|line| line.split('\t').any(|field| field == "skip")).map(str::to_string);
        row.expect("the function")
    };
    assert!(!state(&[]).contains("\tmeasured\t"));
    assert!(state(&["--annotations", &file]).contains("\tmeasured\t"));
}
