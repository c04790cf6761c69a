//! Writes what the fuzzers start from: `cargo run -p relive-promises --example seed_corpus -- DIR`.
//!
//! Files go to `DIR/elf_facts` and `DIR/decode_cfg`.

use relive_promises::seeds;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).ok_or_else(|| io::Error::other("give the folder to write to"))?;
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
    Ok(())
}
