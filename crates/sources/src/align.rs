//! Lines up the statements of two versions of a definition: dynamic programming over lists of statements, from the
//! outside in.

use std::collections::HashMap;

use crate::structure::{Node, Structure};

/// What became of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its own text is the same; statements inside are listed by themselves.
    Same(u32, u32),
    /// Its own text differs; statements inside are listed by themselves.
    Changed(u32, u32),
    /// Gone with all that is inside.
    Deleted(u32),
    /// New with all that is inside.
    Added(u32),
}

/// Tables of more cells than this are avoided where a cheaper way is at hand.
const CELLS: usize = 4_000_000;
/// Tables of more cells than this do without looking at how much different statements have in common.
const COMPARED: usize = 250_000;

pub(crate) struct Aligner<'a> {
    old: &'a Structure,
    new: &'a Structure,
    steps: Vec<Step>,
}

/// Aligns two definitions.
pub(crate) fn align(old: &Structure, new: &Structure, old_root: u32, new_root: u32) -> Vec<Step> {
    let mut aligner = Aligner { old, new, steps: Vec::new() };
    aligner.both(old_root, new_root);
    aligner.steps
}

/// What is looked at to tell how much two statements have in common.
struct Look {
    /// Of its tokens if it holds no statements, else of the statements in it; sorted.
    parts: Vec<u64>,
}

impl Aligner<'_> {
    fn old_node(&self, node: u32) -> &Node {
        &self.old.nodes[node as usize]
    }

    fn new_node(&self, node: u32) -> &Node {
        &self.new.nodes[node as usize]
    }

    fn both(&mut self, a: u32, b: u32) {
        let same = self.old_node(a).hash == self.new_node(b).hash;
        self.steps.push(if same { Step::Same(a, b) } else { Step::Changed(a, b) });
        let (old, new) = (self.old, self.new);
        self.lists(&old.nodes[a as usize].children, &new.nodes[b as usize].children);
    }

    /// Two lists of statements.
    fn lists(&mut self, mut a: &[u32], mut b: &[u32]) {
        while let ([first_a, rest_a @ ..], [first_b, rest_b @ ..]) = (a, b) {
            if self.old_node(*first_a).deep != self.new_node(*first_b).deep {
                break;
            }
            self.both(*first_a, *first_b);
            (a, b) = (rest_a, rest_b);
        }
        let mut ends = Vec::new();
        while let ([rest_a @ .., last_a], [rest_b @ .., last_b]) = (a, b) {
            if self.old_node(*last_a).deep != self.new_node(*last_b).deep {
                break;
            }
            ends.push((*last_a, *last_b));
            (a, b) = (rest_a, rest_b);
        }
        self.middle(a, b);
        for (a, b) in ends.into_iter().rev() {
            self.both(a, b);
        }
    }

    fn middle(&mut self, a: &[u32], b: &[u32]) {
        if a.is_empty() || b.is_empty() {
            self.steps.extend(a.iter().map(|&node| Step::Deleted(node)));
            self.steps.extend(b.iter().map(|&node| Step::Added(node)));
        } else if a.len() * b.len() <= CELLS {
            self.table(a, b);
        } else {
            self.anchors(a, b);
        }
    }

    /// Long lists: statements that both have exactly once hold the rest in place.
    fn anchors(&mut self, a: &[u32], b: &[u32]) {
        let mut seen: HashMap<u64, (u32, u32, usize, usize)> = HashMap::new();
        for (at, &node) in a.iter().enumerate() {
            let entry = seen.entry(self.old_node(node).deep).or_default();
            (entry.0, entry.2) = (entry.0 + 1, at);
        }
        for (at, &node) in b.iter().enumerate() {
            let entry = seen.entry(self.new_node(node).deep).or_default();
            (entry.1, entry.3) = (entry.1 + 1, at);
        }
        let once = seen.into_values().filter(|&(old, new, ..)| old == 1 && new == 1);
        let mut once = once.map(|(_, _, old, new)| (old, new)).collect::<Vec<_>>();
        once.sort_unstable();
        let (mut from_a, mut from_b) = (0, 0);
        for (at_a, at_b) in rising(&once) {
            self.piece(&a[from_a..at_a], &b[from_b..at_b]);
            self.both(a[at_a], b[at_b]);
            (from_a, from_b) = (at_a + 1, at_b + 1);
        }
        self.piece(&a[from_a..], &b[from_b..]);
    }

    fn piece(&mut self, a: &[u32], b: &[u32]) {
        if a.len() * b.len() <= CELLS {
            self.lists(a, b);
        } else {
            self.steps.extend(a.iter().map(|&node| Step::Deleted(node)));
            self.steps.extend(b.iter().map(|&node| Step::Added(node)));
        }
    }

    /// The alignment that keeps the most statements.
    fn table(&mut self, a: &[u32], b: &[u32]) {
        let compared = a.len() * b.len() <= COMPARED;
        let look = |structure: &Structure, list: &[u32]| {
            list.iter()
                .map(|&node| if compared { look(structure, node) } else { Look { parts: Vec::new() } })
                .collect()
        };
        let looks_a: Vec<Look> = look(self.old, a);
        let looks_b: Vec<Look> = look(self.new, b);
        let width = b.len() + 1;
        let mut best = vec![0_u32; (a.len() + 1) * width];
        let weigh =
            |i: usize, j: usize| weight(self.old_node(a[i]), self.new_node(b[j]), &looks_a[i], &looks_b[j]);
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                let apart = best[(i + 1) * width + j].max(best[i * width + j + 1]);
                let weight = weigh(i, j);
                let paired = if weight == 0 { 0 } else { best[(i + 1) * width + j + 1] + weight };
                best[i * width + j] = apart.max(paired);
            }
        }
        let mut path = Vec::new();
        let (mut i, mut j) = (0, 0);
        while i < a.len() && j < b.len() {
            let here = best[i * width + j];
            let weight = weigh(i, j);
            if weight > 0 && here == best[(i + 1) * width + j + 1] + weight {
                path.push((Some(i), Some(j)));
                (i, j) = (i + 1, j + 1);
            } else if here == best[(i + 1) * width + j] {
                path.push((Some(i), None));
                i += 1;
            } else {
                path.push((None, Some(j)));
                j += 1;
            }
        }
        drop(best);
        path.extend((i..a.len()).map(|i| (Some(i), None)));
        path.extend((j..b.len()).map(|j| (None, Some(j))));
        for step in path {
            match step {
                (Some(i), Some(j)) => self.both(a[i], b[j]),
                (Some(i), None) => self.steps.push(Step::Deleted(a[i])),
                (None, Some(j)) => self.steps.push(Step::Added(b[j])),
                (None, None) => {}
            }
        }
    }
}

/// What to take two statements for each other is worth: two for each statement that stays, one for one that changes.
fn weight(a: &Node, b: &Node, look_a: &Look, look_b: &Look) -> u32 {
    if a.deep == b.deep {
        return 2 * a.size + 1;
    }
    let inside = !a.children.is_empty() && !b.children.is_empty();
    let common = common(&look_a.parts, &look_b.parts);
    if a.hash == b.hash {
        return 2 + if inside { 2 * common } else { 0 };
    }
    if a.kind != b.kind {
        return 0;
    }
    // At least a third in common, or what they hold is not the same thing.
    let alike = 3 * common as usize >= look_a.parts.len().max(look_b.parts.len());
    match (inside, a.children.is_empty() == b.children.is_empty()) {
        (true, _) if alike => 2 * common,
        (false, true) if alike => 1,
        _ => 0,
    }
}

fn look(structure: &Structure, node: u32) -> Look {
    let mut parts = if structure.nodes[node as usize].children.is_empty() {
        structure.own(node).iter().map(|&token| structure.tokens[token as usize].hash).collect::<Vec<_>>()
    } else {
        let inside = structure.subtree(node);
        inside[1..].iter().map(|&node| structure.nodes[node as usize].hash).collect()
    };
    parts.sort_unstable();
    Look { parts }
}

/// How many values two sorted lists share.
fn common(a: &[u64], b: &[u64]) -> u32 {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, count) = (i + 1, j + 1, count + 1),
        }
    }
    count
}

/// The longest part of a list of pairs, sorted by their first, in which the second rises too.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before = vec![usize::MAX; pairs.len()];
    for (at, &(_, second)) in pairs.iter().enumerate() {
        let place = tails.partition_point(|&tail| pairs[tail].1 < second);
        if place > 0 {
            before[at] = tails[place - 1];
        }
        if place == tails.len() {
            tails.push(at);
        } else {
            tails[place] = at;
        }
    }
    let mut found = Vec::new();
    let mut at = tails.last().copied().unwrap_or(usize::MAX);
    while let Some(&pair) = pairs.get(at) {
        found.push(pair);
        at = before[at];
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rising_part() {
        assert_eq!(rising(&[(0, 5), (1, 1), (2, 2), (3, 9), (4, 3)]), [(1, 1), (2, 2), (4, 3)]);
        assert_eq!(rising(&[]), []);
    }

    #[test]
    fn what_two_lists_share() {
        assert_eq!(common(&[1, 2, 2, 3], &[2, 2, 4]), 2);
    }
}
