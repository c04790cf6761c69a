//! The row of every box, and the links that go back up.

use super::Graph;
use super::simplex::{self, Spring};

/// The result: every link that is not `back` leads to a deeper layer.
pub(super) struct Layers {
    /// By box; every layer from 0 to the deepest holds at least one.
    pub(super) layer: Vec<usize>,
    /// By link. A back link never leads to a deeper layer.
    pub(super) back: Vec<bool>,
}

/// Keeps links short, and puts what follows a loop below all of the loop.
pub(super) fn assign(graph: &Graph) -> Layers {
    let walk = Walk::depth_first(graph);
    let loops = find_loops(graph, &walk);
    // In a graph whose loops have several entries, the wish that exits lie below their loop may contradict
    // itself.
    let layer = shortest(graph, &walk, &loops)
        .or_else(|| shortest(graph, &walk, &[]))
        .unwrap_or_else(|| vec![0; graph.sizes.len()]);
    Layers { layer: without_gaps(layer), back: walk.back }
}

/// A depth-first walk from the entry: the order in which boxes are met and left tells loops from shared code.
struct Walk {
    met: Vec<usize>,
    left: Vec<usize>,
    back: Vec<bool>,
}

impl Walk {
    fn depth_first(graph: &Graph) -> Self {
        const NEVER: usize = usize::MAX;
        let count = graph.sizes.len();
        let mut links_from = vec![Vec::new(); count];
        let mut entered = vec![false; count];
        for (index, link) in graph.links.iter().enumerate() {
            links_from[link.from].push(index);
            entered[link.to] |= link.from != link.to;
        }
        // Nothing is drawn above an entry.
        let mut is_entry = vec![false; count];
        for &entry in &graph.entries {
            is_entry[entry] = true;
        }
        let mut walk = Self {
            met: vec![NEVER; count],
            left: vec![NEVER; count],
            back: graph.links.iter().map(|link| is_entry[link.to] || link.from == link.to).collect(),
        };
        let mut clock = 0;
        let mut tick = || {
            clock += 1;
            clock
        };
        let roots = (0..count).filter(|&node| !entered[node]);
        for root in graph.entries.iter().copied().chain(roots).chain(0..count) {
            if walk.met[root] != NEVER {
                continue;
            }
            walk.met[root] = tick();
            let mut path = vec![(root, 0)];
            while let Some((node, next)) = path.last_mut() {
                let node = *node;
                let Some(&link) = links_from[node].get(*next) else {
                    walk.left[node] = tick();
                    path.pop();
                    continue;
                };
                *next += 1;
                let to = graph.links[link].to;
                if walk.met[to] == NEVER {
                    walk.met[to] = tick();
                    path.push((to, 0));
                } else if walk.left[to] == NEVER {
                    walk.back[link] = true;
                }
            }
        }
        walk
    }

    /// Whether the walk met `node` while it was below `ancestor`.
    fn is_below(&self, node: usize, ancestor: usize) -> bool {
        self.met[ancestor] <= self.met[node] && self.left[node] <= self.left[ancestor]
    }
}

/// What a loop asks of the layers: all `members` above all `exits`.
struct Loop {
    members: Vec<usize>,
    exits: Vec<usize>,
}

/// Members of all loops together, beyond which further loops are ignored: this is a matter of looks, and
/// thousands of loops in one another need quadratic space.
const LOOP_BUDGET: usize = 300_000;

/// The natural loops, one for each target of a back link.
fn find_loops(graph: &Graph, walk: &Walk) -> Vec<Loop> {
    let count = graph.sizes.len();
    let mut sources_of = vec![Vec::new(); count];
    let mut targets_of = vec![Vec::new(); count];
    let mut latches_of = vec![Vec::new(); count];
    for (link, &back) in graph.links.iter().zip(&walk.back) {
        sources_of[link.to].push(link.from);
        if !back {
            targets_of[link.from].push(link.to);
        } else if walk.is_below(link.from, link.to) {
            latches_of[link.to].push(link.from);
        }
    }

    let mut loops = Vec::new();
    let mut spent = 0;
    let mut member_of = vec![usize::MAX; count];
    for header in 0..count {
        if latches_of[header].is_empty() || spent > LOOP_BUDGET {
            continue;
        }
        let mut members = vec![header];
        member_of[header] = header;
        let mut pending = latches_of[header].clone();
        while let Some(node) = pending.pop() {
            if member_of[node] != header && walk.is_below(node, header) {
                member_of[node] = header;
                members.push(node);
                pending.extend(&sources_of[node]);
            }
        }
        let mut exits: Vec<usize> = members
            .iter()
            .flat_map(|&node| &targets_of[node])
            .copied()
            .filter(|&to| member_of[to] != header)
            .collect();
        exits.sort_unstable();
        exits.dedup();
        spent += members.len();
        loops.push(Loop { members, exits });
    }
    loops
}

/// Layers with the least sum of the lengths of all links. `None` if the wishes of the `loops` contradict one
/// another.
///
/// Each loop becomes one more point between its members and its exits, so that the number of constraints is
/// the sum of the two and not their product.
fn shortest(graph: &Graph, walk: &Walk, loops: &[Loop]) -> Option<Vec<usize>> {
    let boxes = graph.sizes.len();
    let forward = graph.links.iter().zip(&walk.back).filter(|&(_, &back)| !back);
    let mut springs: Vec<Spring> =
        forward.map(|(link, _)| Spring { tail: link.from, head: link.to, length: 1, weight: 1 }).collect();
    for (index, each) in loops.iter().enumerate() {
        let end = boxes + index;
        springs.extend(each.members.iter().map(|&tail| Spring { tail, head: end, length: 0, weight: 0 }));
        springs.extend(each.exits.iter().map(|&head| Spring { tail: end, head, length: 1, weight: 0 }));
    }
    let mut layer = longest_paths(boxes + loops.len(), &springs)?;
    // Nothing above the entries, and they in one line.
    if let Some(&first) = graph.entries.first() {
        let least = |tail, head| Spring { tail, head, length: 0, weight: 0 };
        springs.extend((0..boxes).filter(|&node| node != first).map(|node| least(first, node)));
        springs.extend(graph.entries[1..].iter().map(|&other| least(other, first)));
    }
    simplex::minimise(&springs, &mut layer);
    layer.truncate(boxes);
    let top = layer.iter().min().copied().unwrap_or(0);
    Some(layer.into_iter().map(|layer| usize::try_from(layer - top).unwrap_or(0)).collect())
}

/// The least numbers that satisfy the springs; `None` if there are none.
fn longest_paths(count: usize, springs: &[Spring]) -> Option<Vec<i64>> {
    let mut after = vec![Vec::new(); count];
    let mut waiting = vec![0_usize; count];
    for spring in springs {
        after[spring.tail].push((spring.head, spring.length));
        waiting[spring.head] += 1;
    }
    let mut found = vec![0; count];
    let mut sorted: Vec<usize> = (0..count).filter(|&point| waiting[point] == 0).collect();
    let mut next = 0;
    while let Some(&point) = sorted.get(next) {
        next += 1;
        for &(head, length) in &after[point] {
            found[head] = found[head].max(found[point] + length);
            waiting[head] -= 1;
            if waiting[head] == 0 {
                sorted.push(head);
            }
        }
    }
    (sorted.len() == count).then_some(found)
}

/// The same layers with the empty ones left out.
fn without_gaps(mut layer: Vec<usize>) -> Vec<usize> {
    let mut used = layer.clone();
    used.sort_unstable();
    used.dedup();
    for each in &mut layer {
        *each = used.partition_point(|used| used < each);
    }
    layer
}
