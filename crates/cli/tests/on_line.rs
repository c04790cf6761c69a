//! Questions that are answered while a program is traced: the answers are those of its trace.

mod support;

use relive_testkit::compile::compile;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{relive, text};
use tempfile::TempDir;

/// Three threads, two of which write the same variable; and a process.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static long shared;
static void *work(void *n) {
    long *all = calloc(1 << 16, 8), sum = 0;
    for (long i = 0; i < 200000 * (long)n; i++) all[i * 7919 & 0xffff] += i;
    for (long i = 0; i < 1 << 16; i++) sum += all[i];
    shared += sum;
    free(all);
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)(i + 1));
    if (fork() == 0) {
        work((void *)1);
        _exit(0);
    }
    wait(0);
    for (long i = 0; i < 2; i++) pthread_join(threads[i], 0);
    puts("done");
    return 3;
}
"#;

const QUESTIONS: [&str; 7] =
    ["mix", "strides", "working-set", "cache --shared", "reuse", "races", "hot-paths"];

fn program(folder: &TempDir) -> PathBuf {
    let program = folder.path().join("program");
    let compiled = compile("gcc", &["-O1", "-g", "-pthread"], ("program.c", PROGRAM));
    std::fs::copy(&*compiled, &program).expect("a copy");
    program
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Where the answer to a question goes.
fn answer(folder: &TempDir, question: &str) -> PathBuf {
    folder.path().join(format!("{}.json", question.split(' ').next().expect("a name")))
}

/// What is given to `relive trace` for all questions.
fn asked(folder: &TempDir) -> Vec<String> {
    let ask = |question: &&str| {
        let answer = answer(folder, question);
        ["--analyze".to_string(), format!("{question} --json -o {}", text(&answer))]
    };
    QUESTIONS.iter().flat_map(ask).collect()
}

#[test]
fn the_answers_are_those_of_the_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = program(&folder);
    let (trace, profile) = (folder.path().join("program.rtrace"), folder.path().join("program.rprof"));
    for part in [&[][..], &["--start", "work", "--stop", "500000"]] {
        let asked = asked(&folder);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let profiled = format!("profile -o {}", text(&profile));
        let own = ["trace", "-q", "-o", text(&trace), "--analyze", &profiled];
        let output = relive(&[&own, &asked[..], part, &["--", text(&program)]].concat());
        assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
        assert_eq!(output.stdout, b"done\n");
        for question in QUESTIONS {
            let words: Vec<&str> = question.split(' ').collect();
            let expected = relive(&[&["analyze"], &words[..], &[text(&trace), "--json"]].concat()).stdout;
            let found = std::fs::read(answer(&folder, question)).expect("an answer");
            assert!(found == expected && !expected.is_empty(), "{question} {part:?}");
        }
        let again = folder.path().join("again.rprof");
        assert!(relive(&["analyze", "profile", text(&trace), "-o", text(&again)]).status.success());
        let [found, expected] = [&profile, &again].map(|path| std::fs::read(path).expect("a profile"));
        assert!(found == expected, "profile {part:?}");
    }
}

/// A thread that hardly ever does the same again: which way it goes and what it touches follows from numbers drawn at random.
const IRREGULAR: &str = r#"
static unsigned char all[1 << 20];
static unsigned drawn = 1;
static unsigned draw(void) { return (drawn = drawn * 1664525 + 1013904223) >> 8; }
static int one(unsigned n) { return all[n & 0xfffff]++ + all[n >> 3 & 0xfffff]; }
static int two(unsigned n) { return n & 1 ? one(n) - one(n + 1) : n & 2 ? all[n >> 1 & 0xffff] : 5; }
static int (*const ways[4])(unsigned) = {one, two, one, two};
int main(void) {
    int sum = 0;
    for (int i = 0; i < 1400000; i++) {
        unsigned n = draw();
        if (n & 4) sum += ways[n >> 4 & 3](n);
        if (n & 8) sum ^= all[n >> 2 & 0xffff];
        if (n % 5 == 0) sum += two(n * 3);
    }
    return sum & 7;
}
"#;

/// Such a thread is packed in another way; answers while it runs are from what it has written down, not from what was packed.
#[test]
fn the_answers_where_nothing_comes_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("gcc", &["-O1", "-g"], ("irregular.c", IRREGULAR));
    let file = folder.path().join("irregular.rtrace");
    for (only, questions) in [
        (&[][..], &["mix", "strides", "reuse", "cache", "hot-paths"][..]),
        (&["--control-flow-only"], &["mix", "hot-paths"]),
    ] {
        let answer = |question: &str| folder.path().join(format!("{question}.json"));
        let ask = |question: &&str| {
            ["--analyze".to_string(), format!("{question} --json -o {}", text(&answer(question)))]
        };
        let asked: Vec<String> = questions.iter().flat_map(ask).collect();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let args = [&["trace", "-q", "-o", text(&file)], &asked[..], only, &["--", text(&program)]].concat();
        let native = Command::new(&*program).status().expect("it starts");
        let output = relive(&args);
        assert_eq!(output.status.code(), native.code(), "{}", errors(&output));
        let trace = relive_trace::Trace::open(&file).expect("a trace");
        let [back, not] = [true, false].map(|looks_back| {
            trace.segments().iter().filter(|segment| segment.looks_back() == looks_back).count()
        });
        assert!(back > 0 && not > back, "{back} and {not}");
        for question in questions {
            let expected = relive(&["analyze", question, text(&file), "--json"]).stdout;
            let found = std::fs::read(answer(question)).expect("an answer");
            assert!(found == expected && !expected.is_empty(), "{question} {only:?}");
        }
    }
}

/// Runs it in a folder of its own. What is there in the end, besides.
fn in_folder(folder: &Path, args: &[&str]) -> (Output, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relive"));
    let output = command.args(args).current_dir(folder).output().expect("the tool starts");
    let files = std::fs::read_dir(folder).expect("a folder");
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        file.expect("a file").file_name().to_string_lossy().into_owned()
    };
    let mut files: Vec<String> = files.map(name).collect();
    files.sort();
    (output, files)
}

#[test]
fn nothing_else_is_stored() {
    let (folder, empty) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let program = program(&folder);
    let args = [
        "trace",
        "--no-store",
        "--analyze",
        "mix --top 3",
        "--analyze",
        "races",
        "--analyze",
        "profile",
        "--",
    ];
    let (output, files) = in_folder(empty.path(), &[&args[..], &[text(&program)]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"done\n");
    assert_eq!(files, ["program.rprof"]);
    let said = errors(&output);
    assert!(said.contains("not stored"), "{said}");
    // Whether the threads race depends on which comes first.
    let (mix, races) = (said.find("By function").expect("a mix"), said.rfind(" race").expect("an answer"));
    assert!(mix < races && said.contains("work [program]"), "{said}");
    // More than fits in memory.
    let args = ["trace", "-q", "--no-store", "--analysis-memory", "10K", "--analyze", "hot-paths", "--"];
    let (output, _) = in_folder(empty.path(), &[&args[..], &[text(&program)]].concat());
    assert_eq!(output.status.code(), Some(3));
    assert!(errors(&output).contains("--analysis-memory"), "{}", errors(&output));
}

#[test]
fn what_cannot_be_asked() {
    let complaint = |args: &[&str]| {
        let output = relive(&[&["trace", "--no-store"], args, &["--", "/bin/true"]].concat());
        (output.status.code(), errors(&output))
    };
    for (question, expected) in [
        ("mixx", "unrecognized subcommand 'mixx'"),
        ("cache --l1d 32K,7,64", "number of sets must be a power of two"),
        ("mix other.rtrace", "no other trace"),
    ] {
        let (status, said) = complaint(&["--analyze", question]);
        assert!(status == Some(2) && said.contains(expected), "{question}: {said}");
    }
    let (status, said) = complaint(&["--control-flow-only", "--analyze", "mix", "--analyze", "races"]);
    assert!(status == Some(125) && said.contains("control flow alone"), "{said}");
    let (status, said) = complaint(&["--start", "main"]);
    assert!(status == Some(125) && said.contains("--analyze"), "{said}");
}
