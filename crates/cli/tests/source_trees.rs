//! `--old-source` and `--new-source`: trees that belong to the builds, that are the wrong way round, and that do not belong to them.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{relive, text};

/// A release of a program: what is in front of its function, and what is in it.
fn release(folder: &Path, name: &str, head: &str, body: &str) -> PathBuf {
    let tree = folder.join(name);
    std::fs::create_dir_all(tree.join("src")).expect("a folder");
    let source = format!(
        "#include <stdio.h>\n\n{head}static int\nwork(int rounds)\n{{\n  int sum = 0;\n\n  /* all of them */\n  for (int i = 0; i < rounds; \
         i++)\n    sum += i % 7;\n{body}\n  return sum;\n}}\n\nint\nmain(void)\n{{\n  printf(\"%d\\n\", work(1000));\n  return 0;\n}}\n"
    );
    std::fs::write(tree.join("src/program.c"), source).expect("writable");
    let binary = tree.join("program");
    let built = Command::new("gcc")
        .current_dir(&tree)
        .args(["-O1", "-g", "-Wl,--build-id=sha1", "-o", text(&binary), "src/program.c"])
        .status()
        .expect("gcc");
    assert!(built.success());
    binary
}

struct Releases {
    folder: tempfile::TempDir,
    old: PathBuf,
    new: PathBuf,
    profile: String,
}

impl Releases {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let old = release(folder.path(), "old", "", "");
        let new = release(
            folder.path(),
            "new",
            "/* Of late.\n\n   With words. */\n\n",
            "\n  if (rounds > 9)\n    sum++;\n",
        );
        let profile = text(&folder.path().join("old.rprof")).to_string();
        let made = relive(&["instrument", text(&old), "-o", text(&folder.path().join("counts"))]);
        assert!(made.status.success());
        let run = Command::new(folder.path().join("counts")).env("RELIVE_PROFILE", &profile).output();
        assert!(run.expect("it starts").status.success());
        Self { folder, old, new, profile }
    }

    /// Migrates from the old build to the new one.
    fn migrate(&self, old_source: &Path, new_source: &Path) -> Output {
        let (out, plan) = (self.folder.path().join("out.rprof"), self.folder.path().join("plan.json"));
        let (old_source, new_source) = (text(old_source).to_owned(), text(new_source).to_owned());
        relive(&[
            "migrate",
            &self.profile,
            "--to",
            text(&self.new),
            "-o",
            text(&out),
            "--force",
            "--plan",
            text(&plan),
            "--old-source",
            &old_source,
            "--new-source",
            &new_source,
        ])
    }
}

fn refused(output: &Output, why: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for why in why {
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn trees_of_both_builds() {
    let releases = Releases::new();
    let (old, new) = (releases.old.parent().expect("a tree"), releases.new.parent().expect("a tree"));
    let done = releases.migrate(old, new);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // One folder further up or down, they are the same trees.
    let done = releases.migrate(&old.join("src"), &new.join("src"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn trees_the_wrong_way_round() {
    let releases = Releases::new();
    let (old, new) = (releases.old.parent().expect("a tree"), releases.new.parent().expect("a tree"));
    refused(&releases.migrate(new, old), &["where there is no code here", "are the wrong way round"]);
}

#[test]
fn trees_of_other_builds() {
    let releases = Releases::new();
    let (old, new) = (releases.old.parent().expect("a tree"), releases.new.parent().expect("a tree"));
    refused(&releases.migrate(old, old), &["not the sources of", "where there is no code here"]);
    refused(&releases.migrate(new, new), &["not the sources of", "where there is no code here"]);
    let folder = releases.folder.path();
    std::fs::create_dir_all(folder.join("other/lib")).expect("a folder");
    std::fs::write(folder.join("other/lib/program.c"), "int f;\n").expect("writable");
    refused(&releases.migrate(&folder.join("other"), new), &["none of the files it was made from is here"]);
    std::fs::create_dir_all(folder.join("empty")).expect("a folder");
    refused(&releases.migrate(&folder.join("empty"), new), &["no sources in"]);
}
