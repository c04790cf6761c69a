//! Functions whose callers tell how often they are called.
//!
//! What a function is called by in new code is known from the counts of those callers, so the function itself
//! counts only those who come through its gate: calls through pointers, from other modules, from code left
//! alone. Counts are worked out caller first, so nobody may depend on themselves: functions are brought into an
//! order in which most callers come first, and one that is also called by a later one counts all its calls.

use crate::select::Survey;
use relive_image::elf::Kind;
use relive_image::image::Image;
use relive_image::relocations::Filled;
use std::collections::HashSet;

use relive_code::addr::LinkAddr;
use relive_code::cfg::{Cfg, End};
use relive_probe::graph::{Flow, Node};
use std::collections::HashMap;

/// What there is to know of a function; `None` for one that is left alone.
pub type Moved<'a> = Option<(&'a Cfg, &'a Flow)>;

/// The share of calls taken to come from elsewhere, if any can.
const ELSEWHERE: f64 = 0.7;

/// By function: if calls from measured functions need not be counted in it, the share of calls that are taken to
/// come from elsewhere.
#[must_use]
pub fn told_by_callers(
    image: &Image<'_>,
    surveys: &[Survey],
    functions: &[Moved<'_>],
    is_partial: &dyn Fn(usize) -> bool,
) -> Vec<Option<f64>> {
    let mut pointers: HashSet<LinkAddr> = surveys.iter().flat_map(|s| &s.pointers).copied().collect();
    pointers.extend(image.relocations.iter().filter_map(|relocation| match relocation.filled {
        Filled::Here(at) => Some(at),
        _ => None,
    }));
    // What programs export is hardly ever called from outside.
    if image.elf.kind == Kind::SharedObject {
        pointers.extend(image.dynamic_symbols.iter().filter(|s| s.defined).map(|s| s.addr));
    }
    let shares = functions.iter().zip(told(functions, is_partial)).map(|(moved, told)| {
        let (cfg, _) = moved.filter(|_| told)?;
        let entry = cfg.block(*cfg.entries.first()?).start;
        Some(if pointers.contains(&entry) { ELSEWHERE } else { 0.0 })
    });
    shares.collect()
}

fn told(functions: &[Moved<'_>], is_partial: &dyn Fn(usize) -> bool) -> Vec<bool> {
    let entry = |cfg: &Cfg| match cfg.entries[..] {
        [entry] => Some(cfg.block(entry).start),
        _ => None,
    };
    let by_entry: HashMap<LinkAddr, usize> = functions
        .iter()
        .enumerate()
        .filter_map(|(i, moved)| moved.and_then(|(cfg, _)| entry(cfg)).map(|at| (at, i)))
        .collect();
    let mut callees: Vec<Vec<u32>> = vec![Vec::new(); functions.len()];
    let mut told = vec![false; functions.len()];
    let mut uncertain = Vec::new();
    for (i, moved) in functions.iter().enumerate() {
        let Some((cfg, flow)) = moved else { continue };
        for (id, block) in cfg.numbered_blocks().filter(|(_, b)| b.reached) {
            let End::Call(to) = block.end else { continue };
            let Some(&callee) = by_entry.get(&to) else { continue };
            callees[i].push(callee as u32);
            // The kernel may keep what would have made the call.
            if flow.kernel[id.index()] {
                uncertain.push(callee);
            }
        }
        for &(arc, to) in &flow.outside {
            let Node::Block(from) = flow.arcs[arc as usize].from else { continue };
            let Some(&callee) = by_entry.get(&to) else { continue };
            callees[i].push(callee as u32);
            // An address that is pushed and returned to, or the like, is that of the old code.
            if !matches!(cfg.block(from).end, End::Jump | End::Branch | End::FallThrough) {
                uncertain.push(callee);
            }
        }
        for &callee in &callees[i] {
            told[callee as usize] = true;
        }
    }
    let position = callers_first(&callees);
    for (caller, callees) in callees.iter().enumerate() {
        for &callee in callees {
            if position[caller] >= position[callee as usize] {
                told[callee as usize] = false;
            }
        }
    }
    // Who is measured in part does not know how often it calls.
    let in_part = (0..functions.len()).filter(|&i| is_partial(i));
    uncertain.extend(in_part.flat_map(|i| callees[i].iter().map(|&callee| callee as usize)));
    uncertain.into_iter().for_each(|callee| told[callee] = false);
    told
}

/// Positions in an order in which callers come before what they call, but for some calls on every cycle.
fn callers_first(callees: &[Vec<u32>]) -> Vec<usize> {
    let mut called = vec![false; callees.len()];
    callees.iter().flatten().for_each(|&callee| called[callee as usize] = true);
    // Those nobody calls go first, so that cycles are entered where the program does.
    let roots = (0..callees.len()).filter(|&i| !called[i]).chain(0..callees.len());
    let (mut position, mut seen) = (vec![0; callees.len()], vec![false; callees.len()]);
    let mut next = callees.len();
    for root in roots {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((function, at)) = path.last_mut() {
            match callees[*function].get(*at) {
                Some(&callee) => {
                    *at += 1;
                    if !std::mem::replace(&mut seen[callee as usize], true) {
                        path.push((callee as usize, 0));
                    }
                }
                None => {
                    next -= 1;
                    position[*function] = next;
                    path.pop();
                }
            }
        }
    }
    position
}

#[cfg(test)]
mod tests {
    use super::callers_first;

    #[test]
    fn callers_come_first_but_on_cycles() {
        // 2 calls 0 and 1; 0 calls 1; 1 and 3 call each other; 4 calls itself.
        let callees = [vec![1], vec![3], vec![0, 1], vec![1], vec![4]];
        let position = callers_first(&callees);
        assert!(position[2] < position[0] && position[0] < position[1] && position[1] < position[3]);
        let mut all = position.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
    }
}
