//! How what came in by several ways may have left by several others, when only the sums of both are known, and which way in can go with
//! which way out.
//!
//! Of all tables with these sums it is the one that assumes the least: each allowed pair has the share it would have by chance
//! (iterative proportional fitting; Deming and Stephan 1940). Whole numbers are then made of it without changing the sums: what
//! rounding leaves over is moved along augmenting paths (Ford and Fulkerson 1956).

use std::collections::VecDeque;

/// Rounds of fitting. Sums are right anyway; more only make shares more even. A table without forbidden pairs needs one.
const ROUNDS: usize = 50;

/// How often each pair, by its numbers: one of `rows`, one of `columns`. Pairs that are not `allowed` are left out. Where no table has
/// these sums, as much is given as can be.
pub(crate) fn fit(
    rows: &[u64],
    columns: &[u64],
    allowed: impl Fn(usize, usize) -> bool,
) -> Vec<(usize, usize, u64)> {
    let mut table = Table::new(rows, columns, allowed);
    table.share_out();
    table.round();
    table.pairs.into_iter().map(|pair| (pair.row, pair.column, pair.count)).collect()
}

struct Pair {
    row: usize,
    column: usize,
    share: f64,
    count: u64,
}

struct Table {
    pairs: Vec<Pair>,
    /// What is still to be given out.
    rows: Vec<u64>,
    columns: Vec<u64>,
    /// Pairs of each row and of each column.
    of_row: Vec<Vec<usize>>,
    of_column: Vec<Vec<usize>>,
}

impl Table {
    fn new(rows: &[u64], columns: &[u64], allowed: impl Fn(usize, usize) -> bool) -> Self {
        let mut table = Self {
            pairs: Vec::new(),
            rows: rows.to_vec(),
            columns: columns.to_vec(),
            of_row: vec![Vec::new(); rows.len()],
            of_column: vec![Vec::new(); columns.len()],
        };
        for row in 0..rows.len() {
            for column in (0..columns.len()).filter(|&column| allowed(row, column)) {
                table.of_row[row].push(table.pairs.len());
                table.of_column[column].push(table.pairs.len());
                table.pairs.push(Pair { row, column, share: 1.0, count: 0 });
            }
        }
        table
    }

    /// Makes columns and rows add up in turn.
    fn share_out(&mut self) {
        let Self { pairs, rows, columns, of_row, of_column } = self;
        for _ in 0..ROUNDS {
            let mut changed = false;
            for (sums, of) in [(&*columns, &*of_column), (&*rows, &*of_row)] {
                for (&sum, members) in sums.iter().zip(of) {
                    let found: f64 = members.iter().map(|&pair| pairs[pair].share).sum();
                    if found > 0.0 && (found - sum as f64).abs() > 0.5 {
                        changed = true;
                        members.iter().for_each(|&pair| pairs[pair].share *= sum as f64 / found);
                    }
                }
            }
            if !changed {
                break;
            }
        }
    }

    /// Makes whole numbers of the shares.
    fn round(&mut self) {
        for pair in 0..self.pairs.len() {
            self.give(pair, self.pairs[pair].share.round() as u64);
        }
        // What is left over has room next to it as a rule.
        for pair in 0..self.pairs.len() {
            self.give(pair, u64::MAX);
        }
        for row in 0..self.rows.len() {
            while self.rows[row] > 0 && self.augment(row) {}
        }
    }

    /// Gives a pair more, as far as both sums allow.
    fn give(&mut self, pair: usize, more: u64) {
        let Pair { row, column, ref mut count, .. } = self.pairs[pair];
        let more = more.min(self.rows[row]).min(self.columns[column]);
        self.rows[row] -= more;
        self.columns[column] -= more;
        *count += more;
    }

    /// Brings some of what is left of a row to a column that misses something, by taking other pairs' place, which take others'.
    fn augment(&mut self, start: usize) -> bool {
        // The pair that each column was reached by, and the pair that each row was made free by.
        let mut into: Vec<Option<usize>> = vec![None; self.columns.len()];
        let mut freed: Vec<Option<usize>> = vec![None; self.rows.len()];
        let mut next = VecDeque::from([start]);
        while let Some(row) = next.pop_front() {
            for &pair in &self.of_row[row] {
                let column = self.pairs[pair].column;
                if into[column].is_some() {
                    continue;
                }
                into[column] = Some(pair);
                if self.columns[column] > 0 {
                    self.shift(start, column, &into, &freed);
                    return true;
                }
                for &other in &self.of_column[column] {
                    let Pair { row, count, .. } = self.pairs[other];
                    if count > 0 && row != start && freed[row].is_none() {
                        freed[row] = Some(other);
                        next.push_back(row);
                    }
                }
            }
        }
        false
    }

    /// Moves as much as possible along the path that ends in `column`.
    fn shift(&mut self, start: usize, column: usize, into: &[Option<usize>], freed: &[Option<usize>]) {
        let mut path = Vec::new();
        let (mut at, mut amount) = (column, self.columns[column].min(self.rows[start]));
        while let Some(gains) = into[at] {
            let row = self.pairs[gains].row;
            let loses = freed[row].filter(|_| row != start);
            path.push((gains, loses));
            let Some(loses) = loses else { break };
            amount = amount.min(self.pairs[loses].count);
            at = self.pairs[loses].column;
        }
        for (gains, loses) in path {
            self.pairs[gains].count += amount;
            if let Some(loses) = loses {
                self.pairs[loses].count -= amount;
            }
        }
        self.rows[start] -= amount;
        self.columns[column] -= amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rows: &[u64], columns: &[u64], forbidden: &[(usize, usize)]) -> Vec<Vec<u64>> {
        let mut table = vec![vec![0; columns.len()]; rows.len()];
        for (row, column, count) in fit(rows, columns, |row, column| !forbidden.contains(&(row, column))) {
            table[row][column] = count;
        }
        table
    }

    #[test]
    fn by_chance_if_everything_is_allowed() {
        assert_eq!(counts(&[30, 10], &[36, 4], &[]), [[27, 3], [9, 1]]);
    }

    #[test]
    fn forbidden_pairs_get_nothing_and_sums_stay() {
        assert_eq!(counts(&[30, 10], &[25, 15], &[(1, 0)]), [[25, 5], [0, 10]]);
        // Only one table is possible, and it is far from what chance would give.
        let table = counts(&[1, 1_000_000, 7], &[1_000_000, 1, 7], &[(0, 0), (1, 1), (1, 2), (0, 2)]);
        assert_eq!(table, [[0, 1, 0], [1_000_000, 0, 0], [0, 0, 7]]);
    }

    #[test]
    fn sums_are_exact_whatever_is_forbidden() {
        // A table of known counts in which some pairs never occur: its sums can be had, so they must be.
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let (height, width) = (1 + random(6) as usize, 1 + random(6) as usize);
            let mut rows = vec![0; height];
            let mut columns = vec![0; width];
            let mut allowed = vec![vec![false; width]; height];
            for row in 0..height {
                for column in 0..width {
                    allowed[row][column] = random(3) > 0;
                    let count = u64::from(allowed[row][column]) * random(1000);
                    rows[row] += count;
                    columns[column] += count;
                }
            }
            let (mut left, mut missing) = (rows.clone(), columns.clone());
            for (row, column, count) in fit(&rows, &columns, |row, column| allowed[row][column]) {
                assert!(allowed[row][column]);
                left[row] -= count;
                missing[column] -= count;
            }
            assert!(left.iter().chain(&missing).all(|&count| count == 0), "{rows:?} {columns:?} {allowed:?}");
        }
    }

    #[test]
    fn sums_that_cannot_be_had_are_met_as_far_as_they_can() {
        assert_eq!(counts(&[10], &[3], &[]), [[3]]);
        assert_eq!(counts(&[10, 5], &[4, 9], &[(0, 1), (1, 0)]), [[4, 0], [0, 5]]);
    }
}
