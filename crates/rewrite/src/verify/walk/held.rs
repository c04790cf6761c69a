//! Counts that are kept in registers while a loop runs.
//!
//! Which counter one belongs to shows only where it is added to it. A register may also keep where another one
//! began to move on by a constant in every round; then every such step of the old code counts.

use super::super::shapes;
use super::*;
use std::collections::BTreeMap;

/// Registers that hold a count, each with what it holds.
pub(super) type Held = BTreeMap<Gpr, Holding>;

/// What a register holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Holding {
    /// The number of the count.
    pub(super) count: usize,
    /// The register whose beginning it keeps.
    pub(super) from: Option<Gpr>,
}

/// Whether the same registers hold the same kind of thing.
pub(super) fn alike(a: &Held, b: &Held) -> bool {
    let shape = |(&register, holding): (&Gpr, &Holding)| (register, holding.from);
    a.iter().map(shape).eq(b.iter().map(shape))
}

/// Where something is incremented.
#[derive(Clone, Copy)]
pub(super) enum Spot {
    Arc(usize),
    Block(BlockId),
}

/// A count that changes, by how much, in which width if that matters, and where.
pub(super) type Bump = (usize, i64, Option<bool>, LinkAddr);

/// What the old instruction `insn` adds to counts by moving registers on.
pub(super) fn moved_on(held: &Held, insn: &Insn, writes: RegSet, at: LinkAddr) -> Step<Vec<Bump>> {
    let mut moved = Vec::new();
    for holding in held.values() {
        let Some(from) = holding.from.filter(|&from| writes.intersects(RegSet::gpr(from))) else { continue };
        match insn.stride().filter(|stride| stride.register == from) {
            Some(stride) => moved.push((holding.count, stride.by, Some(stride.wide), at)),
            None => return Err((at, format!("{from} does not move on by a constant here"))),
        }
    }
    Ok(moved)
}

/// Counts that are kept in registers.
#[derive(Default)]
pub(super) struct Kept {
    /// Counts that are the same one, as a forest.
    same: Vec<usize>,
    /// Which counter each was added to: what is added is divided by the number. Whether all of a register is.
    pub(super) added: Vec<(usize, u32, i64, bool, LinkAddr)>,
    /// Where each was incremented.
    pub(super) bumped: Vec<(Spot, Bump)>,
}

impl Kept {
    pub(super) fn begin(&mut self) -> usize {
        self.same.push(self.same.len());
        self.same.len() - 1
    }

    pub(super) fn root(&self, mut count: usize) -> usize {
        while self.same[count] != count {
            count = self.same[count];
        }
        count
    }

    pub(super) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.same[a] = b;
    }

    pub(super) fn bump(&mut self, spot: Spot, bumps: Vec<Bump>) {
        self.bumped.extend(bumps.into_iter().map(|bump| (spot, bump)));
    }

    pub(super) fn add(&mut self, count: usize, counter: u32, divisor: i64, wide: bool, at: LinkAddr) {
        self.added.push((count, counter, divisor, wide, at));
    }

    /// What is incremented where, counters by their weights.
    ///
    /// # Errors
    /// Where that makes no sense, and why.
    pub(super) fn increments(&self) -> Step<Vec<(Spot, u64)>> {
        let mut counters: HashMap<usize, (u32, i64, bool)> = HashMap::new();
        for &(count, counter, divisor, wide, at) in &self.added {
            let added = (counter, divisor, wide);
            if counters.insert(self.root(count), added).is_some_and(|known| known != added) {
                return Err((at, "what was counted in a register is added to another counter".into()));
            }
        }
        let increment = |&(spot, (count, by, in_width, at)): &(Spot, Bump)| {
            let Some(&(counter, divisor, wide)) = counters.get(&self.root(count)) else {
                return Err((at, "what is counted in a register is never added to a counter".into()));
            };
            if by % divisor != 0 || in_width.is_some_and(|width| width != wide) {
                return Err((at, format!("a step of {by} is not what is counted here")));
            }
            Ok((spot, weight(counter).wrapping_mul((by / divisor).cast_unsigned())))
        };
        self.bumped.iter().map(increment).collect()
    }
}

/// What was met between two copied instructions.
#[derive(Default)]
pub(super) struct Met {
    /// The sum of what is incremented.
    pub(super) sum: u64,
    /// Counts in registers that are incremented.
    pub(super) bumped: Vec<Bump>,
}

impl Walk<'_, '_> {
    /// If a register begins to keep where another one is, or what it kept is added to a counter: the length of
    /// the code. Arguments are those of `skip`.
    pub(super) fn journey(
        &mut self,
        at: LinkAddr,
        live: RegSet,
        held: &mut Held,
        rows: &[LinkAddr],
        first: Option<LinkAddr>,
        met: &mut Met,
    ) -> Step<Option<u64>> {
        let bytes = self.world.bytes(at);
        if let Some(arrival) = shapes::arrival(bytes, at)
            && let Some(&Holding { count, from }) = held.get(&arrival.register)
            && from == Some(arrival.from)
        {
            if live.intersects(RegSet::ARITHMETIC_FLAGS | RegSet::gpr(arrival.register)) {
                return Err((at, "a counter spoils flags or a register that are needed".into()));
            }
            for &start in &arrival.starts {
                self.check_rows(rows, at.offset(start), 0)?;
            }
            self.walked.probes += 1;
            held.remove(&arrival.register);
            let counter = self.counter(arrival.counter, at)?;
            self.kept.add(count, counter, arrival.divisor, arrival.wide, at);
            met.bumped.push((count, arrival.more * arrival.divisor, None, at));
            return Ok(Some(arrival.len));
        }
        if let Some(first) = first
            && let Some((len, register, from, ahead)) = shapes::departure(bytes)
            && !self.world.old.elf.bytes_at(first).starts_with(&bytes[..len as usize])
        {
            if live.intersects(RegSet::gpr(register)) || held.contains_key(&register) {
                return Err((at, format!("sets {register}, which is needed")));
            }
            self.check_rows(rows, at, 0)?;
            let count = self.kept.begin();
            held.insert(register, Holding { count, from: Some(from) });
            met.bumped.push((count, -ahead, None, at));
            return Ok(Some(len));
        }
        Ok(None)
    }
}
