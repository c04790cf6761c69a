//! What units mean for calls: where they call, return and jump, and in which functions they are.

use relive_abi::engine::{
    BRANCH, CALL, GUESS, INDIRECT_CALL, INDIRECT_JUMP, JUMP, KERNEL, REBASED, RETURN, STRAY,
};
use relive_trace::units::{Turn, Unit};
use std::collections::HashMap;
use std::sync::Arc;

/// Not a number of anything.
pub(super) const NONE: u32 = u32::MAX;

/// Where an address of a process is.
#[derive(Clone, Debug, Default)]
pub struct Where {
    /// Which module it is in, by its number among [`Functions::modules`].
    pub module: Option<u32>,
    /// As linked; in no module, the address itself.
    pub address: u64,
    /// The function: where it begins, and its name.
    pub function: Option<(u64, Arc<str>)>,
}

/// Who knows the functions of what was traced.
pub trait Functions {
    /// The files that code came from.
    fn modules(&self) -> Vec<relive_sequence::Module>;

    /// Where an address is that a unit of a process has code at.
    fn at(&self, process: u32, unit: &Unit, pc: u64) -> Where;
}

/// A function that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Symbol {
    pub(super) module: u32,
    pub(super) start: u64,
    pub(super) name: Arc<str>,
}

/// Where control goes to another place.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    /// The module and the address of the instruction.
    pub(super) module: u32,
    pub(super) address: u64,
    /// Its address in the process, and the one behind it.
    pub(super) pc: u64,
    pub(super) behind: u64,
    /// The function it is in.
    symbol: u32,
    kind: u32,
}

/// A piece of a unit.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) module: u32,
    pub(super) address: u64,
    /// In the process.
    pub(super) pc: u64,
    /// The function, if it has a name.
    pub(super) symbol: u32,
    /// Whether that begins here.
    pub(super) is_start: bool,
}

/// A unit.
pub(super) struct Described {
    /// Where it begins.
    pub(super) entry: Place,
    /// Where other functions are come to within.
    pub(super) within: Box<[Within]>,
    /// By exit: which transfer.
    exits: Box<[u32]>,
}

/// Where a unit goes on in another function.
#[derive(Clone, Copy)]
pub(super) struct Within {
    /// At which instruction that begins.
    pub(super) step: u32,
    /// How it is come to, from where, and where it is.
    pub(super) way: Way,
    pub(super) transfer: u32,
    pub(super) to: Place,
}

/// What happens between two units, or two pieces of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Call,
    Tail,
    Return,
    /// To the middle of another function.
    Jump,
}

/// The units of a process.
#[derive(Default)]
pub(super) struct Table {
    pub(super) units: Vec<Described>,
    pub(super) transfers: Vec<Transfer>,
}

/// Functions with names, of all processes.
#[derive(Default)]
pub(super) struct Symbols {
    pub(super) all: Vec<Symbol>,
    known: HashMap<Symbol, u32>,
}

impl Symbols {
    fn number(&mut self, symbol: Symbol) -> u32 {
        let all = &mut self.all;
        *self.known.entry(symbol).or_insert_with_key(|symbol| {
            all.push(symbol.clone());
            all.len() as u32 - 1
        })
    }

    fn place(&mut self, at: Where, pc: u64) -> Place {
        let module = at.module.unwrap_or(NONE);
        let is_start = at.function.as_ref().is_some_and(|(start, _)| *start == at.address);
        let symbol = at.function.map_or(NONE, |(start, name)| self.number(Symbol { module, start, name }));
        Place { module, address: at.address, pc, symbol, is_start }
    }
}

impl Table {
    pub(super) fn new(
        process: u32,
        units: &[Arc<Unit>],
        functions: &dyn Functions,
        symbols: &mut Symbols,
    ) -> Self {
        let mut table = Self::default();
        for unit in units {
            let described = table.describe(process, unit, functions, symbols);
            table.units.push(described);
        }
        table
    }

    fn describe(
        &mut self,
        process: u32,
        unit: &Unit,
        functions: &dyn Functions,
        symbols: &mut Symbols,
    ) -> Described {
        let mut place = |pc: u64| symbols.place(functions.at(process, unit, pc), pc);
        let pieces: Vec<Place> = unit.pieces.iter().map(|piece| place(piece.0)).collect();
        let mut transfer = |piece: usize, kind: u32| {
            let last = unit.steps.iter().rposition(|step| usize::from(step.piece) == piece);
            let Some(step) = last.map(|last| unit.steps[last]) else { return NONE };
            let Place { module, address, symbol, .. } = place(step.pc);
            let behind = step.pc + u64::from(step.len);
            self.transfers.push(Transfer { module, address, pc: step.pc, behind, symbol, kind });
            self.transfers.len() as u32 - 1
        };
        let exits = unit
            .exits
            .iter()
            .map(|exit| match exit.kind.into() {
                kind @ (CALL | INDIRECT_CALL | RETURN | JUMP | INDIRECT_JUMP | BRANCH | STRAY | GUESS
                | KERNEL | REBASED) => transfer(exit.piece.into(), kind),
                _ => NONE,
            })
            .collect();
        let mut within = Vec::new();
        for (step, turn, _) in unit.turns() {
            // Where the piece before ends, not where it begins.
            let before = usize::from(unit.steps[step - 1].piece);
            let (from, to) = (pieces[before], pieces[usize::from(unit.steps[step].piece)]);
            let (way, kind) = match turn {
                Turn::Call => (Way::Call, CALL),
                Turn::Return => (Way::Return, RETURN),
                Turn::On if to.is_start && to.symbol != from.symbol => (Way::Tail, JUMP),
                Turn::On => continue,
            };
            within.push(Within { step: step as u32, way, transfer: transfer(before, kind), to });
        }
        let nowhere = Place { module: NONE, address: 0, pc: 0, symbol: NONE, is_start: false };
        Described { entry: pieces.first().copied().unwrap_or(nowhere), within: within.into(), exits }
    }

    /// What a unit is left by at an exit.
    pub(super) fn transfer(&self, (unit, exit): (u32, u32)) -> Option<&Transfer> {
        let number = self.units.get(unit as usize)?.exits.get(exit as usize)?;
        self.transfers.get(*number as usize)
    }

    /// Whether a thread that leaves a unit by a call of the kernel, or the like, goes on at an address.
    pub(super) fn goes_on_at(&self, from: (u32, u32), pc: u64) -> bool {
        self.transfer(from).is_some_and(|from| matches!(from.kind, KERNEL | REBASED) && from.behind == pc)
    }

    /// What it means that a unit is entered from an exit of another, and where that is.
    pub(super) fn way(&self, (unit, exit): (u32, u32), to: u32) -> Option<(Way, u32)> {
        let &number = self.units.get(unit as usize)?.exits.get(exit as usize)?;
        let (from, to) = (self.transfers.get(number as usize)?, self.units.get(to as usize)?.entry);
        let way = match from.kind {
            CALL | INDIRECT_CALL => Way::Call,
            RETURN => Way::Return,
            KERNEL | REBASED => return None,
            _ if to.is_start && to.symbol != from.symbol => Way::Tail,
            INDIRECT_JUMP | GUESS if to.symbol != NONE && to.symbol != from.symbol => Way::Jump,
            _ => return None,
        };
        Some((way, number))
    }
}
