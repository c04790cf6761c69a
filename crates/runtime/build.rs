//! Links the code that runs inside measured programs: a position-independent file that needs no library,
//! no dynamic linker and no relocation.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(var("OUT_DIR"));
    let abi = here.join("../abi/src");
    let sources = here.join("src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", abi.display());
    println!("cargo::rerun-if-changed={}", sources.join("blob.rs").display());
    println!("cargo::rerun-if-changed={}", sources.join("in_target").display());
    println!("cargo::rerun-if-env-changed=RUSTC");

    println!("cargo::rustc-check-cfg=cfg(relive_in_target)");

    let rlib = out.join("librelive_abi.rlib");
    run(compiler(&rlib).args(["--crate-name", "relive_abi", "--crate-type", "rlib"]).arg(abi.join("lib.rs")));

    let image = out.join("relive-runtime");
    let mut link = compiler(&image);
    link.args(["--cfg", "relive_in_target", "--crate-name", "relive_in_target", "--crate-type", "bin"])
        .arg("--extern")
        .arg(format!("relive_abi={}", rlib.display()))
        .args(["-C", "target-feature=+crt-static", "-C", "strip=debuginfo", "-C", "relro-level=off"]);
    for arg in [
        "-nostartfiles",
        "-nostdlib",
        "-Wl,--no-dynamic-linker",
        "-Wl,--build-id=none",
        "-Wl,--entry=relive_start",
        "-Wl,--undefined=relive_init",
        "-Wl,--undefined=relive_enter",
        "-Wl,--undefined=relive_call",
        "-Wl,--undefined=relive_parameters",
        "-Wl,-z,norelro",
        "-Wl,-z,noexecstack",
        "-Wl,-z,max-page-size=4096",
        "-Wl,--hash-style=gnu",
        "-Wl,--eh-frame-hdr",
        // What it refers to from where, for those who take it apart (prepared binaries).
        "-Wl,--emit-relocs",
    ] {
        link.arg("-C").arg(format!("link-arg={arg}"));
    }
    run(link.arg(sources.join("blob.rs")));

    let bytes = fs::read(&image).expect("the linked runtime can be read");
    if let Some(what) = dynamic_needs(&bytes) {
        panic!("{} must run wherever it is copied, but has {what}", image.display());
    }
    println!("cargo::rustc-env=RELIVE_RUNTIME_IMAGE={}", image.display());
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// The compiler with what both steps need. The rest of cargo's settings (profile, flags of the user) do not
/// apply: the code is the same whoever builds it.
fn compiler(output: &Path) -> Command {
    let mut rustc = Command::new(var("RUSTC"));
    rustc.args(["--edition", "2024", "-C", "panic=abort", "-C", "opt-level=s"]);
    rustc.args(["-C", "relocation-model=pie", "-C", "force-unwind-tables=yes", "-C", "codegen-units=1"]);
    rustc.args(["-C", "debug-assertions=no", "-C", "overflow-checks=no"]);
    rustc.arg("-o").arg(output);
    let (host, target) = (var("HOST"), var("TARGET"));
    let fits = |triple: &str| triple.starts_with("x86_64-") && triple.contains("-linux-gnu");
    if fits(&target) {
        if target != host {
            rustc.args(["--target", &target]);
        }
    } else if !fits(&host) {
        rustc.args(["--target", "x86_64-unknown-linux-gnu"]);
    }
    rustc
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// What a linked file asks of a dynamic linker, if anything.
fn dynamic_needs(elf: &[u8]) -> Option<String> {
    const SHT_RELA: u32 = 4;
    const SHT_REL: u32 = 9;
    const SHF_ALLOC: u64 = 2;
    const PT_INTERP: u32 = 3;
    const PT_TLS: u32 = 7;
    let u16_at = |at: usize| u16::from_le_bytes(elf[at..at + 2].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(elf[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    let (phoff, shoff) = (u64_at(32) as usize, u64_at(40) as usize);
    for n in 0..usize::from(u16_at(56)) {
        match u32_at(phoff + n * 56) {
            PT_INTERP => return Some("an interpreter".into()),
            PT_TLS => return Some("thread-local variables".into()),
            _ => {}
        }
    }
    for n in 0..usize::from(u16_at(60)) {
        let section = shoff + n * 64;
        let (kind, flags, len) = (u32_at(section + 4), u64_at(section + 8), u64_at(section + 32));
        if matches!(kind, SHT_RELA | SHT_REL) && flags & SHF_ALLOC != 0 && len > 0 {
            return Some(format!("{len} bytes of relocations (a panic, or a table of pointers?)"));
        }
    }
    None
}
