//! Traces that are made and replayed: the ways to tell of one say the same; parts; files that were cut off; disks that are full.

mod support;

use relive_testkit::compile::compile;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{relive, text};
use tempfile::TempDir;

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) long inner(long n) { return n * 3 + 1; }
__attribute__((noinline)) long outer(long n) { return inner(n) + inner(n + 1); }
__attribute__((noinline)) long late(long n) { return n ^ 5; }
static void *thread(void *n) {
    long *all = calloc(1000, 8), sum = 0;
    for (long i = 0; i < 1000; i++) all[i] = outer(i + (long)n);
    for (long i = 0; i < 1000; i++) sum += all[i];
    free(all);
    return (void *)sum;
}
int main(void) {
    pthread_t other;
    void *sum;
    pthread_create(&other, 0, thread, (void *)7);
    pthread_join(other, &sum);
    printf("%ld\n", (long)sum + (long)thread(0) + late(1));
    return 3;
}
"#;

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lines(args: &[&str]) -> Vec<String> {
    let output = relive(args);
    assert!(output.status.success(), "{args:?}: {}", errors(&output));
    String::from_utf8(output.stdout).expect("text").lines().map(String::from).collect()
}

/// Traces the program, which stays in the folder: names of functions are in it.
fn trace(folder: &TempDir, more: &[&str]) -> PathBuf {
    let program = folder.path().join("program");
    let compiled = compile("gcc", &["-O1", "-pthread"], ("program.c", PROGRAM));
    std::fs::copy(&*compiled, &program).expect("a copy");
    let file = folder.path().join("program.rtrace");
    let output = relive(&[&["trace", "-q", "-o", text(&file)], more, &["--", text(&program)]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert_eq!(errors(&output), "");
    file
}

/// Instructions, reads, writes and accesses that are both, of each thread.
fn counts(file: &Path, more: &[&str]) -> Vec<[usize; 4]> {
    let number = |word: &str| word.replace(',', "").parse().expect("a number");
    let row = |line: &String| {
        let words: Vec<&str> = line.split_whitespace().collect();
        std::array::from_fn(|i| number(words[i + 1]))
    };
    let all = lines(&[&["replay", text(file), "--count"], more].concat());
    all[1..].iter().map(row).collect()
}

#[test]
fn all_ways_to_tell_say_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = trace(&folder, &[]);
    let replay = |more: &[&str]| lines(&[&["replay", text(&file)], more].concat());
    let counts = counts(&file, &[]);
    assert_eq!(counts.len(), 2, "two threads");
    let [instructions, reads, writes, both] =
        counts.iter().fold([0; 4], |sum, one| std::array::from_fn(|i| sum[i] + one[i]));
    assert_eq!(replay(&["--instructions"]).len(), instructions);
    assert_eq!(replay(&["--mem"]).len(), reads + writes + 2 * both);
    let blocks = replay(&["--blocks"]);
    let in_blocks = blocks
        .iter()
        .map(|line| line.rsplit('\t').next().expect("a column").parse::<usize>().expect("a number"));
    assert_eq!(in_blocks.sum::<usize>(), instructions);
    let lackey = replay(&["--format", "lackey"]);
    let starting = |with: &str| lackey.iter().filter(|line| line.starts_with(with)).count();
    assert_eq!(["I", " L", " S", " M"].map(starting), [instructions, reads, writes, both]);
    assert_eq!(replay(&["--format", "dinero"]).len(), instructions + reads + writes + 2 * both);
    let bytes = |format: &str| relive(&["replay", text(&file), "--format", format]).stdout.len();
    assert_eq!(bytes("champsim"), 64 * instructions);
    assert_eq!(bytes("drmemtrace-like"), 12 * (instructions + reads + writes + 2 * both + 2 * counts.len()));
    // Of each call of `outer`, two of `inner`, one level further in.
    let calls = replay(&["--calls"]);
    let of = |name: &str| -> Vec<u64> {
        let own = calls.iter().filter(|line| line.trim_end().ends_with(&format!(" {name}")));
        own.map(|line| line.split('\t').nth(1).expect("a depth").parse().expect("a number")).collect()
    };
    assert_eq!([of("outer").len(), of("inner").len(), of("late").len()], [2000, 4000, 1]);
    assert!(
        of("inner").iter().zip(of("outer").iter().flat_map(|depth| [depth; 2])).all(|(a, b)| *a == b + 1)
    );
    // A part, and one thread.
    assert_eq!(replay(&["--instructions", "--from", "100", "--to", "150"]).len(), 100);
    let all = replay(&["--mem"]);
    let tid = all[0].split('\t').next().expect("a thread");
    let own: Vec<String> = all.iter().filter(|line| line.starts_with(&format!("{tid}\t"))).cloned().collect();
    assert_eq!(replay(&["--mem", "--threads", tid]), own);
}

/// From where threads first enter a function to where they next enter another.
#[test]
fn from_and_to_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = trace(&folder, &[]);
    let replay = |more: &[&str]| lines(&[&["replay", text(&file)], more].concat());
    // Thread, and how many instructions came before the first call of each function.
    let calls = replay(&["--calls"]);
    let first = |name: &str| -> Vec<(String, String)> {
        let own = calls.iter().filter(|line| line.ends_with(&format!(" {name}")));
        let mut all: Vec<(String, String)> = Vec::new();
        for line in own {
            let words: Vec<&str> = line.split('\t').collect();
            if all.iter().all(|(thread, _)| *thread != words[0]) {
                all.push((words[0].to_string(), words[2].to_string()));
            }
        }
        all
    };
    let (outer, inner, late) = (first("outer"), first("inner"), first("late"));
    assert_eq!((outer.len(), inner.len(), late.len()), (2, 2, 1));
    for ((thread, from), (_, to)) in outer.iter().zip(&inner) {
        let part = ["--instructions", "--threads", thread];
        let expected = replay(&[&part[..], &["--from", from, "--to", to]].concat());
        assert_eq!(replay(&[&part[..], &["--from", "outer", "--to", "inner"]].concat()), expected);
        assert!((2..20).contains(&expected.len()), "{expected:?}");
        // To where it is entered again.
        let again = replay(&[&part[..], &["--from", "outer", "--to", "outer"]].concat());
        assert!(again.len() > expected.len() && again.starts_with(&expected));
    }
    // One thread never comes there.
    let (thread, from) = &late[0];
    let expected = replay(&["--mem", "--threads", thread, "--from", from]);
    assert_eq!(replay(&["--mem", "--from", "late"]), expected);
    assert_eq!(counts(&file, &["--from", "late"]).len(), 1);
    let output = relive(&["replay", text(&file), "--from", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("no function nowhere"), "{}", errors(&output));
}

/// A program that is another build by now has no names for what was executed. Somebody says so, once.
#[test]
fn another_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = trace(&folder, &["--control-flow-only"]);
    let program = folder.path().join("program");
    let other = compile("gcc", &["-O0", "-pthread"], ("program.c", PROGRAM));
    std::fs::copy(&*other, &program).expect("a copy");
    let check = |why: &str| {
        let output = relive(&["replay", text(&file), "--calls"]);
        assert!(output.status.success());
        let said = errors(&output);
        assert!(said.contains(text(&program)) && said.contains(why), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let calls = String::from_utf8(output.stdout).expect("text");
        let has = |name: &str| calls.lines().any(|line| line.contains(&format!(" {name}")));
        assert!(!has("outer") && !has("inner") && has("__libc_start_main") && has("0x"));
    };
    check("is not the build that was traced");
    std::fs::remove_file(&program).expect("it was there");
    check("cannot be read any more");
}

/// Threads that live short, several of them at a time, in a process that was forked off.
const MANY: &str = r#"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *thread(void *n) { return (void *)((long)n * 3); }
int main(void) {
    int status = 0;
    for (int round = 0; round < 3; round++) {
        if (fork() == 0) {
            pthread_t all[4];
            for (long i = 0; i < 200; i++) {
                if (i >= 4) pthread_join(all[i % 4], 0);
                pthread_create(&all[i % 4], 0, thread, (void *)i);
            }
            for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
            _exit(0);
        }
        wait(&status);
    }
    return status;
}
"#;

#[test]
fn threads_that_live_short() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("gcc", &["-O1", "-pthread"], ("many.c", MANY));
    let file = folder.path().join("many.rtrace");
    let output = relive(&["trace", "-o", text(&file), "--", text(&program)]);
    assert!(output.status.success(), "{}", errors(&output));
    let told = counts(&file, &[]);
    // The kernel may have given a number twice.
    let said = errors(&output).replace(',', "");
    assert!(said.contains(" instructions of 604 threads "), "{said}");
    assert!((580..=604).contains(&told.len()), "{}", told.len());
    let instructions: usize = told.iter().map(|[instructions, ..]| instructions).sum();
    assert!(said.contains(&format!("relive: {instructions} instructions")), "{said} {instructions}");
}

#[test]
fn control_flow_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = trace(&folder, &["--control-flow-only"]);
    let calls = lines(&["replay", text(&file), "--calls"]);
    assert_eq!(calls.iter().filter(|line| line.ends_with(" inner")).count(), 4000);
    let output = relive(&["replay", text(&file), "--mem"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("--control-flow-only"), "{}", errors(&output));
}

#[test]
fn parts_of_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = trace(&folder, &["--start", "outer", "--stop", "late"]);
    let calls = lines(&["replay", text(&file), "--calls"]);
    let of = |name: &str| calls.iter().filter(|line| line.ends_with(name)).count();
    assert_eq!([of(" inner"), of("late"), of("calloc")], [4000, 0, 0]);
    let file = trace(&folder, &["--stop", "1000"]);
    assert!(counts(&file, &[]).iter().all(|[instructions, ..]| (1000..1100).contains(instructions)));
}

#[test]
fn the_last_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = trace(&folder, &["--ring", "1K"]);
    assert!(!counts(&file, &[]).is_empty());
}

#[test]
fn cut_anywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = trace(&folder, &[]);
    let bytes = std::fs::read(&file).expect("the trace");
    let whole = counts(&file, &[]);
    let cut = folder.path().join("cut.rtrace");
    let mut shares = Vec::new();
    let places = (0..40).map(|part| bytes.len() * part / 40 + part);
    let near_the_end = (1..40).rev().map(|part| bytes.len() - part * part);
    for len in places.take_while(|&len| len < bytes.len() - 1600).chain(near_the_end) {
        std::fs::write(&cut, &bytes[..len]).expect("a file");
        let output = relive(&["replay", text(&cut), "--count"]);
        if len < 16 {
            assert_eq!(output.status.code(), Some(2));
            assert!(errors(&output).contains("not a trace"), "{}", errors(&output));
            continue;
        }
        assert!(output.status.success(), "{len}: {}", errors(&output));
        assert!(errors(&output).contains("was not finished"), "{}", errors(&output));
        shares.push(String::from_utf8_lossy(&output.stdout).lines().count() - 1);
    }
    assert!(shares.is_sorted(), "{shares:?}");
    assert_eq!(shares.last(), Some(&whole.len()));
}

#[test]
fn a_full_disk() {
    let program = compile("gcc", &["-O1", "-pthread"], ("program.c", PROGRAM));
    let output = relive(&["trace", "-o", "/dev/full", "--", text(&program)]);
    assert_eq!(output.status.code(), Some(3), "the program goes on");
    assert!(!output.stdout.is_empty());
    assert!(errors(&output).contains("cannot write"), "{}", errors(&output));
}

/// What cannot be executed leaves nothing behind, and what was there stays.
#[test]
fn nothing_comes_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("run.rtrace");
    let files = || std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(relive(&["trace", "-o", text(&trace), "--", "/nowhere"]).status.code(), Some(127));
    assert_eq!(files(), 0);
    std::fs::write(&trace, "kept").expect("written");
    assert_eq!(relive(&["trace", "-o", text(&trace), "--", "/nowhere"]).status.code(), Some(127));
    assert_eq!(relive(&["trace", "-o", text(&trace), "--", text(folder.path())]).status.code(), Some(126));
    assert_eq!(std::fs::read_to_string(&trace).expect("still there"), "kept");
    assert_eq!(files(), 1);
    let output = relive(&["trace", "-o", text(folder.path()), "--", "/bin/true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(errors(&output).contains("is a directory"), "{}", errors(&output));
    assert_eq!(relive(&["trace", "-o", text(&trace), "--", "/bin/true"]).status.code(), Some(0));
    assert_eq!(relive(&["replay", text(&trace), "--calls"]).status.code(), Some(0));
    assert_eq!(files(), 1);
}

#[test]
fn bad_input() {
    let refused = |args: &[&str], status: i32, why: &str| {
        let output = relive(args);
        assert_eq!(output.status.code(), Some(status), "{args:?}");
        assert!(errors(&output).contains(why), "{args:?}: {}", errors(&output));
    };
    refused(&["replay", "/bin/true"], 2, "/bin/true");
    refused(&["replay", "/nowhere"], 2, "/nowhere");
    refused(&["trace", "-o", "/nowhere/x.rtrace", "--", "/bin/true"], 125, "Name another place with -o");
    refused(&["trace", "-o", "/dev/null", "--", "/nowhere"], 127, "/nowhere");
    refused(&["trace", "--ring", "much", "--", "/bin/true"], 2, "is not a size");
}
