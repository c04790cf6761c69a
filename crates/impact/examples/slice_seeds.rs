//! `slice_seeds OLD.rprof NEW.rprof`: what of two builds the slice of the measured runs begins with, and how far each of that
//! reaches by itself: the share of the blocks that ran which may run more or less often.

use relive_impact::idle::Idle;
use relive_impact::slice::{Seeds, Slice};
use relive_impact::{Blocks, Builds, Changes};
use relive_matching::{Fingerprint, match_builds};
use relive_profile::file;
use relive_profile::model::Module;

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
    let idle = Idle::of_builds(&builds, &changes).expect("counts of a program");
    show("old", &old, &changes.old, &changes.old_data, &idle.old);
    show("new", &new, &idle.seeds, &changes.new_data, &idle.new);
}

/// How much of what runs is affected: blocks, those that run more or less often.
fn share(module: &Module, seeds: &Seeds) -> String {
    let slice = Slice::forward(module, seeds);
    let ran = Blocks::all(module).iter().filter(|&(f, b)| !seeds.idle.contains(f, b)).count();
    let of = |set: &Blocks| set.iter().filter(|&(f, b)| !seeds.idle.contains(f, b)).count();
    format!("runs {} values {} of {ran}", of(&slice.runs), of(&slice.values))
}

fn show(title: &str, module: &Module, blocks: &Blocks, data: &[u32], idle: &Blocks) {
    let seeds = |blocks: Blocks, data: Vec<u32>| Seeds { blocks, data, idle: idle.clone() };
    println!("{title}: all: {}", share(module, &seeds(blocks.clone(), data.to_vec())));
    println!("{title}: no data: {}", share(module, &seeds(blocks.clone(), Vec::new())));
    println!("{title}: only data: {}", share(module, &seeds(Blocks::none(module), data.to_vec())));
    for (function, number) in module.functions.iter().zip(0..) {
        let mut own = Blocks::none(module);
        for (_, block) in blocks.iter().filter(|&(f, b)| f == number && !idle.contains(f, b)) {
            own.insert(number, block);
        }
        if !own.is_empty() {
            let all = function.blocks.len();
            let some = own.len();
            let reach = share(module, &seeds(own, Vec::new()));
            println!("{title}: {} {some} of {all} blocks: {reach}", module.name(function));
        }
    }
    for &one in data {
        let block = &module.data[one as usize];
        let reach = share(module, &seeds(Blocks::none(module), vec![one]));
        let name = block.name.map(|name| module.text(name)).unwrap_or_default();
        println!("{title}: data {:#x}+{} {:?} {name}: {reach}", block.address, block.size, block.kind);
    }
}
