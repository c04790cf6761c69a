//! What belongs to all commands: `--quiet`, `--color`, completions, manual pages, `relive doctor`.

mod support;

use serde_json::Value;
use std::process::Command;
use support::{relive, stdout, text, thing, write};

#[test]
fn quiet_says_nothing_but_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = write(folder.path(), "thing.rprof", &thing());
    let out = text(&folder.path().join("out")).to_string();
    for place in [0, 1] {
        let mut args = vec!["export", &*profile, "--format", "folded", "-o", &out];
        assert!(!relive(&args).stderr.is_empty());
        args.insert(place, "--quiet");
        let output = relive(&args);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    assert!(!relive(&["report", "/nowhere", "-q"]).stderr.is_empty());
}

#[test]
fn colours_are_wanted_or_not() {
    let said = |args: &[&str], no_color: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relive"));
        command.args(args).env_remove("NO_COLOR");
        no_color.iter().for_each(|value| _ = command.env("NO_COLOR", value));
        String::from_utf8(command.output().expect("the tool starts").stderr).expect("text")
    };
    for wrong in [&["report", "/nowhere"][..], &["report", "--nonsense"]] {
        let always = [&["--color=always"], wrong].concat();
        let never = [&["--color", "never"], wrong].concat();
        assert!(said(&always, None).contains("\x1b["), "{wrong:?}");
        assert!(said(&always, Some("1")).contains("\x1b["), "asked for: {wrong:?}");
        assert!(!said(&never, None).contains("\x1b["), "{wrong:?}");
        // Not a terminal.
        assert!(!said(wrong, None).contains("\x1b["), "{wrong:?}");
    }
}

/// On a terminal there are colours, unless `NO_COLOR` is set.
#[test]
fn no_color_is_honoured() {
    let kit = relive_testkit::terminal::Terminal::default();
    let tool = env!("CARGO_BIN_EXE_relive");
    let said = |variable: &str| {
        let output = kit.run("/usr/bin/env", &["TERM=xterm", variable, tool, "report", "/nowhere"]);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    assert!(said("NO_COLOR=").contains("\x1b[31mrelive:"), "{:?}", said("NO_COLOR="));
    assert!(!said("NO_COLOR=1").contains("\x1b["), "{:?}", said("NO_COLOR=1"));
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let listed = help.split("Commands:").nth(1).unwrap_or_default().lines().skip(1);
    listed
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn every_command_has_examples() {
    let help = stdout(&["--help"]);
    let mut seen = 0;
    for outer in commands(&help).into_iter().filter(|name| *name != "help") {
        let help = stdout(&[outer, "--help"]);
        assert!(help.contains("EXAMPLES:"), "{outer}: {help}");
        for inner in commands(&help).into_iter().filter(|name| *name != "help") {
            let help = stdout(&[outer, inner, "--help"]);
            assert!(help.contains("EXAMPLES:"), "{outer} {inner}: {help}");
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen} commands within others");
}

/// Each command is there, and the shell takes the script.
#[test]
fn completions_and_pages_cover_all_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let help = stdout(&["--help"]);
    let commands = commands(&help);
    assert!(commands.len() > 20 && commands.contains(&"doctor"), "{help}");
    let script = folder.path().join("relive.bash");
    stdout(&["completions", "bash", "-o", text(&script)]);
    let check = format!(
        "source {} && COMP_WORDS=(relive ex) COMP_CWORD=1 && _relive relive ex relive && echo ${{COMPREPLY[@]}}",
        script.display()
    );
    let completed = Command::new("bash").args(["-c", &check]).output().expect("bash runs");
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "export", "{completed:?}");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&["completions", shell]);
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
    let pages = folder.path().join("man/man1");
    stdout(&["man", text(&pages)]);
    for command in commands.iter().filter(|&&command| command != "help") {
        let page = std::fs::read_to_string(pages.join(format!("relive-{command}.1"))).expect("a page");
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{command}");
        assert!(
            page.contains("\n.SH EXAMPLES\n.nf\n  ") && page.contains(".SH \"EXIT STATUS\""),
            "{command}"
        );
        assert!(page.contains(&format!("\"relive {}\"", env!("CARGO_PKG_VERSION"))), "{command}: {page}");
    }
    assert!(pages.join("relive.1").exists() && pages.join("relive-analyze-cache.1").exists());
}

#[test]
fn doctor() {
    let output = relive(&["doctor", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["ok"], true, "{found:#}");
    assert_eq!(output.status.code(), Some(0));
    let state = |name: &str| {
        let checks = found["checks"].as_array().expect("checks");
        checks.iter().find(|check| check["name"] == name).map(|check| check["state"].clone())
    };
    for works in ["kernel", "relive instrument", "relive run", "relive trace", "gcc"] {
        assert_eq!(state(works), Some("ok".into()), "{works}: {found:#}");
    }
    // What cannot be measured is a finding.
    let output = relive(&["doctor", "--program", "/etc/passwd"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("failed  relive instrument"), "{said}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("does not work here: relive instrument, relive run")
    );
}
