//! `docs/profile.proto`, which other languages read, and `src/proto.rs` say the same.

use relive_profile::file;
use relive_profile::model::{Function, Module, State};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What a message holds: by its tag, the name, type and repetition of each field.
type Messages = BTreeMap<String, BTreeMap<u32, (String, String, bool)>>;

/// The two fields that are read in two steps: bytes here, messages there.
const IN_TWO_STEPS: [(&str, &str, &str); 2] =
    [("Description", "modules", "Module"), ("Module", "code", "Code")];

fn documented(text: &str) -> Messages {
    let mut messages = Messages::new();
    let mut message = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix("message ").and_then(|line| line.strip_suffix(" {")) {
            message = name.to_string();
            messages.insert(message.clone(), BTreeMap::new());
        } else if let Some((field, tag)) = line.strip_suffix(';').and_then(|line| line.split_once(" = "))
            && !message.is_empty()
        {
            let words: Vec<&str> = field.split_whitespace().collect();
            let [.., kind, name] = *words else { panic!("{line}") };
            let field = (name.to_string(), kind.to_string(), words[0] == "repeated");
            let other =
                messages.get_mut(&message).expect("a message").insert(tag.parse().expect("a tag"), field);
            assert_eq!(other, None, "{line}");
        }
    }
    messages
}

fn implemented(text: &str) -> Messages {
    let mut messages = Messages::new();
    let (mut message, mut attribute) = (String::new(), String::new());
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("pub struct ").and_then(|line| line.strip_suffix(" {")) {
            message = name.to_string();
            messages.insert(message.clone(), BTreeMap::new());
        } else if let Some(text) = line.strip_prefix("#[prost(") {
            attribute = text.to_string();
        } else if let Some((name, kind)) = line.strip_prefix("pub ").and_then(|line| line.split_once(": ")) {
            let tag = attribute.split("tag = \"").nth(1).and_then(|rest| rest.split('"').next());
            let scalar = attribute.split([',', ' ']).next().expect("a kind");
            let inner = kind.trim_matches(|c| ",>".contains(c)).rsplit('<').next().expect("a type");
            let in_two_steps = IN_TWO_STEPS
                .iter()
                .find(|(m, field, _)| *m == message && *field == name)
                .map(|(.., kind)| *kind);
            let kind = in_two_steps.unwrap_or(if scalar == "message" { inner } else { scalar });
            let field = (name.to_string(), kind.to_string(), attribute.contains("repeated"));
            messages
                .get_mut(&message)
                .expect("a message")
                .insert(tag.and_then(|tag| tag.parse().ok()).expect("a tag"), field);
        }
    }
    messages
}

#[test]
fn both_say_the_same() {
    let documented = documented(include_str!("../../../docs/profile.proto"));
    let implemented = implemented(include_str!("../src/proto.rs"));
    assert!(implemented.len() > 10);
    assert!(implemented.values().all(|fields| !fields.is_empty()));
    for (name, fields) in &implemented {
        assert_eq!(documented.get(name), Some(fields), "{name}");
    }
    assert_eq!(documented.len(), implemented.len());
}

/// Another implementation reads it: `protoc`, where it is installed.
#[test]
fn another_implementation_reads_it() {
    let mut module = Module { path: "/bin/thing".into(), build_id: vec![1; 20], ..Module::default() };
    let name = module.texts.intern("main");
    module.functions.push(Function::new(name, 0x1234, 5, State::Measured));
    let description = zstd::decode_all(&*file::describe(&module)).expect("packed");
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let protoc = Command::new("protoc")
        .args(["--proto_path", docs, "--decode", "relive.profile.Description", "profile.proto"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut protoc) = protoc else { return };
    protoc.stdin.take().expect("a pipe").write_all(&description).expect("a reader");
    let output = protoc.wait_with_output().expect("a child");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success());
    for line in ["path: \"/bin/thing\"", "texts: \"main\"", "address: 4660", "state: 2"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
