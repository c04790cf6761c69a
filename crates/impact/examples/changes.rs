//! `changes OLD.rprof NEW.rprof`: which blocks and data of two builds are not the same, and which of those blocks ran.

use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Insn};
use relive_impact::{Blocks, Builds, Changes};
use relive_matching::{Fingerprint, match_builds};
use relive_profile::file;
use relive_profile::model::{Count, Function, Module};

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
    for (title, module, blocks, data) in
        [("old", &old, &changes.old, &changes.old_data), ("new", &new, &changes.new, &changes.new_data)]
    {
        show(title, module, blocks, data);
    }
    why(&builds, &changes);
}

/// Of blocks that have partners: the first instruction that is not the same, as far as it is one that speaks of a place.
fn why(builds: &Builds<'_>, changes: &Changes) {
    for pair in &builds.matching.procedures {
        let (old, new) =
            (&builds.old.functions[pair.pair.old as usize], &builds.new.functions[pair.pair.new as usize]);
        for blocks in pair.blocks.iter().filter(|blocks| changes.new.contains(pair.pair.new, blocks.new)) {
            let insns = |function: &Function, block: u32| -> Vec<Insn> {
                let block = &function.blocks[block as usize];
                let code = function.bytes_at(block.address, block.size.into()).unwrap_or_default();
                Decode::new(code, LinkAddr(block.address)).filter(|insn| !insn.is_padding()).collect()
            };
            let about = |module: &Module, function: &Function, block: u32| {
                let at = &function.blocks[block as usize];
                let (from, to) = (at.address, at.address + u64::from(at.size));
                let calls = function.calls.iter().filter(|call| (from..to).contains(&call.address));
                let called: Vec<_> = calls.map(|call| module.callee_name(call.callee)).collect();
                let ways = function.edges.iter().filter(|edge| edge.from.as_block() == Some(block));
                format!("{called:?} {:?}", ways.map(|way| (way.kind, way.to)).collect::<Vec<_>>())
            };
            let told = [about(builds.old, old, blocks.old), about(builds.new, new, blocks.new)];
            println!("{} bb{} {}\n    {}", builds.new.name(new), blocks.new, told[0], told[1]);
            for (x, y) in insns(old, blocks.old).iter().zip(&insns(new, blocks.new)) {
                for (a, b) in x.address_constants(true).zip(y.address_constants(true)) {
                    if builds.is_place(a.0, b.0) && !builds.same_place(a.0, b.0) {
                        println!("{} {:#x}: {:#x} is not {:#x}", builds.new.name(new), x.addr().0, a.0, b.0);
                    }
                }
            }
        }
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
