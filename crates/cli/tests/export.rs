//! `relive export` for viewers and coverage, read by the tools the formats are for.

mod support;

use relive_profile::model::{Count, Function, Module, Profile, State};
use relive_profile::{file, flow};
use relive_testkit::compile::{compile, stdout as printed};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use support::{relive, stdout, text, thing, write};
use tempfile::TempDir;

/// Formats that this test is about; those of tables are read by `relive-interchange`'s own tests.
const FORMATS: [&str; 9] =
    ["callgrind", "pprof", "flamegraph", "folded", "speedscope", "firefox", "lcov", "cobertura", "drcov"];

const SOURCE: &str = include_str!("programs/viewed.c");

/// What a program prints.
fn ran(program: &str, args: &[&str]) -> String {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    printed(program, &args)
}

/// A program and its profile.
struct Measured {
    folder: TempDir,
}

impl Measured {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("viewed.c");
        std::fs::write(&source, SOURCE).expect("a file");
        let measured = Self { folder };
        let [program, counting] = ["program", "counting"].map(|name| measured.path(name));
        let _ = ran("gcc", &["-g", "-O0", "-o", &program, text(&source)]);
        stdout(&["instrument", &program, "-o", &counting, "--profile", &measured.path("p.rprof")]);
        let _ = ran(&counting, &[]);
        measured
    }

    fn path(&self, name: &str) -> String {
        text(&self.folder.path().join(name)).to_string()
    }

    fn export(&self, format: &str) -> String {
        let out = self.path(&format!("out.{format}"));
        stdout(&["export", &self.path("p.rprof"), "--format", format, "-o", &out]);
        out
    }

    fn table(&self, table: &str) -> Vec<Vec<String>> {
        let lines = stdout(&["dump", &self.path("p.rprof"), table]);
        lines.lines().skip(1).map(|line| line.split('\t').map(str::to_string).collect()).collect()
    }

    /// Instructions executed by each function that ran.
    fn instructions(&self) -> BTreeMap<String, u64> {
        let rows = self.table("--functions").into_iter();
        let all = rows.filter_map(|row| Some((row[1].clone(), row[6].parse().ok()?)));
        all.filter(|&(_, count)| count > 0).collect()
    }
}

/// Rows of `callgrind_annotate`: what a function costs. Other parts of recursion (`fib'2`) are added.
fn annotated(file: &str, more: &[&str]) -> (u64, BTreeMap<String, u64>) {
    let args = [&["--threshold=100", "--auto=no"], more, &[file]].concat();
    let (mut total, mut functions) = (0, BTreeMap::new());
    for line in ran("callgrind_annotate", &args).lines() {
        let number: String =
            line.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
        let Ok(number) = number.replace(',', "").parse::<u64>() else { continue };
        if line.ends_with("PROGRAM TOTALS") {
            total = number;
        } else if let Some((_, rest)) = line.split_once("viewed.c:") {
            let name = rest.split([' ', '\'']).next().unwrap_or_default();
            *functions.entry(name.to_string()).or_default() += number;
        }
    }
    (total, functions)
}

#[test]
fn callgrind_annotate_agrees_with_us_and_with_callgrind() {
    let measured = Measured::new();
    let expected = measured.instructions();
    let out = measured.export("callgrind");
    let (total, own) = annotated(&out, &[]);
    assert_eq!(total, expected.values().sum::<u64>());
    for name in ["main", "fold", "add", "square", "fib"] {
        assert_eq!(own.get(name), expected.get(name), "{name}");
    }
    // Callgrind itself counted the same.
    let theirs = measured.path("callgrind.out");
    let option = format!("--callgrind-out-file={theirs}");
    let _ = ran("valgrind", &["--tool=callgrind", "--skip-plt=no", "-q", &option, &measured.path("program")]);
    let (_, callgrinds) = annotated(&theirs, &[]);
    for name in ["main", "fold", "add", "square", "fib"] {
        assert_eq!(own.get(name), callgrinds.get(name), "{name}");
    }
    // And what calls cost is exact where a function is called from one place: all but fib, which is within itself.
    let (_, inclusive) = annotated(&out, &["--inclusive=yes"]);
    let fold = expected["fold"] + expected["add"] + expected["square"];
    assert_eq!(inclusive["fold"], fold);
    assert_eq!(inclusive["main"], fold + expected["main"] + expected["fib"]);
}

#[test]
fn pprof_agrees() {
    let measured = Measured::new();
    let out = measured.export("pprof");
    let top = ran("go", &["tool", "pprof", "-top", "-noinlines", "-nodecount=1000", "-nodefraction=0", &out]);
    let mut found = BTreeMap::new();
    for line in top.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [flat, _, _, cum, _, name] = words[..]
            && let (Ok(flat), Ok(cum)) = (flat.parse::<u64>(), cum.parse::<u64>())
        {
            found.insert(name.to_string(), (flat, cum));
        }
    }
    let expected = measured.instructions();
    let flat: BTreeMap<String, u64> = found.iter().map(|(name, &(flat, _))| (name.clone(), flat)).collect();
    assert_eq!(flat, expected, "{top}");
    assert_eq!(found["fold"].1, expected["fold"] + expected["add"] + expected["square"]);
    // Line by line: the loop of fold.
    let list = ran("go", &["tool", "pprof", "-list=^fold$", &out]);
    assert!(list.contains("viewed.c"), "{list}");
    assert!(
        list.lines().any(|line| line.contains("for (int i = 0") && !line.contains("         .")),
        "{list}"
    );
}

#[test]
fn lines_agree_with_gcov() {
    let measured = Measured::new();
    let out = measured.export("lcov");
    let html = measured.path("html");
    let rates = ran("genhtml", &["--branch-coverage", "-o", &html, &out]);
    assert!(rates.contains("functions..: 83.3% (5 of 6 functions)"), "{rates}");
    let info = std::fs::read_to_string(&out).expect("written");
    let ours: BTreeMap<u32, u64> =
        records(&info, "DA:").into_iter().map(|row| (row[0] as u32, row[1])).collect();
    // gcov's own.
    let folder = measured.folder.path();
    let _ = ran("gcc", &["-O0", "--coverage", "-o", &measured.path("covered"), &measured.path("viewed.c")]);
    let _ = ran(&measured.path("covered"), &[]);
    let gcov =
        std::process::Command::new("gcov").args(["-t", "covered-viewed.gcda"]).current_dir(folder).output();
    let gcov = String::from_utf8(gcov.expect("gcov runs").stdout).expect("text");
    let mut lines = 0;
    for line in gcov.lines() {
        let mut parts = line.splitn(3, ':').map(str::trim);
        let (Some(count), Some(Ok(number))) = (parts.next(), parts.next().map(str::parse::<u32>)) else {
            continue;
        };
        let count = match count.trim_end_matches('*') {
            "-" => continue,
            "#####" => 0,
            count => count.parse::<u64>().expect("a count"),
        };
        assert_eq!(ours.get(&number), Some(&count), "{line}");
        lines += 1;
    }
    assert!(lines > 25, "{gcov}");
    // What only we list is the end of a function, where gcov has no statement.
    let source: Vec<&str> = SOURCE.lines().collect();
    let more = ours.keys().filter(|&&line| !gcov_has(&gcov, line));
    assert!(more.into_iter().all(|&line| source[line as usize - 1] == "}"));
    // Branches: those of the loop.
    let line = source.iter().position(|line| line.contains("for (int i")).expect("a loop") as u64 + 1;
    let mut branches: Vec<u64> =
        records(&info, "BRDA:").into_iter().filter(|row| row[0] == line).map(|row| row[3]).collect();
    branches.sort_unstable();
    assert_eq!(branches, [1, 1000]);
}

fn gcov_has(gcov: &str, line: u32) -> bool {
    gcov.lines().any(|row| {
        let mut parts = row.splitn(3, ':').map(str::trim);
        let count = parts.next();
        parts.next() == Some(&line.to_string()) && count != Some("-")
    })
}

/// Numbers of records of one kind; what is not a number is zero.
fn records(info: &str, kind: &str) -> Vec<Vec<u64>> {
    let rows = info.lines().filter_map(|line| line.strip_prefix(kind));
    rows.map(|row| row.split(',').map(|number| number.parse().unwrap_or(0)).collect()).collect()
}

#[test]
fn cobertura_is_well_formed_and_says_the_same_as_lcov() {
    let measured = Measured::new();
    let info = std::fs::read_to_string(measured.export("lcov")).expect("written");
    let xml = std::fs::read_to_string(measured.export("cobertura")).expect("written");
    let elements = elements(&xml);
    let of = |element: &str, name: &str| -> Vec<&BTreeMap<String, String>> {
        elements
            .iter()
            .filter(|(path, _)| path.ends_with(element) && path.contains(name))
            .map(|(_, a)| a)
            .collect()
    };
    let lines: Vec<(u64, u64)> = of("class/lines/line", "")
        .iter()
        .map(|line| (line["number"].parse().expect("a number"), line["hits"].parse().expect("a number")))
        .collect();
    let expected: Vec<(u64, u64)> = records(&info, "DA:").iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(lines, expected);
    let coverage = of("coverage", "")[0];
    assert_eq!(coverage["lines-valid"], expected.len().to_string());
    assert_eq!(of("methods/method", "").len(), 6);
    assert!(of("class", "").iter().any(|class| class["filename"].ends_with("viewed.c")));
}

/// Elements of a document with the way to them, and their attributes. Panics if they are not one in the other.
fn elements(xml: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let (mut open, mut found): (Vec<String>, Vec<_>) = (Vec::new(), Vec::new());
    for tag in xml.split('<').skip(1) {
        let (tag, after) = tag.split_once('>').expect("the end of a tag");
        assert!(!after.contains('>') && tag.matches('"').count() % 2 == 0, "{tag}");
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let whole = tag.trim_end_matches('/');
        let (name, mut rest) = whole.split_once(' ').unwrap_or((whole, ""));
        let mut attributes = BTreeMap::new();
        while let Some((key, after)) = rest.split_once("=\"") {
            let (value, after) = after.split_once('"').expect("the end of a value");
            attributes.insert(key.trim().to_string(), value.to_string());
            rest = after;
        }
        open.push(name.to_string());
        found.push((open.join("/"), attributes));
        if tag.ends_with('/') {
            open.pop();
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

#[test]
fn drcov_lists_blocks_that_ran() {
    let measured = Measured::new();
    let bytes = std::fs::read(measured.export("drcov")).expect("written");
    let end = bytes.windows(5).position(|part| part == b" bbs\n").expect("the table") + 5;
    let head = std::str::from_utf8(&bytes[..end]).expect("text");
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines[..2], ["DRCOV VERSION: 2", "DRCOV FLAVOR: relive"]);
    assert_eq!(lines[2..4], ["Module Table: version 2, count 1", "Columns: id, base, end, entry, path"]);
    let module: Vec<&str> = lines[4].split(',').map(str::trim).collect();
    assert_eq!((module[0], module[1]), ("0", "0x0000000000000000"));
    assert!(module[4].ends_with("/program"), "{head}");
    let found: Vec<(u64, u64)> = bytes[end..]
        .chunks(8)
        .map(|b| {
            (u32::from_le_bytes([b[0], b[1], b[2], b[3]]).into(), u16::from_le_bytes([b[4], b[5]]).into())
        })
        .collect();
    assert_eq!(lines[5], format!("BB Table: {} bbs", found.len()));
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("an address");
    let rows = measured.table("--blocks").into_iter().filter(|row| row[4] != "0" && row[4] != "-");
    let expected: Vec<(u64, u64)> = rows.map(|row| (hex(&row[2]), row[3].parse().expect("a size"))).collect();
    assert_eq!(found, expected);
}

#[test]
fn stacks_of_a_profile() {
    let measured = Measured::new();
    let expected = measured.instructions();
    let folded = std::fs::read_to_string(measured.export("folded")).expect("written");
    let stacks = folded_stacks(&folded);
    assert_eq!(stacks["main;fold;add"], expected["add"]);
    assert_eq!(stacks["main;fib"], expected["fib"]);
    assert_eq!(stacks.values().sum::<u64>(), expected.values().sum::<u64>());
    let scope: Value = json(&measured.export("speedscope"));
    let profile = &scope["profiles"][0];
    assert_eq!(profile["type"], "sampled");
    assert!(profile["name"].as_str().is_some_and(|name| name.contains("estimated")));
    assert_eq!(sum(&profile["weights"]), profile["endValue"].as_u64().expect("a number"));
    assert_eq!(sum(&profile["weights"]), expected.values().sum::<u64>());
    firefox(&json(&measured.export("firefox")), expected.values().sum());
    let svg = std::fs::read_to_string(measured.export("flamegraph")).expect("written");
    let script = svg.find("<script>").expect("a script")..svg.find("</script>").expect("its end");
    let svg = svg.replace(&svg[script], "<script>");
    let titles = elements(&svg).iter().filter(|(path, _)| path.ends_with("g/g/title")).count();
    assert_eq!(titles, stacks.len() + 1, "{svg}");
    assert!(svg.contains(&format!(
        "fold ({} instructions",
        expected["fold"] + expected["add"] + expected["square"]
    )));
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("written")).expect("JSON")
}

fn sum(numbers: &Value) -> u64 {
    numbers.as_array().expect("a list").iter().map(|number| number.as_u64().expect("a number")).sum()
}

fn folded_stacks(folded: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        (stack.to_string(), count.parse().expect("a number"))
    };
    folded.lines().map(row).collect()
}

/// What the documentation of the format asks for: tables whose columns are as long as they say, and numbers of other tables that exist.
fn firefox(profile: &Value, total: u64) {
    assert_eq!(profile["meta"]["preprocessedProfileVersion"], 55);
    for key in [
        "categories",
        "interval",
        "markerSchema",
        "processType",
        "product",
        "stackwalk",
        "startTime",
        "symbolicated",
        "version",
    ] {
        assert!(!profile["meta"][key].is_null(), "{key}");
    }
    for thread in profile["threads"].as_array().expect("threads") {
        let mut lengths = BTreeMap::new();
        for table in
            ["frameTable", "funcTable", "resourceTable", "nativeSymbols", "markers", "stackTable", "samples"]
        {
            let length = thread[table]["length"].as_u64().expect("a length");
            for (name, column) in thread[table].as_object().expect("a table") {
                if let Some(column) = column.as_array() {
                    assert_eq!(column.len() as u64, length, "{table}.{name}");
                }
            }
            lengths.insert(table, length);
        }
        lengths.insert("libs", profile["libs"].as_array().expect("libs").len() as u64);
        lengths.insert("texts", thread["stringArray"].as_array().expect("texts").len() as u64);
        for (table, column, other) in [
            ("frameTable", "func", "funcTable"),
            ("funcTable", "name", "texts"),
            ("funcTable", "fileName", "texts"),
            ("funcTable", "resource", "resourceTable"),
            ("resourceTable", "lib", "libs"),
            ("resourceTable", "name", "texts"),
            ("stackTable", "frame", "frameTable"),
            ("samples", "stack", "stackTable"),
        ] {
            for number in thread[table][column].as_array().expect("a column").iter().filter_map(Value::as_u64)
            {
                assert!(number < lengths[other], "{table}.{column}");
            }
        }
        for (at, prefix) in thread["stackTable"]["prefix"].as_array().expect("a column").iter().enumerate() {
            assert!(prefix.as_u64().is_none_or(|prefix| (prefix as usize) < at), "a parent comes first");
        }
        assert_eq!(sum(&thread["samples"]["weight"]), total);
        // Zeros would be drawn as a thread that slept.
        assert!(thread["samples"]["threadCPUDelta"].is_null());
    }
}

/// Stacks of a trace are those that its calls print one by one.
#[test]
fn stacks_of_calls_are_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile("gcc", &["-O0", "-static"], ("viewed.c", SOURCE));
    let path = |name: &str| text(&folder.path().join(name)).to_string();
    let [trace, calls] = ["p.rtrace", "p.rcalls"].map(path);
    stdout(&["trace", "-q", "-o", &trace, "--", text(&program)]);
    stdout(&["analyze", "calls", &trace, "-o", &calls]);
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    let mut stack: Vec<String> = Vec::new();
    let sequence = stdout(&["dump", &calls, "--sequence"]);
    for line in sequence.lines().skip(1) {
        let row: Vec<&str> = line.split('\t').collect();
        stack.truncate(row[1].parse().expect("a depth"));
        stack.push(row[5].trim_start().to_string());
        *expected.entry(stack.join(";")).or_default() += 1;
    }
    assert_eq!(folded_stacks(&stdout(&["export", &calls, "--format", "folded", "-o", "-"])), expected);
    let count = sequence.lines().count() as u64 - 1;
    let scope: Value =
        serde_json::from_str(&stdout(&["export", &calls, "--format", "speedscope", "-o", "-"]))
            .expect("JSON");
    let events = scope["profiles"][0]["events"].as_array().expect("events");
    assert_eq!(events.len() as u64, 2 * count);
    let mut open = Vec::new();
    for event in events {
        match event["type"].as_str() {
            Some("O") => open.push(&event["frame"]),
            _ => assert_eq!(open.pop(), Some(&event["frame"])),
        }
    }
    assert!(open.is_empty());
    firefox(
        &serde_json::from_str(&stdout(&["export", &calls, "--format", "firefox", "-o", "-"])).expect("JSON"),
        count,
    );
    let output = relive(&["export", &calls, "--format", "lcov", "-o", "-"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(message.contains("lcov is about counts, and this is a sequence of calls"), "{message}");
}

/// Whatever a profile lacks, a format is written or refused, and says why.
#[test]
fn unusual_profiles() {
    let folder = tempfile::tempdir().expect("a folder");
    let huge = {
        let mut module = thing();
        flow::recover(&mut module).expect("determined");
        module.layout.counters = 0;
        module.counters = Vec::new();
        for function in &mut module.functions {
            function.blocks.iter_mut().for_each(|block| block.count = Some(Count::measured(u64::MAX >> 1)));
            function.edges.iter_mut().for_each(|edge| edge.count = Some(Count::measured(u64::MAX >> 1)));
        }
        module
    };
    let nameless = {
        let mut module = Module { path: "/opt/stripped".into(), ..Module::default() };
        let name = module.texts.intern("");
        let reason = module.texts.intern("because");
        module.functions = vec![Function::new(name, 0x1000, 16, State::NotMeasured { reason })];
        module
    };
    let unusual = [
        ("thing", thing()),
        ("counted-nothing", Module { counters: Vec::new(), runs: 0, ..thing() }),
        ("no-functions", Module { path: "/opt/empty".into(), ..Module::default() }),
        ("nameless", nameless),
        ("huge", huge),
    ];
    let mut files: Vec<(String, bool)> =
        unusual.iter().map(|(name, module)| (write(folder.path(), name, module), *name == "thing")).collect();
    let none = folder.path().join("no-modules");
    std::fs::write(&none, file::write(&Profile::default())).expect("a file");
    files.push((text(&none).to_string(), false));
    let tables = ["functions", "blocks", "edges", "calls", "loops"].map(|table| format!("parquet-{table}"));
    for (profile, is_whole) in &files {
        for format in FORMATS.iter().copied().chain(tables.iter().map(|table| &**table)) {
            let out = folder.path().join("out");
            let output = relive(&["export", profile, "--format", format, "-o", text(&out)]);
            let message = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0) => assert!(out.exists()),
                Some(2) => {
                    assert!(!is_whole, "{profile} {format}: {message}");
                    assert!(message.starts_with(&format!("relive: {profile}")), "{message}");
                    assert!(message.trim_end().ends_with(')') && !Path::new(&out).exists(), "{message}");
                }
                other => panic!("{profile} {format}: {other:?} {message}"),
            }
            let _ = std::fs::remove_file(&out);
        }
    }
}

#[test]
fn several_profiles_are_for_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, two] = ["one.rprof", "two.rprof"].map(|name| write(folder.path(), name, &thing()));
    let out = text(&folder.path().join("out")).to_string();
    let output = relive(&["export", &one, &two, "--format", "parquet-functions", "-o", &out]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(": 8 rows"));
    let output = relive(&["export", &one, &two, "--format", "lcov", "-o", &out]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("lcov is about one profile, not 2 (add them up with `relive merge`")
    );
}
