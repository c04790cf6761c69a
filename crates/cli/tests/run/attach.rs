//! Processes that are running already: measured for a while, they notice nothing and go on.

use crate::kit::{Lab, Profile, Ran, available, relive};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One of the programs for these tests.
fn source(name: &str) -> String {
    format!("{}/tests/run/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn attach(lab: &Lab, pid: u32, options: &[&str]) -> Ran {
    let mut command = relive();
    command.current_dir(lab.folder()).args(["run", "--attach", &pid.to_string()]).args(options);
    lab.finish(command)
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Ends its input, and tells what it says and how it ends. One that does not is killed.
fn end(mut child: Child) -> (Option<i32>, String) {
    const LIMIT: Duration = Duration::from_secs(120);
    drop(child.stdin.take());
    let start = Instant::now();
    while start.elapsed() < LIMIT && child.try_wait().expect("its end").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    // One that has ended does not mind.
    child.kill().expect("its end");
    let mut said = String::new();
    child.stdout.take().expect("output").read_to_string(&mut said).expect("output");
    child.stderr.take().expect("errors").read_to_string(&mut said).expect("errors");
    (child.wait().expect("its end").code(), said)
}

/// How often the blocks of a function were executed in a profile.
fn executed(profile: &Path, function: &str) -> u64 {
    let blocks = Profile(profile.to_owned()).blocks();
    blocks.iter().filter(|b| b.function == function).filter_map(|b| b.count).sum()
}

#[test]
fn again_and_again() {
    for how in ["gcc -O0 -g", "gcc -O2 -static"] {
        rounds(how, "attached.c", "recurse", 100);
    }
}

/// With `gs`, code that changes, and threads for which the engine waits.
#[test]
fn while_the_engine_waits() {
    rounds("gcc -O1 -pthread", "waiting.c", "count", 10);
}

/// With faults that the kernel has not told of yet.
#[test]
fn while_it_fails() {
    rounds("gcc -O1 -pthread", "faulting.c", "fault", 10);
}

/// Measures a program several times, in each of which a function executes more blocks than so many.
fn rounds(how: &str, program: &str, function: &str, least: u64) {
    let lab = Lab::new();
    let program = lab.build(how, &source(program), "program");
    let mut child = start(&mut Command::new(&program));
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("output")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n", "{how}");
    for round in 0..8 {
        let name = format!("{round}.rprof");
        let options = ["--for", "200ms", "-o", &name, "--modules", "*/program"];
        let ran = attach(&lab, child.id(), &options);
        assert_eq!((ran.status.code(), ran.stderr.as_str()), (Some(0), ""), "{how}, round {round}");
        let maps = fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("still there");
        assert!(!maps.contains("relive"), "{maps}");
        let blocks = executed(&lab.path(&name), function);
        assert!(blocks > least, "{how}, round {round}: {blocks} blocks");
    }
    assert_eq!(end(child), (Some(0), "fine\n".to_owned()), "{how}");
}

/// Whatever a process waits for, it goes on waiting, and then goes on.
#[test]
fn while_it_waits() {
    for (script, says) in [
        ("sleep 3; echo slept", "slept\n"),
        ("read line; echo \"<$line>\"", "<>\n"),
        ("sleep 3 & wait; echo $(echo waited)", "waited\n"),
        ("trap 'echo trapped; exit' USR1; (sleep 3; kill -USR1 $$) & while :; do :; done", "trapped\n"),
    ] {
        let lab = Lab::new();
        let child = start(Command::new("/bin/bash").args(["-c", script]));
        std::thread::sleep(Duration::from_millis(100));
        for _ in 0..2 {
            // Nothing to be written: that could take longer than it waits.
            let ran = attach(&lab, child.id(), &["--for", "50ms", "--no-count"]);
            assert_eq!((ran.status.code(), ran.stderr.as_str()), (Some(0), ""), "{script}");
        }
        assert_eq!(end(child), (Some(0), says.to_owned()), "{script}");
    }
}

/// A server goes on serving.
#[test]
fn a_server() {
    if !available("python3") {
        return;
    }
    let lab = Lab::new();
    let script = "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\n\
                  while True:\n  c, _ = s.accept()\n  d = c.recv(100)\n  c.sendall(d[::-1]); c.close()\n  if d == b'end': break";
    let mut child = start(Command::new("python3").args(["-c", script]));
    let mut port = String::new();
    BufReader::new(child.stdout.as_mut().expect("output")).read_line(&mut port).expect("a line");
    let port: u16 = port.trim().parse().expect("a port");
    let ask = |text: &str| {
        use std::io::Write as _;
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.write_all(text.as_bytes()).expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let pid = child.id();
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| attach(&lab, pid, &["--for", "700ms", "-o", "server.rprof"]));
        while !measured.is_finished() {
            assert_eq!(ask("stressed"), "desserts");
        }
        let ran = measured.join().expect("measured");
        assert_eq!((ran.status.code(), ran.stderr.as_str()), (Some(0), ""));
    });
    assert_eq!(ask("end"), "dne");
    assert_eq!(end(child), (Some(0), String::new()));
    assert!(Profile(lab.path("server.rprof")).exists());
}

/// Interrupted, the tool writes the profile, and the process goes on. One that ends by itself is measured to its end.
#[test]
fn until_it_is_over() {
    let lab = Lab::new();
    for is_told in [true, false] {
        let script = if is_told { "read line; echo on" } else { "sleep 1; echo on" };
        let child = start(Command::new("/bin/bash").args(["-c", script]));
        let mut tool = relive();
        tool.current_dir(lab.folder()).args(["run", "-o", "over.rprof", "--attach", &child.id().to_string()]);
        let mut tool = tool.spawn().expect("the tool starts");
        std::thread::sleep(Duration::from_millis(500));
        if is_told {
            let told = Command::new("kill").args(["-INT", &tool.id().to_string()]).status().expect("kill");
            assert!(told.success());
            assert_eq!(tool.wait().expect("its end").code(), Some(0));
            assert_eq!(end(child), (Some(0), "on\n".to_owned()));
        } else {
            assert_eq!(end(child), (Some(0), "on\n".to_owned()));
            assert_eq!(tool.wait().expect("its end").code(), Some(0));
        }
        assert!(Profile(lab.path("over.rprof")).exists());
        fs::remove_file(lab.path("over.rprof")).expect("the profile");
    }
}

#[test]
fn what_cannot_be_measured() {
    let lab = Lab::new();
    let ran = attach(&lab, 4_000_000, &["-o", "p"]);
    assert_eq!(ran.status.code(), Some(125));
    assert!(
        ran.stderr.contains("process 4000000") && ran.stderr.contains("no such process"),
        "{}",
        ran.stderr
    );

    let child = start(&mut Command::new("cat"));
    let mut first = relive();
    first.current_dir(lab.folder()).args([
        "run",
        "-o",
        "p",
        "--attach",
        &child.id().to_string(),
        "--for",
        "2s",
    ]);
    let mut first = first.spawn().expect("the tool starts");
    std::thread::sleep(Duration::from_millis(500));
    let ran = attach(&lab, child.id(), &["-o", "q"]);
    assert_eq!(ran.status.code(), Some(125));
    assert!(ran.stderr.contains("being measured already"), "{}", ran.stderr);
    assert_eq!(first.wait().expect("its end").code(), Some(0));
    assert_eq!(end(child), (Some(0), String::new()));
}
