//! Network simplex: integers along a line, such that given pairs are at least so far apart and the weighted
//! sum of all distances is least (Gansner et al., "A Technique for Drawing Directed Graphs", 1993, section
//! 2.3).
//!
//! It serves twice: boxes in layers with short arrows, and slots in columns with straight ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Asks for `x[head] - x[tail] >= length`; what is more costs `weight` a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spring {
    pub(super) tail: usize,
    pub(super) head: usize,
    pub(super) length: i64,
    pub(super) weight: i64,
}

/// Steps times points visited in a step: about a second. Whatever is reached by then is valid, only not the
/// best.
const BUDGET: usize = 40_000_000;
/// Negative cuts looked at before the most negative one is taken.
const SEARCH: usize = 30;

/// Improves `x`, which must satisfy all springs and still does so afterwards.
pub(super) fn minimise(springs: &[Spring], x: &mut [i64]) {
    if x.len() < 2 {
        return;
    }
    let mut tree = Tree::tight(springs.to_vec(), x);
    let mut spent = 0;
    let mut from = 0;
    while let Some(leaving) = tree.negative_cut(&mut from) {
        let Some((entering, slack)) = tree.replacement(leaving, x) else { break };
        spent += tree.exchange(leaving, entering, slack, x);
        if spent > BUDGET {
            break;
        }
    }
}

const NONE: usize = usize::MAX;

/// A spanning tree of springs that are exactly as long as asked for: a vertex of the polytope of solutions.
///
/// Cutting a spring of the tree gives two halves; all springs across, weighted, tell whether it pays to move
/// them apart. That sum is (up to its sign) the sum of the pulls of all points on one side, so only subtree
/// sums of pulls are kept, together with a numbering in postorder, in which every subtree is a range.
struct Tree {
    springs: Vec<Spring>,
    /// Springs at each point, and those among them in the tree.
    at: Vec<Vec<usize>>,
    in_tree: Vec<Vec<usize>>,
    /// The spring to the parent; [`NONE`] for the root.
    to_parent: Vec<usize>,
    parent: Vec<usize>,
    /// Points by number, and for each point its number and the lowest one in its subtree.
    order: Vec<usize>,
    number: Vec<usize>,
    lowest: Vec<usize>,
    /// Weight of springs ending at a point less that of springs starting there, and its sum over the subtree.
    pull: Vec<i64>,
    sum: Vec<i64>,
}

impl Tree {
    /// Builds a tree, moving points until enough springs are tight.
    fn tight(mut springs: Vec<Spring>, x: &mut [i64]) -> Self {
        let count = x.len();
        let mut at = vec![Vec::new(); count];
        let mut pull = vec![0; count];
        for (index, spring) in springs.iter().enumerate() {
            at[spring.tail].push(index);
            at[spring.head].push(index);
            pull[spring.tail] -= spring.weight;
            pull[spring.head] += spring.weight;
        }

        // As Prim does it: always the spring that is closest to being tight. Those which start in the tree
        // and those which end there wait in different queues, as moving the tree shortens the ones and
        // lengthens the others; what is in the tree is noted relative to `moved`, so that moving it is a
        // single addition.
        let mut in_tree = vec![Vec::new(); count];
        let mut joined = vec![false; count];
        let mut moved = 0;
        let (mut starting, mut ending) = (BinaryHeap::new(), BinaryHeap::new());
        let mut next = Some(0);
        while let Some(point) = next {
            joined[point] = true;
            x[point] -= moved;
            for &index in &at[point] {
                let Spring { tail, head, length, .. } = springs[index];
                if !joined[head] || !joined[tail] {
                    let queue = if tail == point { &mut starting } else { &mut ending };
                    queue.push(Reverse((x[head] - x[tail] - length, index)));
                }
            }
            let open = |queue: &mut BinaryHeap<Reverse<(i64, usize)>>| {
                while let Some(&Reverse((slack, index))) = queue.peek() {
                    if !joined[springs[index].tail] || !joined[springs[index].head] {
                        return Some((slack, index));
                    }
                    queue.pop();
                }
                None
            };
            let forth = open(&mut starting).map(|(slack, index)| (slack - moved, index, 1));
            let back = open(&mut ending).map(|(slack, index)| (slack + moved, index, -1));
            let closest = forth.into_iter().chain(back).min();
            next = if let Some((slack, index, sign)) = closest {
                moved += sign * slack;
                let Spring { tail, head, .. } = springs[index];
                in_tree[tail].push(index);
                in_tree[head].push(index);
                Some(if joined[tail] { head } else { tail })
            } else {
                // Nothing connects the rest: hold it where it is.
                let rest = joined.iter().position(|&joined| !joined);
                if let Some(rest) = rest {
                    let index = springs.len();
                    springs.push(Spring { tail: 0, head: rest, length: x[rest] - x[0] - moved, weight: 0 });
                    for end in [0, rest] {
                        at[end].push(index);
                        in_tree[end].push(index);
                    }
                }
                rest
            };
        }

        let mut tree = Self {
            springs,
            at,
            in_tree,
            to_parent: vec![NONE; count],
            parent: vec![NONE; count],
            order: vec![0; count],
            number: vec![0; count],
            lowest: vec![0; count],
            sum: pull.clone(),
            pull,
        };
        tree.renumber(0, 0);
        tree
    }

    /// Walks the subtree of `root`, whose parent is known, and numbers it from `first` on; returns its size.
    fn renumber(&mut self, root: usize, first: usize) -> usize {
        let mut next = first;
        let mut path = vec![(root, 0)];
        self.lowest[root] = first;
        self.sum[root] = self.pull[root];
        while let Some((point, child)) = path.last_mut() {
            let point = *point;
            if let Some(&spring) = self.in_tree[point].get(*child) {
                *child += 1;
                if spring != self.to_parent[point] {
                    let below = self.springs[spring].tail + self.springs[spring].head - point;
                    self.to_parent[below] = spring;
                    self.parent[below] = point;
                    self.lowest[below] = next;
                    self.sum[below] = self.pull[below];
                    path.push((below, 0));
                }
                continue;
            }
            self.number[point] = next;
            self.order[next] = point;
            next += 1;
            path.pop();
            if let Some(&(above, _)) = path.last() {
                self.sum[above] += self.sum[point];
            }
        }
        next - first
    }

    /// Whether `point` is in the subtree of `root`.
    fn is_below(&self, point: usize, root: usize) -> bool {
        self.lowest[root] <= self.number[point] && self.number[point] <= self.number[root]
    }

    /// Whether the spring from `point` to its parent has its tail at `point`.
    fn hangs_by_tail(&self, point: usize) -> bool {
        self.springs[self.to_parent[point]].tail == point
    }

    /// A point whose spring to the parent had better be longer. The search goes round and resumes at `from`.
    fn negative_cut(&self, from: &mut usize) -> Option<usize> {
        let count = self.order.len();
        let mut best: Option<(i64, usize)> = None;
        let mut found = 0;
        for _ in 0..count {
            let point = *from;
            *from = (*from + 1) % count;
            if self.to_parent[point] == NONE {
                continue;
            }
            let cut = if self.hangs_by_tail(point) { -self.sum[point] } else { self.sum[point] };
            if cut < 0 {
                if best.is_none_or(|(least, _)| cut < least) {
                    best = Some((cut, point));
                }
                found += 1;
                if found == SEARCH {
                    break;
                }
            }
        }
        best.map(|(_, point)| point)
    }

    /// The points below `root`, or all others if those are fewer; and whether they are the ones below.
    fn smaller_side(&self, root: usize) -> (impl Iterator<Item = usize> + '_, bool) {
        let (start, end, count) = (self.lowest[root], self.number[root] + 1, self.order.len());
        let below = 2 * (end - start) <= count;
        let (a, b) = if below { (start..end, 0..0) } else { (0..start, end..count) };
        (a.chain(b).map(|number| self.order[number]), below)
    }

    /// The first spring to become tight when the subtree of `leaving` moves away from its parent, and its
    /// slack.
    fn replacement(&self, leaving: usize, x: &[i64]) -> Option<(usize, i64)> {
        let (side, below) = self.smaller_side(leaving);
        // The side of the tail moves left, so springs that end there are the ones that get shorter.
        let ends_here = self.hangs_by_tail(leaving) == below;
        let mut best: Option<(usize, i64)> = None;
        for point in side {
            for &index in &self.at[point] {
                let spring = &self.springs[index];
                let (here, other) =
                    if ends_here { (spring.head, spring.tail) } else { (spring.tail, spring.head) };
                if here == point && self.is_below(other, leaving) != below {
                    let slack = x[spring.head] - x[spring.tail] - spring.length;
                    if best.is_none_or(|(_, least)| slack < least) {
                        best = Some((index, slack));
                    }
                }
            }
        }
        best
    }

    /// Moves one side by `slack`, swaps the springs, and returns the number of points visited.
    fn exchange(&mut self, leaving: usize, entering: usize, slack: i64, x: &mut [i64]) -> usize {
        let (side, below) = self.smaller_side(leaving);
        let shift = if self.hangs_by_tail(leaving) == below { -slack } else { slack };
        let mut visited = 0;
        for point in side {
            x[point] += shift;
            visited += 1;
        }

        let old = self.to_parent[leaving];
        for end in [self.springs[old].tail, self.springs[old].head] {
            self.in_tree[end].retain(|&spring| spring != old);
        }
        let Spring { tail, head, .. } = self.springs[entering];
        self.in_tree[tail].push(entering);
        self.in_tree[head].push(entering);

        // Only below the closest point above both ends does anything change.
        let mut top = tail;
        while !self.is_below(head, top) {
            top = self.parent[top];
        }
        visited + self.renumber(top, self.lowest[top])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(springs: &[Spring], x: &[i64]) -> i64 {
        springs.iter().map(|s| s.weight * (x[s.head] - x[s.tail])).sum()
    }

    fn spring(tail: usize, head: usize, length: i64, weight: i64) -> Spring {
        Spring { tail, head, length, weight }
    }

    #[test]
    fn a_loose_point_goes_where_more_springs_pull() {
        // 0 -> 1 -> 2 -> 3 is a chain; 4 hangs between 0 and 3 and is pulled down twice.
        let springs = [
            spring(0, 1, 1, 1),
            spring(1, 2, 1, 1),
            spring(2, 3, 1, 1),
            spring(0, 4, 1, 1),
            spring(4, 3, 1, 2),
        ];
        let mut x = vec![0, 1, 2, 3, 1];
        minimise(&springs, &mut x);
        assert_eq!((x[3] - x[0], x[4] - x[0]), (3, 2));
    }

    #[test]
    fn unconnected_points_do_no_harm() {
        let mut x = vec![0, 7, 9, 7];
        minimise(&[spring(0, 2, 4, 1), spring(1, 3, 0, 1)], &mut x);
        assert_eq!((x[2] - x[0], x[3] - x[1]), (4, 0));
    }

    #[test]
    fn as_good_as_trying_everything() {
        // Small random problems on four points within 0..8, against brute force.
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut springs = vec![spring(0, 1, 1, 1), spring(1, 2, 0, 1), spring(2, 3, 1, 1)];
            for _ in 0..4 {
                let tail = random(3) as usize;
                let head = tail + 1 + random(3 - tail as u64) as usize;
                springs.push(spring(tail, head, random(3) as i64, random(5) as i64));
            }
            let mut x = vec![0, 2, 4, 6];
            minimise(&springs, &mut x);
            assert!(springs.iter().all(|s| x[s.head] - x[s.tail] >= s.length), "{springs:?} {x:?}");
            let all = (0..8).flat_map(|b| (0..8).flat_map(move |c| (0..8).map(move |d| [0, b, c, d])));
            let valid = all.filter(|x| springs.iter().all(|s| x[s.head] - x[s.tail] >= s.length));
            assert_eq!(Some(cost(&springs, &x)), valid.map(|x| cost(&springs, &x)).min(), "{springs:?}");
        }
    }
}
