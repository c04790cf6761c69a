//! Columns closer together: x once more, with the least sum of the horizontal ways of all lines.
//!
//! Network simplex, starting from what [`super::place`] found. Lanes that are straight there become a single
//! point, so they stay straight and the problem stays small. On real functions of 50 to 110 blocks this halves
//! the horizontal ways and takes a quarter off the width.

use super::Graph;
use super::nets::{Grid, Kind, Net};
use super::place::{distance, lane_among};
use super::simplex::{self, Spring};

/// Springs above which it takes too long for what it brings.
const MANY_SPRINGS: usize = 60_000;

/// Moves slots; `x` must be valid and stays so.
pub(super) fn columns(graph: &Graph, grid: &Grid, nets: &[Net], x: &mut [f64]) {
    let mut point = vec![0; grid.slots.len()];
    let mut start = Vec::new();
    for slot in grid.rows.iter().flatten().copied() {
        let above = lane_among(grid, slot, &grid.slots[slot].up).filter(|&above| x[above] == x[slot]);
        point[slot] = above.map_or(start.len(), |above| point[above]);
        if above.is_none() {
            start.push(x[slot] as i64);
        }
    }

    // Of the distances that two points keep in several rows the largest counts.
    let mut springs = Vec::new();
    for pair in grid.rows.iter().flat_map(|row| row.windows(2)) {
        let length = distance(grid, pair[0], pair[1]) as i64;
        springs.push(Spring { tail: point[pair[0]], head: point[pair[1]], length, weight: 0 });
    }
    springs.sort_by_key(|spring| (spring.tail, spring.head, -spring.length));
    springs.dedup_by_key(|spring| (spring.tail, spring.head));

    let mut pull = |a: usize, b: usize, weight: i64| {
        let (a, b) = (point[a], point[b]);
        if a != b {
            // A point to the left of both, pulled by both: it costs as much as they are apart.
            let left = start.len();
            start.push(start[a].min(start[b]));
            springs.push(Spring { tail: left, head: a, length: 0, weight });
            springs.push(Spring { tail: left, head: b, length: 0, weight });
        }
    };
    for (upper, slot) in grid.slots.iter().enumerate() {
        for &lower in &slot.down {
            pull(upper, lower, stiffness(slot.kind, grid.slots[lower].kind));
        }
    }
    // A net that turns back is drawn close to its ends.
    for net in nets.iter().filter(|net| net.back && !net.is_direct()) {
        pull(net.lanes[0], net.to, 1);
        for from in net.links.iter().map(|&link| graph.links[link].from) {
            if let Some(lane) = net.lane(grid.slots[from].row) {
                pull(lane, from, 1);
            }
        }
    }
    if springs.len() <= MANY_SPRINGS {
        simplex::minimise(&springs, &mut start);
        for (x, &point) in x.iter_mut().zip(&point) {
            *x = start[point] as f64;
        }
    }
}

/// How much it matters that a line is straight: least at a box, most within a long line. The weights of dot.
const fn stiffness(upper: Kind, lower: Kind) -> i64 {
    match (upper, lower) {
        (Kind::Box, Kind::Box) => 1,
        (Kind::Lane, Kind::Lane) => 8,
        _ => 2,
    }
}
