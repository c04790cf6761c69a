//! Two builds side by side, as a page.

use super::{Args, code, summary_json};
use crate::output::write_to;
use anyhow::Result;
use rayon::prelude::*;
use relive_html::packs::Place;
use relive_html::{Kind, Packs, Page};
use relive_image::names::demangle;
use relive_matching::Matching;
use relive_matching::across::Joined;
use relive_matching::blocks::Found;
use relive_matching::matching::Procedures;
use relive_profile::model::{Function, Level, Module};
use serde::Serialize;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

/// So many pairs are written out before the next ones.
const AT_ONCE: usize = 512;

/// Procedures that belong together, or one that has no partner.
struct Row<'m> {
    old: Option<usize>,
    new: Option<usize>,
    found: Option<&'m Procedures>,
}

/// A row as the page reads it when somebody looks at it.
#[derive(Serialize)]
struct Detail {
    old: Vec<Block>,
    new: Vec<Block>,
    /// Old block, new block, level, and how well they fit in per cent.
    pairs: Vec<(u32, u32, &'static str, u8)>,
    /// New block, and the old one that it shares.
    partial: Vec<(u32, u32)>,
    /// Blocks that have their partner in another row: whether this one is the new one, which block, what happened, and which row and block the other is.
    moved: Vec<Moved>,
}

/// See [`Detail::moved`].
type Moved = (bool, u32, &'static str, usize, u32);

/// Address and instructions: how far behind the start, and their text.
type Block = (u64, Vec<(u64, String)>);

/// Writes the page to `file`.
pub(super) fn run(old: &Module, new: &Module, matching: &Matching, file: &Path, args: &Args) -> Result<()> {
    let rows = rows(old, new, matching);
    let moved = moved(&rows, matching);
    let mut packs = Packs::default();
    let mut places: Vec<Option<Place>> = vec![None; rows.len()];
    let most = u64::from(args.html_size) << 20;
    for some in by_interest(&rows, old, new).chunks(AT_ONCE) {
        if packs.len() >= most {
            break;
        }
        let details: Vec<Detail> = some
            .par_iter()
            .map(|&row| detail(&rows[row], old, new, moved.get(&row).map(Vec::as_slice).unwrap_or_default()))
            .collect();
        for (&row, detail) in some.iter().zip(&details) {
            if packs.len() < most {
                places[row] = Some(packs.add(detail)?);
            }
        }
    }
    let cells = rows.iter().zip(&places).map(|(row, place)| cells(row, old, new, *place));
    let data = json!({
        "summary": summary_json(old, new, matching),
        "version": env!("CARGO_PKG_VERSION"),
        "limits": { "size": args.html_size },
        "rows": cells.collect::<Value>(),
    });
    let name = |module: &Module| module.path.rsplit('/').next().unwrap_or_default().to_string();
    let title = format!("{} and {} – relive", name(old), name(new));
    let packs = packs.finish()?;
    let page = Page { title: &title, kind: Kind::Match, data: &data, packs: &packs };
    write_to(Some(file), |out| Ok(page.write(out)?))
}

/// Pairs, then what is new, then what is gone.
fn rows<'m>(old: &Module, new: &Module, matching: &'m Matching) -> Vec<Row<'m>> {
    let (mut is_old, mut is_new) = (vec![false; old.functions.len()], vec![false; new.functions.len()]);
    let mut rows: Vec<Row<'m>> = Vec::new();
    for found in &matching.procedures {
        let (a, b) = (found.pair.old as usize, found.pair.new as usize);
        (is_old[a], is_new[b]) = (true, true);
        rows.push(Row { old: Some(a), new: Some(b), found: Some(found) });
    }
    let alone = |matched: Vec<bool>| (0..matched.len()).filter(move |&i| !matched[i]).map(Some);
    rows.extend(alone(is_new).map(|new| Row { old: None, new, found: None }));
    rows.extend(alone(is_old).map(|old| Row { old, new: None, found: None }));
    rows
}

/// What each row has to say of blocks whose partners are in others.
fn moved(rows: &[Row<'_>], matching: &Matching) -> HashMap<usize, Vec<Moved>> {
    let side = |side: fn(&Row<'_>) -> Option<usize>| -> HashMap<usize, usize> {
        rows.iter().enumerate().filter_map(|(row, each)| Some((side(each)?, row))).collect()
    };
    let (by_old, by_new) = (side(|row| row.old), side(|row| row.new));
    let mut moved: HashMap<usize, Vec<_>> = HashMap::new();
    for each in matching.across.iter().flat_map(Joined::moved) {
        let (old, new) = (by_old.get(&(each.old.0 as usize)), by_new.get(&(each.new.0 as usize)));
        if let (Some(&old), Some(&new)) = (old, new) {
            moved.entry(old).or_default().push((false, each.old.1, each.kind.name(), new, each.new.1));
            moved.entry(new).or_default().push((true, each.new.1, each.kind.name(), old, each.old.1));
        }
    }
    moved
}

/// The rows, those with most to look at first: what has no partner, then what changed least recognisably.
fn by_interest(rows: &[Row<'_>], old: &Module, new: &Module) -> Vec<usize> {
    let interest = |&row: &usize| {
        let row = &rows[row];
        let blocks = |module: &Module, i: Option<usize>| i.map_or(0, |i| module.functions[i].blocks.len());
        let all = blocks(old, row.old) + blocks(new, row.new);
        let sure = row.found.map_or(0, sure);
        (Reverse(all - (2 * sure).min(all)), row.new, row.old)
    };
    let mut all: Vec<usize> = (0..rows.len()).collect();
    all.sort_by_key(interest);
    all
}

/// How many blocks are the same but for their place and a register.
fn sure(found: &Procedures) -> usize {
    let is_sure = |found| matches!(found, Found::Content(Level::Exact | Level::One));
    found.blocks.iter().filter(|pair| is_sure(pair.found)).count()
}

/// What the table needs of a row: names, addresses, how it was found, blocks old and new, matched, of those the same, partial, and its place.
fn cells(row: &Row<'_>, old: &Module, new: &Module, place: Option<Place>) -> Value {
    fn of(module: &Module, i: Option<usize>) -> Option<&Function> {
        Some(&module.functions[i?])
    }
    let (a, b) = (of(old, row.old), of(new, row.new));
    let name =
        |module: &Module, function: Option<&Function>| Some(demangle(module.name(function?)).into_owned());
    json!([
        name(old, a),
        name(new, b),
        a.map(|function| function.address),
        b.map(|function| function.address),
        row.found.map(|found| found.pair.how.name()),
        a.map(|function| function.blocks.len()),
        b.map(|function| function.blocks.len()),
        row.found.map(|found| found.blocks.len()),
        row.found.map(sure),
        row.found.map(|found| found.partial.len()),
        place,
    ])
}

fn detail(row: &Row<'_>, old: &Module, new: &Module, moved: &[Moved]) -> Detail {
    let blocks = |module: &Module, i: Option<usize>| -> Vec<Block> {
        let Some(function) = i.map(|i| &module.functions[i]) else { return Vec::new() };
        let lines = |block: &relive_profile::model::Block| {
            code(function, block).map(|(address, text)| (address - block.address, text)).collect()
        };
        function.blocks.iter().map(|block| (block.address, lines(block))).collect()
    };
    let pairs = row.found.map_or(&[][..], |found| &found.blocks);
    Detail {
        old: blocks(old, row.old),
        new: blocks(new, row.new),
        pairs: pairs.iter().map(|pair| (pair.old, pair.new, pair.found.name(), pair.fit)).collect(),
        partial: row.found.map_or_else(Vec::new, |found| found.partial.clone()),
        moved: moved.to_vec(),
    }
}
