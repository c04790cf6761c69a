//! Opening files, and finding what belongs to them.

use crate::programs::{C, open, run};
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_image::loader::{LoadError, Loaded, Options};
use relive_testkit::compile::{Compiled, compile, stdout};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tempfile::tempdir;

fn error_of(path: &Path) -> LoadError {
    let error = Loaded::open(path, &Options::default()).expect_err("an error");
    assert_eq!(error.path(), path);
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    error
}

#[test]
fn what_is_no_file() {
    let dir = tempdir().expect("a temporary directory");
    let path = |name| dir.path().join(name);
    fs::write(path("empty"), "").expect("a file");
    run("mkfifo", &[path("pipe").as_ref()]);
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
    std::os::unix::fs::symlink(path("nowhere"), path("dangling")).expect("a link");
    std::os::unix::fs::symlink(path("pipe"), path("to_pipe")).expect("a link");
    std::os::unix::fs::symlink(path("loop"), path("loop")).expect("a link");

    assert!(matches!(error_of(dir.path()), LoadError::Directory { .. }));
    assert!(matches!(error_of(&path("nowhere")), LoadError::Missing { .. }));
    assert!(matches!(error_of(&path("dangling")), LoadError::Missing { .. }));
    assert!(matches!(error_of(&path("empty/inside")), LoadError::Missing { .. }));
    assert!(matches!(error_of(Path::new("")), LoadError::Missing { .. }));
    assert!(matches!(error_of(&path("empty")), LoadError::Empty { .. }));
    assert!(matches!(error_of(&path("pipe")), LoadError::Special { kind: "a pipe", .. }));
    assert!(matches!(error_of(&path("to_pipe")), LoadError::Special { kind: "a pipe", .. }));
    assert!(matches!(error_of(&path("socket")), LoadError::Special { kind: "a socket", .. }));
    assert!(matches!(error_of(Path::new("/dev/zero")), LoadError::Special { kind: "a device", .. }));
    assert!(matches!(error_of(&path("loop")), LoadError::Unreadable { .. }));
    // Its size is zero, as that of all files there, but it is not empty.
    assert!(Loaded::open("/proc/self/cmdline", &Options::default()).is_ok());
}

#[test]
fn a_file_that_may_not_be_read() {
    let dir = tempdir().expect("a temporary directory");
    let path = dir.path().join("secret");
    fs::write(&path, "secret").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("its owner");
    let root = fs::metadata("/proc/self").expect("this process").uid() == 0;
    match Loaded::open(&path, &Options::default()) {
        // Nothing is forbidden to root; how the system's refusal is passed on is tested beside the code.
        Ok(_) => assert!(root),
        Err(error) => assert!(!root && matches!(error, LoadError::Forbidden { .. }), "{error}"),
    }
}

#[test]
fn what_is_no_program_is_still_a_file() {
    let dir = tempdir().expect("a temporary directory");
    let path = dir.path().join("script");
    fs::write(&path, "#!/bin/sh\n").expect("a file");
    let loaded = open(&path);
    assert_eq!(
        (loaded.bytes.as_slice(), &loaded.debug, &loaded.notes),
        (&b"#!/bin/sh\n"[..], &None, &vec![])
    );
    assert!(loaded.image().is_err());
    let lines = Lines::new(&loaded);
    assert_eq!(lines.at(relive_code::addr::LinkAddr(0)), None);
}

/// A stripped program with its debug file apart, as a distribution makes them.
struct Stripped {
    whole: Compiled,
    program: PathBuf,
    debug: PathBuf,
}

fn stripped(args: &[&str], link: bool) -> Stripped {
    let whole = compile("gcc", &[&["-O2", "-g"], args].concat(), C);
    let program = whole.with_file_name("program");
    let debug = whole.with_file_name("program.debug");
    let objcopy = |args: &[&OsStr]| run("objcopy", args);
    objcopy(&["--only-keep-debug".as_ref(), whole.as_ref(), debug.as_ref()]);
    objcopy(&["--strip-all".as_ref(), whole.as_ref(), program.as_ref()]);
    if link {
        let option = format!("--add-gnu-debuglink={}", debug.display());
        objcopy(&[option.as_ref(), program.as_ref()]);
    }
    Stripped { whole, program, debug }
}

impl Stripped {
    /// Moves the debug file to `to`.
    fn put(&self, to: PathBuf) -> PathBuf {
        fs::create_dir_all(to.parent().expect("a folder")).expect("a writable folder");
        fs::rename(&self.debug, &to).expect("a debug file");
        to
    }

    /// The stripped program knows all that the whole one does.
    fn is_whole_again(&self, options: &Options, debug: &Path) {
        let loaded = Loaded::open(&self.program, options).expect("a file");
        let found = loaded.debug.as_ref().map(|(path, _)| fs::canonicalize(path).expect("a file"));
        assert_eq!(found, Some(fs::canonicalize(debug).expect("a file")), "{:?}", loaded.notes);
        let whole = open(&self.whole);
        assert_eq!(whole.debug, None);
        let (image, of_whole) = (loaded.image().expect("a program"), whole.image().expect("a program"));
        assert!(image.has_debug_file && !of_whole.has_debug_file);
        let functions = |image: &Image<'_>| image.symbols.iter().filter(|s| s.is_function()).count();
        assert_eq!(functions(&image), functions(&of_whole));
        let (lines, of_whole) = (Lines::new(&loaded), Lines::new(&whole));
        assert!(lines.are_in_debug_file() && !of_whole.are_in_debug_file());
        let addresses = crate::programs::instructions(&self.whole);
        assert!(addresses.iter().any(|&at| lines.at(at).is_some()));
        for at in addresses {
            assert_eq!(lines.inlined_at(at), of_whole.inlined_at(at), "{at}");
        }
    }

    /// The stripped program stays alone; gives the notes.
    fn stays_alone(&self, options: &Options) -> Vec<String> {
        let loaded = Loaded::open(&self.program, options).expect("a file");
        assert_eq!(loaded.debug.as_ref().map(|(path, _)| path), None);
        assert!(!loaded.image().expect("a program").has_debug_file);
        assert_eq!(Lines::new(&loaded).unit_count(), 0);
        loaded.notes
    }

    fn build_id(&self) -> String {
        let notes = stdout("readelf", &["-n".as_ref(), self.whole.as_ref()]);
        let id = notes.split("Build ID: ").nth(1).expect("a build-id");
        id.split_whitespace().next().expect("a build-id").to_string()
    }
}

const WITHOUT_ID: &str = "-Wl,--build-id=none";
const WITH_ID: &str = "-Wl,--build-id=sha1";

#[test]
fn by_debug_link_beside_the_program() {
    for id in [WITHOUT_ID, WITH_ID] {
        let files = stripped(&[id], true);
        files.is_whole_again(&Options::default(), &files.debug);
        let below = files.put(files.whole.with_file_name(".debug").join("program.debug"));
        files.is_whole_again(&Options::default(), &below);
    }
}

#[test]
fn by_debug_link_through_a_link_to_the_program() {
    let mut files = stripped(&[WITHOUT_ID], true);
    let elsewhere = tempdir().expect("a temporary directory");
    let link = elsewhere.path().join("command");
    std::os::unix::fs::symlink(&files.program, &link).expect("a link");
    files.program = link;
    files.is_whole_again(&Options::default(), &files.debug);
}

#[test]
fn by_debug_link_below_a_root() {
    let files = stripped(&[WITHOUT_ID], true);
    let root = tempdir().expect("a temporary directory");
    let dir = fs::canonicalize(&files.program).expect("a file");
    let dir = dir.parent().and_then(|dir| dir.strip_prefix("/").ok()).expect("an absolute path");
    let debug = files.put(root.path().join(dir).join("program.debug"));
    let options = Options { debug_roots: vec![root.path().to_owned()], ..Options::default() };
    files.is_whole_again(&options, &debug);
    let notes = files.stays_alone(&Options::default());
    assert!(notes.len() == 1 && notes[0].contains("was not found"), "{notes:?}");
}

#[test]
fn by_build_id_below_a_root() {
    let files = stripped(&[WITH_ID], false);
    let root = tempdir().expect("a temporary directory");
    let id = files.build_id();
    let name = format!(".build-id/{}/{}.debug", &id[..2], &id[2..]);
    let debug = files.put(root.path().join(name));
    let other = tempdir().expect("a temporary directory");
    let roots = vec![other.path().to_owned(), root.path().to_owned()];
    let options = Options { debug_roots: roots.clone(), ..Options::default() };
    files.is_whole_again(&options, &debug);
    assert!(files.stays_alone(&Options::default()).is_empty());
    let options = Options { find_debug_file: false, debug_roots: roots, ..Options::default() };
    assert!(files.stays_alone(&options).is_empty());
}

#[test]
fn a_program_that_needs_no_debug_file_gets_none() {
    let files = stripped(&[WITH_ID], false);
    let option = format!("--add-gnu-debuglink={}", files.debug.display());
    run("objcopy", &[option.as_ref(), files.whole.as_ref()]);
    let loaded = open(&files.whole);
    assert_eq!((&loaded.debug, &loaded.notes), (&None, &vec![]));
}

#[test]
fn a_program_with_symbols_but_no_lines_gets_one() {
    let files = stripped(&[WITHOUT_ID], true);
    let option = format!("--add-gnu-debuglink={}", files.debug.display());
    run(
        "objcopy",
        &["--strip-debug".as_ref(), option.as_ref(), files.whole.as_ref(), files.program.as_ref()],
    );
    files.is_whole_again(&Options::default(), &files.debug);
}

#[test]
fn a_debug_file_with_the_wrong_checksum() {
    let files = stripped(&[WITHOUT_ID], true);
    let mut bytes = fs::read(&files.debug).expect("a debug file");
    bytes.push(0);
    fs::write(&files.debug, bytes).expect("a debug file");
    let notes = files.stays_alone(&Options::default());
    assert!(notes.iter().any(|note| note.contains("its checksum is 0x")), "{notes:?}");
}

#[test]
fn a_debug_file_of_another_build() {
    let files = stripped(&["-Wl,--build-id=0x0123456789abcdef"], true);
    let other = stripped(&["-Wl,--build-id=0x0123456789abcdee"], true);
    fs::copy(&other.debug, &files.debug).expect("a debug file");
    let notes = files.stays_alone(&Options::default());
    let wanted = "belongs to build 0123456789abcdee, not 0123456789abcdef";
    assert!(notes.iter().any(|note| note.contains(wanted)), "{notes:?}");
}

#[test]
fn a_debug_file_that_was_rewritten_is_known_by_its_build_id() {
    let files = stripped(&[WITH_ID], true);
    run("objcopy", &["--compress-debug-sections=zlib".as_ref(), files.debug.as_ref()]);
    files.is_whole_again(&Options::default(), &files.debug);
}

#[test]
fn what_cannot_be_a_debug_file() {
    let files = stripped(&[WITHOUT_ID], true);
    let noted = |what: &str| {
        let notes = files.stays_alone(&Options::default());
        assert!(notes.iter().any(|note| note.contains(what)), "{notes:?}");
    };
    fs::write(&files.debug, "text").expect("a file");
    noted("not an ELF file");
    fs::write(&files.debug, "").expect("a file");
    noted("the file is empty");
    fs::remove_file(&files.debug).expect("a file");
    noted("was not found");
    run("mkfifo", &[files.debug.as_ref()]);
    noted("a pipe, not a regular file");
    fs::remove_file(&files.debug).expect("a file");
    fs::create_dir(&files.debug).expect("a folder");
    noted("a directory");
}

#[test]
fn a_stripped_program_is_no_debug_file() {
    let files = stripped(&[WITH_ID], true);
    let other = files.program.with_file_name("stripped");
    run("objcopy", &["--strip-all".as_ref(), files.whole.as_ref(), other.as_ref()]);
    fs::rename(&other, &files.debug).expect("a file");
    let notes = files.stays_alone(&Options::default());
    assert!(notes.iter().any(|note| note.contains("neither symbols nor debug information")), "{notes:?}");
}

#[test]
fn a_debug_link_that_names_the_program_itself() {
    let files = stripped(&[WITHOUT_ID], false);
    let debug = files.put(files.program.with_file_name("elsewhere").join("program"));
    let option = format!("--add-gnu-debuglink={}", debug.display());
    run("objcopy", &[option.as_ref(), files.program.as_ref()]);
    let notes = files.stays_alone(&Options::default());
    assert!(notes.len() == 1 && notes[0].contains("was not found"), "{notes:?}");
}
