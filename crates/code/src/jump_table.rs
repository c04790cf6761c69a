//! Where an indirect jump leads: through a table, to a label, or out of the function.

use crate::addr::LinkAddr;
use crate::cfg::{BlockId, Cfg};
use crate::constants::Constants;
use crate::isa::{Gpr, Insn};
use crate::source::{Pointer, Surroundings};
use crate::stack_height::StackHeights;
use crate::values::{Expr, Origin, State, Strength, Val, Values};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use iced_x86::OpKind;

/// Who says how many entries a table has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TableBound {
    /// The binary itself, in a section made for it.
    Stated,
    /// A compare and branch in front of the jump.
    Compared,
    /// Whoever compiled the jump says where it leads, not by what table. One was found, and read as far as it leads there too.
    Confirmed,
    /// A mask on the index, cut where the entries stop making sense.
    Masked,
    /// Nobody: read as far as entries make sense and nothing else is known to begin.
    Scanned,
    /// There is no table: the jump goes to one of the labels whose address is taken.
    Labels,
}

impl TableBound {
    /// Whether the number of entries is a guess.
    #[must_use]
    pub fn is_guess(self) -> bool {
        matches!(self, Self::Masked | Self::Scanned | Self::Labels)
    }

    /// A short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Compared => "compared",
            Self::Confirmed => "confirmed",
            Self::Masked => "masked",
            Self::Scanned => "scanned",
            Self::Labels => "labels",
        }
    }
}

/// The targets of one indirect jump.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JumpTable {
    /// The jump.
    pub site: LinkAddr,
    /// Where the table lies; zero where there is none.
    pub table: LinkAddr,
    /// Bytes of one entry.
    pub entry_size: u8,
    /// What entries are relative to, if they are.
    pub base: Option<LinkAddr>,
    /// Where each entry leads.
    pub targets: Vec<LinkAddr>,
    /// Who says how many there are.
    pub bound: TableBound,
    /// Whether it was taken to end where something else is known to begin, although what lies there
    /// would make sense as one more entry.
    pub fenced: bool,
}

impl fmt::Display for JumpTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table at {} for {}: {} entries of {} bytes",
            self.table,
            self.site,
            self.targets.len(),
            self.entry_size
        )?;
        if let Some(base) = self.base {
            write!(f, " relative to {base}")?;
        }
        write!(f, ", {}", self.bound.name())
    }
}

/// What became of an indirect jump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Resolution {
    /// Tables it goes through; more than one where the compiler merged the jumps of several switches.
    pub(crate) tables: Vec<JumpTable>,
    /// Fixed places it goes to.
    pub(crate) places: Vec<LinkAddr>,
    /// It may leave the function for a place only the run shows.
    pub(crate) leaves: bool,
    /// Its tables were taken to be longer before a check was found that says how long they are.
    pub(crate) corrected: bool,
}

impl Resolution {
    /// Whether it says the same as `other` but for the number of entries.
    pub(crate) fn has_same_tables(&self, other: &Self) -> bool {
        let tables = |r: &Self| r.tables.iter().map(|t| (t.table, t.base)).collect::<BTreeSet<_>>();
        tables(self) == tables(other) && self.places == other.places
    }

    /// Whether the size of a table is a guess.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.tables.iter().any(|t| t.bound.is_guess())
    }

    /// Adds a table, or what is now better known of one.
    fn add(&mut self, table: JumpTable) {
        match self.tables.iter_mut().find(|t| t.table == table.table && t.base == table.base) {
            None => self.tables.push(table),
            Some(known) => {
                let better = match (known.bound.is_guess(), table.bound.is_guess()) {
                    (true, false) => true,
                    (false, true) => false,
                    _ => table.targets.len() > known.targets.len(),
                };
                if better {
                    *known = table;
                }
            }
        }
    }
}

/// What whoever compiled the jump at `site` says of it; nothing if the tables cannot be read.
pub(crate) fn stated<S: Surroundings + ?Sized>(surroundings: &S, site: LinkAddr) -> Option<Resolution> {
    let stated = surroundings.stated_jump(site)?;
    let mut resolution =
        Resolution { places: stated.targets.to_vec(), leaves: stated.leaves, ..Resolution::default() };
    for table in &stated.tables {
        let entry = |index: u64| {
            let at = table.at.offset(index * u64::from(table.entry_size));
            read_entry(surroundings, at, table.entry_size.into(), table.base)
        };
        resolution.add(JumpTable {
            site,
            table: table.at,
            entry_size: table.entry_size,
            base: table.base,
            targets: (0..table.count.into()).map(entry).collect::<Option<_>>()?,
            bound: TableBound::Stated,
            fenced: false,
        });
    }
    Some(resolution)
}

/// What the function so far says of an address.
pub(crate) trait Scope {
    /// Whether it lies in the function.
    fn is_inside(&self, at: LinkAddr) -> bool;
    /// Whether it is behind the first byte of a known instruction.
    fn is_inside_insn(&self, at: LinkAddr) -> bool;
    /// Whether the function, or a piece of it, ends there.
    fn is_end(&self, at: LinkAddr) -> bool;
    /// Whether an instruction starts there when the function is decoded straight through.
    fn is_linear_start(&self, at: LinkAddr) -> bool;
}

/// No switch anyone wrote has more cases.
const MAX_ENTRIES: u64 = 65_536;

/// How many blocks to go back when paths with different tables were merged.
const MAX_PATH: usize = 4;
/// How many paths to try in all.
const MAX_TRIES: usize = 48;

pub(crate) struct Resolver<'a, S: ?Sized, F: ?Sized> {
    pub(crate) surroundings: &'a S,
    pub(crate) scope: &'a F,
    pub(crate) values: Values<'a, S>,
    pub(crate) cfg: &'a Cfg,
    /// Computed when first needed.
    pub(crate) constants: Option<Constants>,
    /// Computed when first needed.
    pub(crate) heights: Option<StackHeights<'a, S>>,
    /// Whether addresses inside the function are taken, as for a computed goto.
    pub(crate) has_labels: bool,
}

impl<S: Surroundings + ?Sized, F: Scope + ?Sized> Resolver<'_, S, F> {
    /// Where the indirect jump at the end of `block` leads; `None` if nobody can tell.
    pub(crate) fn resolve(&mut self, block: BlockId, jump: &Insn) -> Option<Resolution> {
        if self.values.pops_target(block, jump) {
            return Some(Resolution { leaves: true, ..Resolution::default() });
        }
        let mut state = self.values.before_last(block)?;
        let target = self.target(&mut state, jump)?;
        let mut whole = Resolution::default();
        let found = self.classify(&mut state, jump, target, &mut whole);
        if found && !whole.is_doubtful() {
            return Some(whole);
        }
        if found && !self.values.depends_on_path(target) {
            return Some(whole);
        }
        let mut by_path = Resolution::default();
        let complete = self.by_paths(&mut alloc::vec![block], jump, &mut { MAX_TRIES }, &mut by_path);
        if found {
            // A bound checked on one way to the jump holds for the table; on other ways the compiler
            // may simply know that the index is in range.
            for table in by_path.tables {
                if whole.tables.iter().any(|t| t.table == table.table) {
                    whole.add(table);
                }
            }
            return Some(whole);
        }
        if complete {
            return Some(by_path);
        }
        if !by_path.tables.is_empty() {
            // Some ways lead through a table, others could not be told: most likely ways that are never
            // taken, behind a call that does not return. What the table does not explain will show.
            for table in &mut by_path.tables {
                table.bound = TableBound::Scanned;
            }
            return Some(by_path);
        }
        // Pointers to functions are loaded, not added up: that is a table nobody could make out.
        let is_added_up = matches!(self.values.exprs.get(target), Expr::Sum(..));
        (!is_added_up && self.is_tail_call(block, jump))
            .then(|| Resolution { leaves: true, ..Resolution::default() })
    }

    /// What the last few blocks tell, and registers that hold a constant when they begin.
    pub(crate) fn resolve_locally(&mut self, block: BlockId, jump: &Insn) -> Option<Resolution> {
        let mut state = self.values.before_last_locally(block, None)?;
        let target = self.target(&mut state, jump)?;
        let mut resolution = Resolution::default();
        if self.classify(&mut state, jump, target, &mut resolution) {
            return Some(resolution);
        }
        let plain_pointer = match self.values.exprs.get(target) {
            Expr::Load { addr, bits: 64, .. } => self.values.exprs.as_sum(*addr).1.iter().all(|t| t.1 == 1),
            // Where paths meet, what came along them may be the entry of a table as well.
            Expr::Opaque(origin) => !matches!(origin, Origin::Merge(..)),
            _ => false,
        };
        if plain_pointer && self.is_tail_call(block, jump) {
            return Some(Resolution { leaves: true, ..Resolution::default() });
        }
        let cfg = self.cfg;
        let constants = self
            .constants
            .get_or_insert_with(|| Constants::new(self.surroundings, &cfg.blocks, &cfg.edges, &cfg.entries));
        let mut state = self.values.before_last_locally(block, Some(constants))?;
        let target = self.target(&mut state, jump)?;
        let mut resolution = Resolution::default();
        self.classify(&mut state, jump, target, &mut resolution).then_some(resolution)
    }

    /// Adds to what was `stated` of a computed goto the tables that analysis finds, as far as they lead where it is said to
    /// lead. They say nothing new of where it leads, but whoever moves the code can change them.
    pub(crate) fn find_tables(&mut self, block: BlockId, jump: &Insn, mut stated: Resolution) -> Resolution {
        if !stated.tables.is_empty() || stated.places.len() < 2 {
            return stated;
        }
        let Some(found) = self.resolve_locally(block, jump) else { return stated };
        stated.places.sort_unstable();
        // A distance that is read from a table that was taken to be shorter cannot be led elsewhere; an address can.
        for table in found.tables.into_iter().filter(|table| table.entry_size == 8 && table.base.is_none()) {
            let is_place = |at: &LinkAddr| stated.places.binary_search(at).is_ok();
            let targets: Vec<_> = table.targets.into_iter().take_while(is_place).collect();
            if !targets.is_empty() {
                stated.add(JumpTable { targets, bound: TableBound::Confirmed, fenced: false, ..table });
            }
        }
        stated
    }

    /// The address that was pushed for the return at the end of `block`, if it is always the same.
    pub(crate) fn pushed(&mut self, block: BlockId) -> Option<LinkAddr> {
        let mut state = self.values.before_last_locally(block, None)?;
        let top = state.regs[Gpr::RSP.number()];
        let pushed = self.values.load(&mut state, top, 64);
        let place = LinkAddr(self.values.exprs.as_constant(pushed)?);
        self.surroundings.is_code(place).then_some(place)
    }

    /// A jump to nowhere in particular, with the stack as it was at entry, is a tail call; unless the
    /// function hands out addresses inside itself to jump to, or the compiler marks the jump as its own.
    fn is_tail_call(&mut self, block: BlockId, jump: &Insn) -> bool {
        !jump.is_notrack() && !self.has_labels && self.is_at_entry_height(block)
    }

    /// Whether the stack pointer at the end of `block` is where it was at entry.
    pub(crate) fn is_at_entry_height(&mut self, block: BlockId) -> bool {
        let (cfg, surroundings) = (self.cfg, self.surroundings);
        let heights = self.heights.get_or_insert_with(|| StackHeights::new(cfg, surroundings));
        heights.per_insn(block).last().is_some_and(|&(_, height)| height == Some(0))
    }

    /// Classifies the jump once for each way that leads to it, going back a few blocks where paths
    /// were merged; whether every way could be told.
    fn by_paths(
        &mut self,
        path: &mut Vec<BlockId>,
        jump: &Insn,
        tries: &mut usize,
        out: &mut Resolution,
    ) -> bool {
        let predecessors = self.values.predecessors(path[0]);
        let mut all = !predecessors.is_empty();
        for from in predecessors {
            if *tries == 0 || path.contains(&from) && path.len() > 1 {
                return false;
            }
            *tries -= 1;
            let Some(mut state) = self.values.along(from, path) else { return false };
            let Some(target) = self.target(&mut state, jump) else { return false };
            if self.classify(&mut state, jump, target, out) && !out.is_doubtful() {
                continue;
            }
            if path.len() >= MAX_PATH {
                all = false;
                continue;
            }
            path.insert(0, from);
            all &= self.by_paths(path, jump, tries, out);
            path.remove(0);
        }
        all
    }

    /// The expression the jump goes to.
    fn target(&mut self, state: &mut State, jump: &Insn) -> Option<Val> {
        match jump.raw.op0_kind() {
            OpKind::Register => Some(state.regs[Gpr::holding(jump.raw.op0_register())?.number()]),
            OpKind::Memory => {
                let addr = self.values.address(state, jump)?;
                Some(self.values.load(state, addr, 64))
            }
            _ => None,
        }
    }

    fn classify(&mut self, state: &mut State, jump: &Insn, target: Val, out: &mut Resolution) -> bool {
        match self.values.exprs.get(target).clone() {
            Expr::Select(a, b) => self.classify(state, jump, a, out) && self.classify(state, jump, b, out),
            // A jump through one fixed slot: the global offset table, or a variable.
            Expr::Load { addr, bits: 64, .. } if self.values.exprs.as_constant(addr).is_some() => {
                let slot = self.values.exprs.as_constant(addr).map(LinkAddr);
                // Whoever puts labels into memory jumps to what he finds there.
                if self.has_labels && slot.is_some_and(|slot| self.may_hold_label(slot)) {
                    return false;
                }
                out.leaves = true;
                true
            }
            Expr::Load { addr, bits, .. } if bits >= 32 => {
                let Some(shape) = self.indexed(addr, u64::from(bits / 8)) else { return false };
                self.read_table(state, jump, shape, None, out)
            }
            // The address of a weak symbol nobody defines; the code checks before it jumps.
            Expr::Sum(0, terms) if terms.is_empty() => {
                out.leaves = true;
                true
            }
            Expr::Sum(place, terms) if terms.is_empty() => self.add_place(LinkAddr(place), out),
            Expr::Sum(base, terms) => {
                let [(entry, 1)] = terms.as_slice() else { return false };
                let entry = match *self.values.exprs.get(*entry) {
                    Expr::Signed(inner, 32) => inner,
                    _ => *entry,
                };
                let Expr::Load { addr, bits: 32, .. } = *self.values.exprs.get(entry) else { return false };
                if let Some(fixed) = self.values.exprs.as_constant(addr) {
                    // On the ways known so far the index is a constant; more ways may turn up.
                    let Some(place) = read_entry(self.surroundings, LinkAddr(fixed), 4, Some(LinkAddr(base)))
                    else {
                        return false;
                    };
                    return self.add_place(place, out);
                }
                let Some(shape) = self.indexed(addr, 4) else { return false };
                self.read_table(state, jump, shape, Some(LinkAddr(base)), out)
            }
            _ => false,
        }
    }

    /// Whether the program may write to the word at `slot`, and nobody says that it is for a symbol of another module.
    fn may_hold_label(&self, slot: LinkAddr) -> bool {
        !self.surroundings.is_constant(slot) && self.surroundings.pointer(slot) != Pointer::Import
    }

    fn add_place(&self, place: LinkAddr, out: &mut Resolution) -> bool {
        if !self.surroundings.is_code(place) {
            return false;
        }
        if !out.places.contains(&place) {
            out.places.push(place);
        }
        true
    }

    /// Reads `addr` as table plus scaled index.
    fn indexed(&self, addr: Val, entry_size: u64) -> Option<Shape> {
        let (table, terms) = self.values.exprs.as_sum(addr);
        // With one index the stride is its factor. An index that is itself a sum gives several terms.
        let stride = terms.iter().map(|t| t.1).min()?;
        if terms.len() > 2 || stride < entry_size || terms.iter().any(|t| t.1 % stride != 0) {
            return None;
        }
        let single = (terms.len() == 1).then(|| terms[0].0);
        Some(Shape { table: LinkAddr(table), entry_size, stride, index: single })
    }

    fn read_table(
        &mut self,
        state: &State,
        jump: &Insn,
        mut shape: Shape,
        base: Option<LinkAddr>,
        out: &mut Resolution,
    ) -> bool {
        if self.surroundings.bytes(shape.table).is_empty() && shape.index.is_none() {
            return false;
        }
        let mut checked = shape.index.and_then(|index| self.values.upper_bound(state, index));
        if let Some((low, high, how)) = shape.index.and_then(|index| self.values.latest_check(state, index)) {
            shape.table = shape.table.offset(low.wrapping_mul(shape.stride));
            checked = Some((high, how));
        }
        if let Some(base) = base {
            // Compilers make entries relative to the table itself. Where the sum looks different, a
            // constant part of the index went into it.
            let skipped = base.since(shape.table).wrapping_div(shape.stride);
            if shape.table != base
                && base.since(shape.table).is_multiple_of(shape.stride)
                && skipped < MAX_ENTRIES
            {
                shape.table = base;
                checked = checked.and_then(|(high, how)| Some((high.checked_sub(skipped)?, how)));
            } else if shape.table > base && shape.table.since(base).is_multiple_of(shape.stride) {
                shape.table = base;
                checked = None;
            }
        }
        let stated = self.surroundings.stated_table_len(shape.table);
        let (limit, bound) = match (stated, checked) {
            (Some(len), _) => (len, TableBound::Stated),
            (None, Some((high, Strength::Compared))) => (high.saturating_add(1), TableBound::Compared),
            (None, Some((high, Strength::Masked))) => (high.saturating_add(1), TableBound::Masked),
            (None, Some((_, Strength::Equal)) | None) => (MAX_ENTRIES, TableBound::Scanned),
        };
        let limit = limit.min(MAX_ENTRIES);
        let mut fence = u64::MAX;
        if bound.is_guess()
            && let Some(next) = self.surroundings.next_reference(shape.table)
        {
            fence = next.since(shape.table);
        }
        let mut targets = Vec::new();
        let mut inside = false;
        let mut fenced = false;
        while (targets.len() as u64) < limit {
            let offset = targets.len() as u64 * shape.stride;
            let Some(target) = self.plausible_entry(&shape, offset, base, bound) else { break };
            if offset >= fence {
                fenced = true;
                break;
            }
            inside |= self.scope.is_inside(target);
            targets.push(target);
        }
        if bound == TableBound::Compared
            && let Some(len) = self.len_before_foreign(&shape, &targets, limit)
        {
            targets.truncate(len);
            fenced = true;
        }
        if targets.is_empty() {
            return false;
        }
        // A table of nothing but functions is a table of functions.
        if !inside && jump.is_notrack() && bound.is_guess() {
            return false;
        }
        let complete = targets.len() as u64 == limit;
        let bound = match bound {
            TableBound::Stated | TableBound::Compared if !complete => TableBound::Scanned,
            TableBound::Masked if complete => TableBound::Compared,
            other => other,
        };
        // What writable memory holds may be changed: pointers to functions most likely are.
        if !self.surroundings.is_constant(shape.table) {
            out.leaves |= !inside;
        }
        let table = JumpTable {
            site: jump.addr(),
            table: shape.table,
            entry_size: shape.entry_size as u8,
            base,
            targets,
            bound,
            fenced,
        };
        out.add(table);
        true
    }

    /// A check in front of the jump need not be that of the table: the compiler may know that the index is
    /// smaller still. Where entries turn to the middle of other functions, or to nonsense, and something
    /// else is known to begin at or before the first such one, the table has only that many entries.
    fn len_before_foreign(&self, shape: &Shape, targets: &[LinkAddr], limit: u64) -> Option<usize> {
        let is_foreign = |&target: &LinkAddr| {
            !self.scope.is_inside(target)
                && !self.scope.is_end(target)
                && !self.surroundings.is_function_start(target)
        };
        let first = targets.iter().position(is_foreign).unwrap_or(targets.len()) as u64;
        if first == limit {
            return None;
        }
        let mut len = None;
        let mut at = shape.table;
        while let Some(next) = self.surroundings.next_reference(at) {
            let offset = next.since(shape.table);
            if offset > first * shape.stride {
                break;
            }
            if offset.is_multiple_of(shape.stride) {
                len = Some((offset / shape.stride) as usize);
            }
            at = next;
        }
        len.filter(|&len| len < targets.len())
    }

    /// Where the entry at `offset` leads, if that makes sense.
    fn plausible_entry(
        &self,
        shape: &Shape,
        offset: u64,
        base: Option<LinkAddr>,
        bound: TableBound,
    ) -> Option<LinkAddr> {
        let target = read_entry(self.surroundings, shape.table.offset(offset), shape.entry_size, base)?;
        let fair = if self.scope.is_inside(target) {
            // Read too far, a table turns into nonsense: sooner or later into the middle of an instruction.
            !self.scope.is_inside_insn(target) && (!bound.is_guess() || self.scope.is_linear_start(target))
        } else {
            self.is_fair_target(target, bound)
        };
        fair.then_some(target)
    }

    /// Whether an entry may lead out of the function to `target`. The end of the function stands for a
    /// case that cannot happen.
    fn is_fair_target(&self, target: LinkAddr, bound: TableBound) -> bool {
        if self.scope.is_end(target) {
            return true;
        }
        if bound.is_guess() {
            self.surroundings.is_function_start(target)
        } else {
            self.surroundings.is_code(target)
        }
    }
}

/// Where the table entry at `at` leads.
fn read_entry<S: Surroundings + ?Sized>(
    surroundings: &S,
    at: LinkAddr,
    size: u64,
    base: Option<LinkAddr>,
) -> Option<LinkAddr> {
    match (size, base) {
        (8, None) => match surroundings.pointer(at) {
            Pointer::Here(to) => Some(to),
            Pointer::Import | Pointer::None => None,
        },
        (4, Some(base)) => Some(base.offset(surroundings.read_u32(at)? as i32 as i64 as u64)),
        (4, None) => Some(LinkAddr(u64::from(surroundings.read_u32(at)?))),
        _ => None,
    }
}

struct Shape {
    table: LinkAddr,
    entry_size: u64,
    stride: u64,
    index: Option<Val>,
}
