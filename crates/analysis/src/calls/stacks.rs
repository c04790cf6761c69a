//! The calls that a thread is in, at moments that somebody asks for, and nothing else of what it calls.

use super::table::{Functions, NONE, Place, Symbols, Table, Transfer};
use super::thread::{Keep, Thread};
use super::{From, Part, Told};
use crate::{Code, Segment};
use relive_sequence::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All threads.
pub(crate) struct Stacks {
    tables: BTreeMap<u32, Arc<Table>>,
    threads: BTreeMap<(u32, u32), Thread<Vec<Frame>>>,
}

/// A function that a thread is in.
#[derive(Clone, Copy)]
struct Frame {
    function: Function,
    /// The instruction that has called it; none if it was come to in another way.
    call: Option<u64>,
}

/// A function with a name, or the address of one without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Named(u32),
    At(u64),
}

struct Kept;

impl Keep<Vec<Frame>> for Kept {
    type Function = Function;

    fn function(&mut self, at: Place) -> Function {
        if at.symbol == NONE { Function::At(at.pc) } else { Function::Named(at.symbol) }
    }

    fn find(&self, stack: &Vec<Frame>, function: Function) -> Option<usize> {
        stack.iter().rposition(|frame| frame.function == function)
    }

    fn depth(&self, stack: &Vec<Frame>) -> usize {
        stack.len()
    }

    fn enter(&mut self, stack: &mut Vec<Frame>, kind: Kind, from: Option<&Transfer>, function: Function) {
        let call = from.filter(|_| kind == Kind::Call).map(|from| from.pc);
        stack.push(Frame { function, call });
    }

    fn leave(&mut self, stack: &mut Vec<Frame>) {
        stack.pop();
    }

    fn append(&mut self, _: &mut Vec<Frame>, _: Vec<Frame>) {}
}

impl Stacks {
    /// Follows threads of processes, which have this code and these functions.
    pub(crate) fn new(
        processes: impl Iterator<Item = u32>,
        code: &dyn Code,
        functions: &dyn Functions,
    ) -> Self {
        let mut symbols = Symbols::default();
        let table =
            |process| (process, Table::new(process, code.units(process), functions, &mut symbols).into());
        Self { tables: processes.map(table).collect(), threads: BTreeMap::new() }
    }

    /// A part for a segment.
    pub(crate) fn part(&self, segment: &Segment) -> Part {
        let table = self.tables.get(&segment.process).cloned().unwrap_or_default();
        Part { table, told: Vec::new(), from: From::Before }
    }

    /// Takes a part in; `taken` is told the number of every moment that was marked, and the instructions that calls were made by, the innermost first.
    pub(crate) fn combine(&mut self, segment: &Segment, part: Part, taken: &mut dyn FnMut(u32, Vec<u64>)) {
        let thread = self.threads.entry((segment.process, segment.thread)).or_default();
        for told in part.told {
            match told {
                Told::Marked(number) => taken(number, calls(thread, &part.table)),
                told => thread.take(told, &part.table, &mut Kept),
            }
        }
        if part.from != From::Before {
            thread.from = part.from;
        }
    }
}

/// The calls that a thread is in, the innermost first. Below those of a handler are those of what it has interrupted, and where.
fn calls(thread: &Thread<Vec<Frame>>, table: &Table) -> Vec<u64> {
    let mut calls = Vec::new();
    for (depth, context) in thread.contexts().iter().rev().enumerate() {
        if depth > 0 {
            calls.extend(match context.held {
                From::Middle(pc) => Some(pc),
                From::Exit(unit, exit) => table.transfer((unit, exit)).map(|from| from.pc),
                From::Before | From::Outside => None,
            });
        }
        calls.extend(context.stack.iter().rev().filter_map(|frame| frame.call));
    }
    calls
}

impl Part {
    /// How much has been told.
    pub(crate) fn told(&self) -> usize {
        self.told.len()
    }

    /// Marks a moment: before an instruction of the unit that was executed last, which was told from some number on.
    pub(crate) fn mark(&mut self, since: usize, step: u16, number: u32) {
        let is_later = |told: &Told| match *told {
            Told::Within { unit, number } => {
                self.table.units[unit as usize].within[number as usize].step > u32::from(step)
            }
            _ => false,
        };
        let at = self.told[since..].iter().position(is_later).map_or(self.told.len(), |at| since + at);
        self.told.insert(at, Told::Marked(number));
    }
}
