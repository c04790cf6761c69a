//! Every command in README.md and docs/ is run.
//!
//! | block | what is done with it |
//! |---|---|
//! | `sh` | run as a script |
//! | `console` | each line behind `$ ` is run, and prints the lines below it; `…` stands for anything, alone on a line for any number of lines |
//! | `usage` | each option is one that `--help` of that command tells |
//! | any other | may hold no command of relive |
//!
//! `<!-- before: COMMAND -->` is run and not shown. Each page has a folder of its own with what `docs/examples` has in it,
//! compiled; its blocks are run in their order.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

const RELIVE: &str = env!("CARGO_BIN_EXE_relive");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// README.md and the book, by name.
fn pages() -> Vec<PathBuf> {
    let entries =
        fs::read_dir(root().join("docs")).expect("docs/").map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// Part of a page: what kind, the line it begins at, and what is in it.
#[derive(Debug)]
struct Part {
    kind: String,
    line: usize,
    text: String,
}

/// All blocks of a page; those that are indented have no kind.
fn parts(page: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut lines = page.lines().enumerate().peekable();
    let mut is_behind_blank = true;
    while let Some((number, line)) = lines.next() {
        let line_number = number + 1;
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            let mut text = String::new();
            for (_, line) in lines.by_ref().take_while(|(_, line)| !line.trim_start().starts_with("```")) {
                text += &format!("{line}\n");
            }
            parts.push(Part { kind: kind.trim().to_string(), line: line_number, text });
        } else if let Some(command) = line.strip_prefix("<!-- before: ") {
            let text = command.strip_suffix(" -->").expect("a comment on one line").to_string();
            parts.push(Part { kind: "sh".into(), line: line_number, text });
        } else if line.starts_with("    ") && is_behind_blank {
            let mut text = format!("{line}\n");
            while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("    ")) {
                text += &format!("{line}\n");
            }
            parts.push(Part { kind: String::new(), line: line_number, text });
        }
        is_behind_blank = line.trim().is_empty();
    }
    parts
}

/// What every page finds in its folder.
fn fixtures() -> &'static Path {
    static FIXTURES: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = FIXTURES.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(dir.path().join("tools")).expect("a folder");
        std::os::unix::fs::symlink(RELIVE, dir.path().join("tools/relive")).expect("a link");
        for entry in fs::read_dir(root().join("docs/examples")).expect("docs/examples") {
            let from = entry.expect("an entry").path();
            fs::copy(&from, dir.path().join(from.file_name().expect("a name"))).expect("copied");
        }
        let script =
            "for v in 1.0 1.1; do gcc -O2 -g app-$v.c -o app-$v; done; cp app-1.0.c app.c; cp app-1.0 app
            relive instrument app-1.0 -o counted
            RELIVE_PROFILE=app-1.0.rprof ./counted input; rm counted";
        let made = run(dir.path(), script);
        assert!(made.succeeded, "what all pages need: {}", made.errors);
        dir
    });
    made.path()
}

struct Ran {
    succeeded: bool,
    output: String,
    errors: String,
}

fn run(folder: &Path, script: &str) -> Ran {
    let tools = folder.join("tools");
    let path = std::env::join_paths(
        [tools].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", script])
        .current_dir(folder)
        .env("PATH", path.expect("a search path"))
        .stdin(std::process::Stdio::null())
        .output()
        .expect("bash starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { succeeded: output.status.success(), output: text(&output.stdout), errors: text(&output.stderr) }
}

/// What is wrong with a page.
fn check(page: &Path) -> String {
    let name = page.strip_prefix(root()).unwrap_or(page).display().to_string();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copied = Command::new("cp").arg("-a").arg(fixtures().join(".")).arg(folder.path()).status();
    assert!(copied.is_ok_and(|status| status.success()), "fixtures are copied");
    let mut wrong = String::new();
    for part in parts(&fs::read_to_string(page).expect("a page")) {
        let found = match part.kind.as_str() {
            "sh" => script(folder.path(), &part.text),
            "console" => session(folder.path(), &part.text),
            "usage" => usage(&part.text),
            _ => untried(&part.text),
        };
        if let Err(why) = found {
            let _ = writeln!(wrong, "{name}:{}: {why}", part.line);
        }
    }
    wrong
}

fn script(folder: &Path, text: &str) -> Result<(), String> {
    let ran = run(folder, text);
    if ran.succeeded { Ok(()) } else { Err(format!("{text}fails:\n{}", ran.errors)) }
}

/// Commands, each with what it prints.
fn session(folder: &Path, text: &str) -> Result<(), String> {
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command, Vec::new())),
            (None, Some((_, shown))) => shown.push(line),
            (None, None) => return Err(format!("`{line}` is in front of the first command")),
        }
    }
    for (command, shown) in steps {
        // As on a terminal.
        let ran = run(folder, &format!("exec 2>&1\n{command}"));
        if !ran.succeeded {
            return Err(format!("`{command}` fails:\n{}", ran.output));
        }
        let printed: Vec<&str> = ran.output.lines().map(str::trim_end).collect();
        if !shown.is_empty() && !agree(&shown, &printed) {
            return Err(format!("`{command}` prints something else:\n{}", ran.output));
        }
    }
    Ok(())
}

/// Whether lines are as shown.
fn agree(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"…", rest)) => (0..=printed.len()).any(|skipped| agree(rest, &printed[skipped..])),
        Some((line, rest)) => {
            printed.first().is_some_and(|first| is_like(line.trim_end(), first)) && agree(rest, &printed[1..])
        }
    }
}

/// Whether a line is as shown.
fn is_like(shown: &str, printed: &str) -> bool {
    match shown.split_once('…') {
        None => shown == printed,
        Some((start, rest)) => printed.strip_prefix(start).is_some_and(|behind| {
            behind.char_indices().any(|(at, _)| is_like(rest, &behind[at..])) || rest.is_empty()
        }),
    }
}

/// Whether a command has all the options that a synopsis shows.
fn usage(text: &str) -> Result<(), String> {
    let mut words = text.split_whitespace();
    let (Some("relive"), Some(command)) = (words.next(), words.next()) else {
        return Err("does not begin with `relive COMMAND`".into());
    };
    let help = Command::new(RELIVE).args([command, "--help"]).output().expect("the tool starts");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for word in words.take_while(|&word| word != "--") {
        let option: String = word
            .trim_start_matches('[')
            .chars()
            .take_while(|&c| c == '-' || c.is_ascii_alphanumeric())
            .collect();
        let is_told =
            || help.split(|c: char| c != '-' && !c.is_ascii_alphanumeric()).any(|told| told == option);
        if option.starts_with('-') && !is_told() {
            return Err(format!("`relive {command}` has no {option}"));
        }
    }
    Ok(())
}

/// Whether a block of another kind has a command in it that nobody tries.
fn untried(text: &str) -> Result<(), String> {
    let is_command = |line: &str| {
        line.trim_start().trim_start_matches("$ ").starts_with("relive ") || line.contains("\"relive cc")
    };
    match text.lines().find(|line| is_command(line)) {
        Some(line) => Err(format!(
            "`{}` is in a block that is not run: call it `sh`, `console` or `usage`",
            line.trim()
        )),
        None => Ok(()),
    }
}

#[test]
fn every_command_is_run() {
    let (pages, next, wrong) = (pages(), AtomicUsize::new(0), Mutex::new(String::new()));
    fixtures();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = check(page);
                    *wrong.lock().expect("no panic") += &found;
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{wrong}");
}

/// Links to files, and the table of contents.
#[test]
fn links_lead_somewhere_and_no_page_is_left_out() {
    let mut wrong = String::new();
    let contents = fs::read_to_string(root().join("docs/README.md")).expect("a table of contents");
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        if page.parent() != Some(&root()) && name != "README.md" && !contents.contains(&format!("]({name})"))
        {
            let _ = writeln!(wrong, "docs/README.md does not lead to {name}");
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let is_elsewhere = file.is_empty() || file.contains("://") || file.contains(char::is_whitespace);
            if !is_elsewhere && !page.parent().expect("a folder").join(file).exists() {
                let _ = writeln!(wrong, "{}: there is no {file}", page.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn blocks_and_lines_are_told_apart() {
    let page = "a\n\n    indented\n    twice\n\n```sh\nrun\n```\n<!-- before: hidden -->\n";
    let found: Vec<_> = parts(page).into_iter().map(|part| (part.kind, part.line, part.text)).collect();
    let expected = [("", 3, "    indented\n    twice\n"), ("sh", 6, "run\n"), ("sh", 9, "hidden")];
    assert_eq!(found, expected.map(|(kind, line, text)| (kind.to_string(), line, text.to_string())));
    assert!(agree(&["a", "…", "d … f"], &["a", "b", "c", "d e f"]) && !agree(&["a"], &["a", "b"]));
    assert!(!is_like("a … c", "a b d") && is_like("…", "") && is_like("a…", "abc"));
    assert!(untried("    relive report P\n").is_err() && untried("    cargo build\n").is_ok());
    assert!(usage("relive report [--no-such-thing]").is_err() && usage("relive report [--json]").is_ok());
}
