//! `changes OLD.rprof NEW.rprof`: which blocks and data of two builds are not the same, and which of those blocks ran.

use relive_impact::{Blocks, Builds, Changes};
use relive_matching::{Fingerprint, match_builds};
use relive_profile::file;
use relive_profile::model::{Count, Module};

fn main() {
    let mut modules = std::env::args().skip(1).map(|path| {
        let bytes = std::fs::read(&path).expect("a file that can be read");
        file::read(&bytes).expect("a profile").modules.swap_remove(0)
    });
    let (old, new) = (modules.next().expect("an old profile"), modules.next().expect("a new profile"));
    let prints = [&old, &new].map(|module| Fingerprint::new(module).expect("code"));
    let matching = match_builds(&prints[0], &prints[1]);
    let builds = Builds::new(&old, &new, &matching);
    let changes = Changes::of_builds(&builds);
    for (title, module, blocks, data) in [
        ("old", &old, &changes.old, &changes.old_data),
        ("new", &new, &changes.new, &changes.new_data),
    ] {
        show(title, module, blocks, data);
    }
}

fn show(title: &str, module: &Module, blocks: &Blocks, data: &[u32]) {
    for (function, number) in module.functions.iter().zip(0..) {
        let changed: Vec<u32> =
            (0..function.blocks.len() as u32).filter(|&block| blocks.contains(number, block)).collect();
        if changed.is_empty() {
            continue;
        }
        println!("{title} {}: {} of {} blocks", module.name(function), changed.len(), function.blocks.len());
        for block in changed.into_iter().map(|block| &function.blocks[block as usize]) {
            println!("  {:#x} ran {}", block.address, block.count.map_or(0, Count::value));
        }
    }
    for &block in data {
        let block = &module.data[block as usize];
        let name = block.name.map(|name| module.text(name)).unwrap_or_default();
        println!("{title} data {:#x} {} bytes {:?} {name}", block.address, block.size, block.kind);
    }
}
