//! What registers hold, as expressions: enough to see through how compilers compute jump targets.
//!
//! A forward data-flow analysis over one function. Every value is an expression over things that are
//! not known (a register at entry, the result of some instruction, a merge of paths); equal expressions
//! have equal numbers, so that a bound proved by `cmp eax, 7; ja` is found again when a copy of `eax`
//! indexes a table, whatever registers and stack slots it went through in between.
//!
//! A full interpretation from every path would be exact and far too slow; a backward slice per jump was
//! tried in other tools and loses values that are computed before a loop and used inside it.

mod at_jump;
mod bounds;
mod expr;
mod flow;
mod operand;
mod solve;
mod state;
mod step;

pub(crate) use expr::{Expr, Origin, Val};
pub(crate) use flow::Flowing;
pub(crate) use state::{State, Strength};

use crate::isa::EffectsReader;
use crate::source::Surroundings;
use alloc::vec;
use alloc::vec::Vec;
use expr::Exprs;
use flow::incoming_edges;
use iced_x86::ConditionCode;

/// The analysis and its result.
pub(crate) struct Values<'a, S: ?Sized> {
    surroundings: &'a S,
    flow: Flowing<'a>,
    pub(crate) exprs: Exprs,
    effects: EffectsReader,
    at_start: Vec<Option<State>>,
    /// What is known at the end of each block, and the condition of its branch.
    at_end: Vec<Option<(State, Option<ConditionCode>)>>,
    /// Edges into each block, as indices: where a block's begin, and the indices.
    incoming: (Vec<u32>, Vec<u32>),
    /// Lowest stack offset whose address went into a register: slots from there on may be changed by
    /// callees and through pointers.
    escaped: i64,
    order: Vec<u32>,
}

impl<'a, S: Surroundings + ?Sized> Values<'a, S> {
    pub(crate) fn new(surroundings: &'a S, flow: Flowing<'a>) -> Self {
        let blocks = flow.blocks.len();
        let mut values = Self {
            surroundings,
            flow,
            exprs: Exprs::default(),
            effects: EffectsReader::new(),
            at_start: Vec::new(),
            at_end: Vec::new(),
            incoming: (Vec::new(), Vec::new()),
            escaped: i64::MAX,
            order: vec![0; blocks],
        };
        values.incoming = incoming_edges(&values.flow);
        values
    }
}
