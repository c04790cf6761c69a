//! Builds the engine as a file of its own: position-independent, without a library or a dynamic linker.
//!
//! Cargo has no stable way for one package to hold another's executable, so this asks it again, with a target
//! directory of its own. What becomes a part of this package is the engine as it looks in memory: see [`ready`].

#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod ready;

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let here = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let crates = here.join("..");
    for source in
        ["engine/Cargo.toml", "engine/src", "code/src", "code/Cargo.toml", "abi/src", "abi/Cargo.toml"]
    {
        println!("cargo::rerun-if-changed={}", crates.join(source).display());
    }
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=RUSTC");

    let target = PathBuf::from(var("OUT_DIR")).join("engine");
    let triple = "x86_64-unknown-linux-gnu";
    let mut cargo = Command::new(var("CARGO"));
    // The engine is the same whoever builds it: nothing of this build's settings applies.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let is_setting =
            name.starts_with("CARGO_") && name != "CARGO_HOME" && !name.starts_with("CARGO_NET_");
        let is_wrapper = name.starts_with("RUSTC_") || name == "RUSTFLAGS";
        if is_setting && !name.starts_with("CARGO_REGISTR") && !name.starts_with("CARGO_HTTP_") || is_wrapper
        {
            cargo.env_remove(&*name);
        }
    }
    let mut flags = vec!["-Crelocation-model=pie".to_owned(), "-Ctarget-feature=+crt-static".to_owned()];
    for arg in [
        "-nostartfiles",
        "-nostdlib",
        "-static-pie",
        "-Wl,--no-dynamic-linker",
        "-Wl,--build-id=none",
        "-Wl,--entry=relive_engine_start",
        "-Wl,-z,norelro",
        "-Wl,-z,noexecstack",
        "-Wl,-z,max-page-size=4096",
    ] {
        flags.push(format!("-Clink-arg={arg}"));
    }
    cargo
        .args(["rustc", "--release", "--bin", "relive-engine", "--features", "in-target"])
        .arg("--manifest-path")
        .arg(crates.join("engine/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .args(["--target", triple])
        .args(["--config", "profile.release.panic=\"abort\"", "--config", "profile.release.lto=\"fat\""])
        .args(["--config", "profile.release.codegen-units=1", "--config", "profile.release.opt-level=3"])
        .arg("--")
        .args(flags);
    let status = cargo.status().unwrap_or_else(|error| panic!("{cargo:?}: {error}"));
    assert!(status.success(), "{cargo:?}: {status}");
    let file = target.join(triple).join("release/relive-engine");
    let engine = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    ready::write(&engine, &PathBuf::from(var("OUT_DIR")));
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
