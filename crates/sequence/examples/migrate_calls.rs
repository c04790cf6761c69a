//! Migrates a call sequence between two builds of a program, both of which were recorded whole, and tells how well that works.
//!
//!     relive match OLD NEW --tsv > match.tsv; relive inspect OLD --blocks > old.tsv; relive inspect NEW --blocks > new.tsv
//!     cargo run --release -p relive-sequence --example migrate_calls -- OLD.rcalls NEW.rcalls match.tsv old.tsv new.tsv
//!
//! All functions are exempt that have a partner and do what they did; that is known from both recordings. The result is compared with the
//! recording.

use relive_sequence::model::NONE;
use relive_sequence::select::select;
use relive_sequence::{CallMap, Sequence, affected, file, merge, require};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::time::Instant;

/// Blocks: where they begin, and how long they are.
type Blocks = BTreeMap<u64, u64>;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [old, new, pairs, old_blocks, new_blocks] = &args[..] else {
        return Err("give OLD.rcalls NEW.rcalls match.tsv old.tsv new.tsv".into());
    };
    let (old, new) = (file::read(&std::fs::read(old)?)?, file::read(&std::fs::read(new)?)?);
    let (old_blocks, new_blocks) = (blocks(old_blocks)?, blocks(new_blocks)?);
    let map = map(&old, &new, &std::fs::read_to_string(pairs)?, &old_blocks, &new_blocks)?;
    println!("{} calls before, {} now", old.len(), new.len());
    let executed = executed(&new, &map.new);
    let mut exempt: BTreeSet<u64> =
        map.functions.values().copied().filter(|f| executed.contains(f)).collect();
    println!("{} functions of the program were executed, {} have partners", executed.len(), exempt.len());
    let began = Instant::now();
    let affected = affected(&old, &new, &map);
    exempt.retain(|function| !affected.contains(function));
    println!("{} do other things than before, {:?}", affected.len(), began.elapsed());
    let partial = select(&new, &map.new, &exempt);
    let began = Instant::now();
    let (merged, origins) = merge(&old, &partial, &map)?;
    println!(
        "{} functions exempt, {} calls recorded; {origins:?}, {:?}",
        exempt.len(),
        partial.len(),
        began.elapsed()
    );
    println!("difference from the recording: {:?}", merged.difference(&new));
    let partners: BTreeSet<u64> = map.functions.values().copied().collect();
    let required = require(&old, &map, &exempt, &[]);
    println!(
        "of {} partners, {} of those exempt would be required beforehand",
        partners.len(),
        required.len()
    );
    Ok(())
}

fn number(text: &str) -> Result<u64, Box<dyn Error>> {
    Ok(u64::from_str_radix(text.trim_start_matches("0x"), 16)?)
}

fn blocks(path: &str) -> Result<Blocks, Box<dyn Error>> {
    let mut blocks = Blocks::new();
    for line in std::fs::read_to_string(path)?.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        if let [_, address, size, ..] = cells[..] {
            blocks.insert(number(address)?, size.parse()?);
        }
    }
    Ok(blocks)
}

fn program(sequence: &Sequence) -> Result<usize, Box<dyn Error>> {
    let of = |name: &str| sequence.modules.iter().position(|module| module.path.contains(name));
    let main = sequence.functions.iter().find(|function| function.name.as_deref() == Some("main"));
    main.map(|main| main.module as usize).or_else(|| of("lua")).ok_or_else(|| "no main".into())
}

fn map(
    old: &Sequence,
    new: &Sequence,
    pairs: &str,
    from: &Blocks,
    to: &Blocks,
) -> Result<CallMap, Box<dyn Error>> {
    let (old_module, new_module) = (program(old)?, program(new)?);
    let mut map = CallMap {
        old: old.modules[old_module].build_id.clone(),
        new: new.modules[new_module].build_id.clone(),
        ..CallMap::default()
    };
    let mut partners: BTreeMap<u64, u64> = BTreeMap::new();
    for line in pairs.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["procedure", old, new, ..] => _ = map.functions.insert(number(old)?, number(new)?),
            ["block", old, new, ..] => _ = partners.insert(number(old)?, number(new)?),
            _ => {}
        }
    }
    // Stubs of imports are known by name.
    let stubs = |sequence: &Sequence, module: usize| -> BTreeMap<String, u64> {
        let of_module = sequence.functions.iter().filter(|function| function.module as usize == module);
        let stub = |name: &&String| name.ends_with("@plt");
        of_module.filter_map(|f| Some((f.name.as_ref().filter(stub)?.clone(), f.address))).collect()
    };
    let now = stubs(new, new_module);
    for (name, address) in stubs(old, old_module) {
        map.functions.extend(now.get(&name).map(|now| (address, *now)));
    }
    let of_new = |site: &&relive_sequence::Site| site.module as usize == new_module;
    for site in old.sites.iter().filter(|site| site.module as usize == old_module) {
        let block =
            from.range(..=site.address).next_back().filter(|(start, len)| site.address - **start < **len);
        let Some((partner, len)) =
            block.and_then(|(start, _)| partners.get(start)).and_then(|p| to.get_key_value(p))
        else {
            continue;
        };
        let within = |other: &&relive_sequence::Site| {
            other.kind == site.kind && (*partner..partner + len).contains(&other.address)
        };
        let mut found = new.sites.iter().filter(of_new).filter(within);
        if let Some(other) = found.next() {
            map.sites.insert(site.address, other.address);
        }
    }
    Ok(map)
}

/// The functions of a build that were executed.
fn executed(sequence: &Sequence, build_id: &str) -> BTreeSet<u64> {
    let functions = sequence.bodies.iter().filter(|body| body.function != NONE).map(|body| body.function);
    let all = functions.map(|function| &sequence.functions[function as usize]);
    let of_build = all.filter(|function| {
        sequence.modules.get(function.module as usize).is_some_and(|module| module.build_id == build_id)
    });
    of_build.map(|function| function.address).collect()
}
