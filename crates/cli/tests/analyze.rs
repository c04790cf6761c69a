//! Questions to traces: races of programs that race and of programs that do not, caches against cachegrind, and bad input.

mod support;

use insta::assert_snapshot;
use relive_testkit::compile::compile;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{relive, stdout, text};
use tempfile::TempDir;

/// Traces a program.
fn trace(program: &Path, folder: &TempDir, more: &[&str]) -> PathBuf {
    let file = folder.path().join("program.rtrace");
    let args = [&["trace", "-q", "-o", text(&file)], more, &["--", text(program)]].concat();
    let output = relive(&args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    file
}

/// What is found in a trace, and the exit status.
fn ask(question: &str, file: &Path, more: &[&str]) -> (Value, Option<i32>) {
    let output = relive(&[&["analyze", question, text(file), "--json"], more].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let found = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    (found, output.status.code())
}

/// A program that races, or does not: its name, its file and its source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    name: String,
    file: String,
    source: String,
}

/// All programs of a folder.
fn programs(folder: &str) -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analysis/tests/races").join(folder);
    let files = std::fs::read_dir(&folder).expect("the programs");
    let mut all: Vec<_> = files
        .map(|file| {
            let path = file.expect("a file").path();
            let text = |name: Option<&std::ffi::OsStr>| name.expect("a name").to_string_lossy().into_owned();
            let source = std::fs::read_to_string(&path).expect("a source");
            Program { name: text(path.file_stem()), file: text(path.file_name()), source }
        })
        .collect();
    all.sort();
    all
}

/// Does something with each of them, two at a time.
fn each(folder: &str, check: impl Fn(&Program) + Sync) {
    let all = programs(folder);
    assert!(all.len() >= 27);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(program) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(program);
                }
            });
        }
    });
}

fn traced(Program { name, file, source }: &Program) -> (PathBuf, TempDir) {
    let compiler = if file.ends_with(".cc") { "g++" } else { "gcc" };
    let linked = if name.starts_with("static_") { "-static" } else { "-pie" };
    let program = compile(compiler, &["-O1", "-g", "-pthread", linked], (file, source));
    let folder = tempfile::tempdir().expect("a folder");
    // The program stays as long as its trace: names are looked up in it.
    let kept = folder.path().join("program");
    std::fs::copy(&*program, &kept).expect("a copy");
    (trace(&kept, &folder, &[]), folder)
}

#[test]
fn races_are_found() {
    each("racy", |program| {
        let (name, source) = (&*program.name, &program.source);
        let (file, _folder) = traced(program);
        let (found, status) = ask("races", &file, &[]);
        assert_eq!(status, Some(1), "{name}");
        let expected =
            source.lines().next().and_then(|line| line.strip_prefix("/* races: ")).expect("a name");
        let races = found["races"].as_array().expect("a list");
        // What is on the heap or a stack has no name; what is guarded is part of something larger.
        let named = if expected == "guarded" { "data+0x1" } else { expected };
        let is_expected = |race: &Value| match race["variable"].as_str() {
            Some(variable) => variable.starts_with(named),
            None => matches!(expected, "block" | "local"),
        };
        assert!(races.iter().any(is_expected), "{name}: {found}");
        // Nothing else is reported, but for what a pointer leads to.
        assert!(races.iter().all(is_expected) || name == "lazy_init", "{name}: {found}");
        for side in races.iter().flat_map(|race| race["sides"].as_array().expect("two")) {
            let place = side.get("caller").unwrap_or(side);
            assert!(place["line"].is_number(), "{name}: {side}");
        }
    });
}

/// One thread writes three calls deep in itself, the other reads two calls deep.
const DEEP: &str = r#"
#include <pthread.h>
int shared;
// Otherwise one may be over before the other is begun, with which the C library puts them in order.
pthread_barrier_t both;
__attribute__((noinline)) int depth(int n) { int r = n ? depth(n - 1) + 1 : (shared = 1); __asm__ volatile("" : "+r"(r)); return r; }
__attribute__((noinline)) int look(void) { int r = shared; __asm__ volatile("" : "+r"(r)); return r; }
__attribute__((noinline)) int middle(void) { int r = look() + 1; __asm__ volatile("" : "+r"(r)); return r; }
void *writer(void *unused) { pthread_barrier_wait(&both); depth(2); return unused; }
void *reader(void *unused) { pthread_barrier_wait(&both); middle(); return unused; }
int main(void) {
    pthread_t one, two;
    pthread_barrier_init(&both, 0, 2);
    pthread_create(&one, 0, writer, 0);
    pthread_create(&two, 0, reader, 0);
    pthread_join(one, 0);
    pthread_join(two, 0);
}
"#;

#[test]
fn both_stacks_of_a_race() {
    let program = compile("gcc", &["-O1", "-g", "-pthread", "-fno-optimize-sibling-calls"], ("deep.c", DEEP));
    let folder = tempfile::tempdir().expect("a folder");
    let (found, _) = ask("races", &trace(&program, &folder, &[]), &[]);
    let name = |at: &Value| at["function"].as_str().unwrap_or("?").to_string();
    let stack = |access: &str| -> Vec<String> {
        let sides = found["races"][0]["sides"].as_array().expect("two");
        let side = sides.iter().find(|side| side["access"] == access).expect("one of each");
        let calls = side["stack"].as_array().expect("a list").iter().map(name);
        // Below is how the C library begins threads.
        std::iter::once(name(side)).chain(calls).take(4).collect()
    };
    assert_eq!(stack("write"), ["depth", "depth", "depth", "writer"], "{found}");
    assert_eq!(stack("read")[..3], ["look", "middle", "reader"], "{found}");
}

#[test]
fn nothing_is_made_up() {
    each("correct", |program| {
        let name = &program.name;
        let (file, _folder) = traced(program);
        let (found, status) = ask("races", &file, &[]);
        assert_eq!((found["races"].as_array().map(Vec::len), status), (Some(0), Some(0)), "{name}: {found}");
    });
}

#[test]
fn data_without_its_lock() {
    let all = [programs("racy"), programs("correct")].concat();
    let check = |name: &str, guard: &str, expected: &[&str]| {
        let (file, _folder) = traced(all.iter().find(|program| program.name == name).expect("a program"));
        let (found, status) = ask("races", &file, &["--guard", guard]);
        let accesses = found["accesses"].as_array().expect("a list");
        let mut functions: Vec<_> = accesses
            .iter()
            .map(|access| access.get("caller").unwrap_or(access)["function"].as_str().unwrap_or("?"))
            .collect();
        functions.dedup();
        assert_eq!(functions, expected, "{name}: {found}");
        assert_eq!(status, Some(i32::from(!expected.is_empty())), "{name}");
    };
    check("strcpy_overrun", "data=lock", &["two"]);
    check("reader_outside", "balance=lock", &["two"]);
    check("condition_queue", "queue=lock", &[]);
    check("recursive_mutex", "counter=lock", &[]);
    check("spin_lock", "counter=lock", &[]);
    check("thread_pool", "tasks=lock", &[]);
}

const SUMS: &str = r#"
    #define N 120
    static double a[N][N], b[N][N], c[N][N];
    int main(void) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) a[i][j] = i + j, b[i][j] = i - j;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int k = 0; k < N; k++) sum += a[i][k] * b[k][j];
                c[i][j] = sum;
            }
        return c[3][4] == 5;
    }
"#;

/// What cachegrind counts in a function: instructions, their misses in both levels, the same for reads and for writes.
fn cachegrind(program: &Path, function: &str, folder: &TempDir) -> Vec<u64> {
    let out = folder.path().join("cachegrind.out");
    let status = Command::new("valgrind")
        .args(["-q", "--tool=cachegrind", "--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64"])
        .args(["--LL=8388608,16,64", &format!("--cachegrind-out-file={}", text(&out))])
        .arg(program)
        .status()
        .expect("valgrind");
    assert!(status.success());
    let mut sums = vec![0; 9];
    let mut is_inside = false;
    for line in std::fs::read_to_string(out).expect("what it found").lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            is_inside = name == function;
        } else if is_inside && line.starts_with(|c: char| c.is_ascii_digit()) {
            let numbers = line.split(' ').skip(1).map(|number| number.parse::<u64>().expect("a number"));
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
        }
    }
    sums
}

#[test]
fn caches_as_cachegrind_has_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("gcc", &["-O2", "-g"], ("sums.c", SUMS));
    let file = trace(&program, &folder, &[]);
    let (found, status) = ask("cache", &file, &[]);
    assert_eq!(status, Some(0));
    let rows = found["functions"].as_array().expect("functions");
    let main = rows.iter().find(|row| row["function"] == "main").expect("main");
    let counts: Vec<u64> = ["code", "reads", "writes"]
        .iter()
        .flat_map(|what| {
            ["accesses", "l1_misses", "ll_misses"].map(|count| main[what][count].as_u64().expect("a number"))
        })
        .collect();
    assert_eq!(counts, cachegrind(&program, "main", &folder));
    // Other questions agree with it, and with each other.
    let (mix, _) = ask("mix", &file, &[]);
    let of_main =
        mix["functions"].as_array().expect("functions").iter().find(|row| row["function"] == "main");
    let of_main = of_main.expect("main");
    assert_eq!(
        [&of_main["instructions"], &of_main["stores"]],
        [&main["code"]["accesses"], &main["writes"]["accesses"]]
    );
    let (strides, _) = ask("strides", &file, &[]);
    let most = &strides["accesses"][0];
    assert_eq!((most["loads"].as_u64(), &most["function"]), (Some(120 * 120 * 60), &Value::from("main")));
    assert!([8, 16, 960, 1920].contains(&most["strides"][0]["bytes"].as_i64().expect("a number")), "{most}");
    let (reuse, _) = ask("reuse", &file, &[]);
    let (working_set, _) = ask("working-set", &file, &[]);
    assert_eq!(reuse["total"]["first"], working_set["processes"][0]["data"]["lines"]);
    let (paths, _) = ask("hot-paths", &file, &[]);
    assert_eq!(paths["instructions"], mix["total"]["instructions"]);
    let hottest = &paths["paths"][0];
    assert_eq!(
        (&hottest["is_loop"], &hottest["units"][0]["function"]),
        (&Value::from(true), &Value::from("main"))
    );
    assert!(hottest["instructions"].as_u64() > paths["instructions"].as_u64().map(|all| all / 10 * 9));
}

/// Without symbols, functions are told by unwind entries, and called as in profiles.
#[test]
fn functions_of_stripped_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("gcc", &["-O2", "-s"], ("sums.c", SUMS));
    let file = trace(&program, &folder, &[]);
    let (found, _) = ask("mix", &file, &[]);
    let hottest = found["functions"].as_array().and_then(|rows| rows.first()).expect("a function").clone();
    let name = hottest["function"].as_str().expect("a name");
    assert_eq!(hottest["module"], text(&program), "{hottest}");
    let measured = folder.path().join("p.rprof");
    stdout(&["run", "-q", "-o", text(&measured), "--", text(&program)]);
    let rows = stdout(&["dump", text(&measured), "--functions"]);
    assert!(name.starts_with("fn_") && rows.contains(&format!("\t{name}\t")), "{name}: {rows}");
    assert!(stdout(&["replay", text(&file), "--calls"]).contains(name), "{name}");
}

/// What it says on standard error, and the exit status.
fn complaint(args: &[&str]) -> String {
    let output = relive(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.rtrace");
    let said = complaint(&["analyze", "mix", text(&missing)]);
    assert!(said.contains("missing.rtrace") && said.contains("relive trace"), "{said}");
    let said = complaint(&["analyze", "mix", "/bin/true"]);
    assert!(said.contains("/bin/true") && said.contains("does not begin like one"), "{said}");
    let said = complaint(&["analyze", "cache", "x.rtrace", "--l1d", "32K,7,64"]);
    assert!(said.contains("number of sets must be a power of two"), "{said}");
    let said = complaint(&["analyze", "cache", "x.rtrace", "--machine", "abacus"]);
    assert!(said.contains("known are plain, skylake"), "{said}");
    let said = complaint(&["analyze", "reuse", "x.rtrace", "--block", "48"]);
    assert!(said.contains("--block 48") && said.contains("power of two"), "{said}");
    let program = compile("gcc", &[], ("program.c", "int main(void) { return 0; }"));
    let file = trace(&program, &folder, &["--control-flow-only"]);
    let said = complaint(&["analyze", "cache", text(&file)]);
    assert!(said.contains("--control-flow-only"), "{said}");
    let (mix, status) = ask("mix", &file, &[]);
    assert!(mix["total"]["loads"].as_u64() > Some(100) && status == Some(0));
    let file = trace(&program, &folder, &[]);
    let said = complaint(&["analyze", "races", text(&file), "--guard", "nothing=nobody"]);
    assert!(said.contains("nothing=nobody"), "{said}");
    // A trace that was cut off is looked at as far as it goes.
    let bytes = std::fs::read(&file).expect("a trace");
    std::fs::write(&file, &bytes[..bytes.len() - 5]).expect("a shorter one");
    let output = relive(&["analyze", "mix", text(&file)]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stderr).contains("was not finished"));
}

#[test]
fn help() {
    assert_snapshot!("help", stdout(&["analyze", "--help"]));
    assert_snapshot!("help_cache", stdout(&["analyze", "cache", "--help"]));
    assert_snapshot!("help_races", stdout(&["analyze", "races", "--help"]));
}
