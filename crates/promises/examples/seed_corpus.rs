//! Writes what the fuzzers start from: `cargo run -p relive-promises --example seed_corpus -- DIR [PROFILE...]`.
//!
//! Files go to `DIR/elf_facts`, `DIR/decode_cfg`, `DIR/profile`, `DIR/trace` and `DIR/annotations`; with profiles, those alone.

use relive_promises::{annotations, profile, profiles, seeds, traces};
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).ok_or_else(|| io::Error::other("give the folder to write to"))?;
    let packed = Path::new(&folder).join("profile");
    fs::create_dir_all(&packed)?;
    for (path, index) in env::args().skip(2).zip(0..) {
        let file = fs::read(path)?;
        fs::write(packed.join(format!("run-{index}-unpacked")), profile::Case::unpack(&file).encode())?;
        fs::write(packed.join(format!("run-{index}")), file)?;
    }
    if env::args().len() > 2 {
        return Ok(());
    }
    for (name, file) in profiles::profiles() {
        fs::write(packed.join(format!("{name}-unpacked")), profile::Case::unpack(&file).encode())?;
        fs::write(packed.join(name), file)?;
    }
    let recorded = Path::new(&folder).join("trace");
    fs::create_dir_all(&recorded)?;
    for (name, case) in traces::cases() {
        fs::write(recorded.join(format!("{name}-unpacked")), case.encode())?;
        fs::write(recorded.join(name), case.pack())?;
    }
    let files = Path::new(&folder).join("elf_facts");
    fs::create_dir_all(&files)?;
    for (name, file) in seeds::programs() {
        fs::write(files.join(name), file)?;
    }
    let cases = Path::new(&folder).join("decode_cfg");
    fs::create_dir_all(&cases)?;
    for (index, case) in seeds::functions().iter().enumerate() {
        fs::write(cases.join(format!("function-{index}")), case)?;
    }
    let described = Path::new(&folder).join("annotations");
    fs::create_dir_all(&described)?;
    for (index, case) in seeds::annotated().into_iter().enumerate() {
        fs::write(described.join(format!("program-{index}")), case.encode())?;
        let sealed = annotations::Case { is_sealed: true, ..case };
        fs::write(described.join(format!("program-{index}-sealed")), sealed.encode())?;
    }
    Ok(())
}
