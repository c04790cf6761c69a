//! `--verify`: the results against independent, slower checkers.

use super::Subject;
use crate::output::Finding;
use crate::progress::Progress;
use anyhow::Result;
use relive_code::dominators::DominatorTree;
use relive_code::loops::LoopForest;
use relive_code::verify;

/// Functions above this many blocks are only checked block by block: the checkers of graph algorithms
/// take time with the square of it.
const SMALL: usize = 2_000;

/// Checks every understood function.
pub(crate) fn run(subject: &Subject<'_, '_>, progress: &Progress) -> Result<()> {
    progress.watch().begin(subject.program.functions.len());
    let mut wrong = Vec::new();
    for function in subject.program.functions.iter().filter(|f| f.cfg.is_understood()) {
        progress.watch().step();
        let mut check = |result: Result<(), String>| {
            if let Err(why) = result {
                wrong.push(format!("{} at {}: {why}", subject.name(function), function.entry));
            }
        };
        let cfg = &function.cfg;
        check(verify::cfg::check(cfg, &subject.image.elf));
        if cfg.blocks.len() > SMALL {
            continue;
        }
        let (graph, roots) = (cfg.graph(), cfg.roots());
        let tree = DominatorTree::new(&graph, &roots);
        check(verify::dominators::check(&graph, &roots, &tree));
        check(verify::loops::check(&graph, &roots, &LoopForest::new(&graph, &tree)));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    progress.clear();
    for why in wrong.iter().take(20) {
        eprintln!("relive: verify: {why}");
    }
    let file = subject.loaded.path.display();
    Err(Finding(format!(
        "{file}: {} checks failed: a bug in relive, please report it with the file",
        wrong.len()
    ))
    .into())
}
