//! The x of every slot, its order within the row being given.
//!
//! After Brandes and Köpf, "Fast and Simple Horizontal Coordinate Assignment" (2001): slots are lined up in
//! vertical blocks with their median neighbours, in four ways (upwards or downwards, from the left or from
//! the right), and each slot takes the mean of the two middle results. The lanes of a net share a block
//! unless they cross those of another, so long lines are straight. Blocks are placed as in dagre, by longest
//! paths over the graph of blocks: the compaction given in the paper has flaws (erratum by Brandes, Walter
//! and Zink, 2020).
//!
//! The result is valid and straight, but wide; [`super::tighten`] improves on it.

use super::nets::{Grid, Kind};
use std::collections::HashSet;

/// Room between two boxes, between a box and a line, and between two lines.
const BOX_GAP: f64 = 28.0;
const LINE_GAP: f64 = 12.0;
const LANE_GAP: f64 = 2.0;

/// Finds x for all slots; neighbours never overlap.
pub(super) fn columns(grid: &Grid) -> Vec<f64> {
    let conflicts = conflicts(grid);
    let mut found: Vec<Vec<f64>> = Vec::new();
    for upwards in [true, false] {
        for leftwards in [true, false] {
            let view = View::new(grid, upwards, leftwards);
            let mut x = view.compact(&view.blocks(&conflicts));
            if !leftwards {
                x.iter_mut().for_each(|x| *x = -*x);
            }
            found.push(x);
        }
    }
    align_to_narrowest(grid, &mut found);

    (0..grid.slots.len())
        .map(|slot| {
            let mut of_slot = [found[0][slot], found[1][slot], found[2][slot], found[3][slot]];
            of_slot.sort_by(f64::total_cmp);
            // Whole pixels keep lines sharp; as gaps are whole too, rounding brings nothing closer.
            ((of_slot[1] + of_slot[2]) / 2.0).floor()
        })
        .collect()
}

/// Least distance between the x of two neighbours.
pub(super) fn distance(grid: &Grid, left: usize, right: usize) -> f64 {
    let (left, right) = (&grid.slots[left], &grid.slots[right]);
    let gap = match (left.kind, right.kind) {
        (Kind::Box, Kind::Box) => BOX_GAP,
        (Kind::Lane, Kind::Lane) => LANE_GAP,
        _ => LINE_GAP,
    };
    (left.right + gap + right.left).ceil()
}

/// The lane above or below a lane in the same net: the only slot it may be lined up with.
pub(super) fn lane_among(grid: &Grid, slot: usize, tied: &[usize]) -> Option<usize> {
    let is_lane = |slot: usize| grid.slots[slot].kind == Kind::Lane;
    tied.iter().copied().find(|&other| is_lane(slot) && is_lane(other))
}

/// Ties (upper, lower) that cross a trunk: they must not be lined up, as the trunk then could not.
fn conflicts(grid: &Grid) -> HashSet<(usize, usize)> {
    let at = grid.places();
    let mut found = HashSet::new();
    for row in &grid.rows {
        let mut left_bound = 0;
        let mut unscanned = 0;
        for (place, &slot) in row.iter().enumerate() {
            let trunk = lane_among(grid, slot, &grid.slots[slot].up);
            if trunk.is_none() && place + 1 < row.len() {
                continue;
            }
            let right_bound = trunk.map_or(usize::MAX, |upper| at[upper]);
            for &lower in &row[unscanned..=place] {
                let own_trunk = lane_among(grid, lower, &grid.slots[lower].up);
                for &upper in &grid.slots[lower].up {
                    let crosses = at[upper] < left_bound || at[upper] > right_bound;
                    if crosses && own_trunk != Some(upper) {
                        found.insert((upper, lower));
                    }
                }
            }
            unscanned = place + 1;
            left_bound = trunk.map_or(left_bound, |upper| at[upper]);
        }
    }
    found
}

/// The grid as seen in one of the four directions: always lined up to the row before, always from the left.
struct View<'a> {
    grid: &'a Grid,
    rows: Vec<Vec<usize>>,
    at: Vec<usize>,
    upwards: bool,
    leftwards: bool,
}

impl<'a> View<'a> {
    fn new(grid: &'a Grid, upwards: bool, leftwards: bool) -> Self {
        let mut rows = grid.rows.clone();
        if !upwards {
            rows.reverse();
        }
        if !leftwards {
            rows.iter_mut().for_each(|row| row.reverse());
        }
        let mut at = vec![0; grid.slots.len()];
        for row in &rows {
            row.iter().enumerate().for_each(|(place, &slot)| at[slot] = place);
        }
        Self { grid, rows, at, upwards, leftwards }
    }

    /// The block of each slot, named by one of its members.
    fn blocks(&self, conflicts: &HashSet<(usize, usize)>) -> Vec<usize> {
        let mut block: Vec<usize> = (0..self.grid.slots.len()).collect();
        for row in &self.rows {
            // Slots of the row before up to here are taken or passed: lining up with them would cross.
            let mut free_from = 0;
            for &slot in row {
                let ends = &self.grid.slots[slot];
                let tied = if self.upwards { &ends.up } else { &ends.down };
                let mut tied: Vec<usize> = match lane_among(self.grid, slot, tied) {
                    Some(lane) => vec![lane],
                    None => tied.clone(),
                };
                tied.sort_by_key(|&other| self.at[other]);
                let middle = tied.len().saturating_sub(1) / 2..(tied.len() / 2 + 1).min(tied.len());
                for &other in &tied[middle] {
                    let tie = if self.upwards { (other, slot) } else { (slot, other) };
                    if self.at[other] >= free_from && !conflicts.contains(&tie) {
                        block[slot] = block[other];
                        free_from = self.at[other] + 1;
                        break;
                    }
                }
            }
        }
        block
    }

    /// Places blocks as far left as they go, then closes the gaps to their right neighbours.
    fn compact(&self, block: &[usize]) -> Vec<f64> {
        let count = block.len();
        let mut right_of: Vec<Vec<(usize, f64)>> = vec![Vec::new(); count];
        let mut waiting = vec![0_usize; count];
        for row in &self.rows {
            for pair in row.windows(2) {
                let (left, right) = if self.leftwards { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
                right_of[block[pair[0]]].push((block[pair[1]], distance(self.grid, left, right)));
                waiting[block[pair[1]]] += 1;
            }
        }
        let mut x = vec![0.0_f64; count];
        let mut sorted: Vec<usize> = (0..count).filter(|&b| block[b] == b && waiting[b] == 0).collect();
        let mut next = 0;
        while let Some(&b) = sorted.get(next) {
            next += 1;
            for &(right, distance) in &right_of[b] {
                x[right] = x[right].max(x[b] + distance);
                waiting[right] -= 1;
                if waiting[right] == 0 {
                    sorted.push(right);
                }
            }
        }
        for &b in sorted.iter().rev() {
            let limit =
                right_of[b].iter().map(|&(right, distance)| x[right] - distance).fold(f64::MAX, f64::min);
            if limit < f64::MAX {
                x[b] = x[b].max(limit);
            }
        }
        block.iter().map(|&b| x[b]).collect()
    }
}

/// Moves the four drawings over one another, by the edges to which they were pushed.
fn align_to_narrowest(grid: &Grid, found: &mut [Vec<f64>]) {
    let bounds = |x: &Vec<f64>| {
        let in_rows = || grid.rows.iter().flatten().map(|&slot| (x[slot], &grid.slots[slot]));
        let low = in_rows().map(|(x, slot)| x - slot.left).fold(f64::MAX, f64::min);
        let high = in_rows().map(|(x, slot)| x + slot.right).fold(f64::MIN, f64::max);
        (low, high)
    };
    let all: Vec<(f64, f64)> = found.iter().map(bounds).collect();
    let Some(&(low, high)) = all.iter().min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0))) else { return };
    for (index, x) in found.iter_mut().enumerate() {
        let leftwards = index % 2 == 0;
        let shift = if leftwards { low - all[index].0 } else { high - all[index].1 };
        x.iter_mut().for_each(|x| *x += shift);
    }
}
