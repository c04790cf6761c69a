//! Which functions call which, in order and one in the other.
//!
//! A function is in the scope of the one that called it, until it returns. One that another ends with, by a jump to its beginning, is in
//! the scope of that one. A return that leads to where no call would, or a computed jump into the middle of another function (`longjmp`, exceptions),
//! leaves all functions up to that one: of a function that is there several times, up to the last time. Handlers of signals are told apart, as they come at any
//! time.
//!
//! Only functions with names are known to be jumped to. Others are if they are called.

pub(crate) mod stacks;
mod table;
mod thread;

pub use table::{Functions, Where};

use crate::{Analysis, Code, Locate, Segment};
use relive_sequence::builder::Stack;
use relive_sequence::model::NONE;
use relive_sequence::{Builder, Kind, Origin, Sequence, Site};
use relive_trace::visit::{Event, Ran, Visitor};
use std::collections::BTreeMap;
use std::sync::Arc;
use table::{Place, Symbols, Table, Transfer};
use thread::{Keep, Thread};

/// A call of the kernel that goes on where a signal came: `rt_sigreturn`.
const RETURN_FROM_HANDLER: u64 = 15;

/// The question.
pub struct Calls {
    tables: BTreeMap<u32, Arc<Table>>,
    making: Making,
    /// In the order in which they began.
    threads: Vec<((u32, u32), Thread<Stack>)>,
    numbers: BTreeMap<(u32, u32), usize>,
}

/// The sequence that is being made, and what functions and modules are in it.
struct Making {
    builder: Builder,
    symbols: Symbols,
    /// By module of the trace.
    modules: Vec<u32>,
    /// By symbol.
    functions: Vec<u32>,
}

/// Where a thread comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum From {
    /// What came before the segment.
    #[default]
    Before,
    /// The middle of a unit, before this address; it makes no difference.
    Middle(u64),
    /// An exit of a unit.
    Exit(u32, u32),
    /// Outside: a thread begins, or a handler, or what it has interrupted goes on.
    Outside,
}

/// What a segment tells.
pub struct Part {
    table: Arc<Table>,
    told: Vec<Told>,
    from: From,
}

/// Something that matters.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// A unit is entered, in one of the ways that matter.
    Entered { from: From, unit: u32 },
    /// Another function begins in the middle of a unit: which of those.
    Within { unit: u32, number: u32 },
    /// The thread goes on from outside at an address; it came from there.
    State(From, u64),
    /// A handler is over.
    HandlerEnds,
    /// Somebody wants to know the calls that the thread is in now.
    Marked(u32),
}

impl Visitor for Part {
    fn ran(&mut self, ran: &Ran<'_>) {
        let unit = ran.unit.number;
        if ran.from == 0 {
            let matters = match self.from {
                From::Before | From::Outside => true,
                From::Middle(_) => false,
                From::Exit(from, exit) => self.table.way((from, exit), unit).is_some(),
            };
            if matters {
                self.told.push(Told::Entered { from: self.from, unit });
            }
        }
        if let Some(described) = self.table.units.get(unit as usize) {
            for (number, within) in (0..).zip(&described.within) {
                if ran.has_come_to(within.step as usize) {
                    self.told.push(Told::Within { unit, number });
                }
            }
        }
        let next = || ran.unit.steps.get(ran.steps).map_or(0, |step| step.pc);
        self.from = ran.exit.map_or_else(|| From::Middle(next()), |exit| From::Exit(unit, exit as u32));
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::State(state) => {
                self.told.push(Told::State(self.from, state.pc));
                self.from = From::Outside;
            }
            Event::Call { number: RETURN_FROM_HANDLER, .. } => self.told.push(Told::HandlerEnds),
            _ => {}
        }
    }
}

impl Calls {
    /// Asks for all calls of processes, which have this code and these functions.
    #[must_use]
    pub fn new(processes: impl Iterator<Item = u32>, code: &dyn Code, functions: &dyn Functions) -> Self {
        let mut symbols = Symbols::default();
        let table =
            |process| (process, Table::new(process, code.units(process), functions, &mut symbols).into());
        let tables = processes.map(table).collect();
        let mut builder = Builder::default();
        let modules = functions.modules().iter().map(|module| builder.module(module)).collect();
        let functions = vec![NONE; symbols.all.len()];
        let making = Making { builder, symbols, modules, functions };
        Self { tables, making, threads: Vec::new(), numbers: BTreeMap::new() }
    }

    /// What a function of a module calls is not written down.
    pub fn exempt(&mut self, module: u32, address: u64, name: Option<&str>) {
        let function = self.making.builder.function(self.making.module(module), address, name);
        self.making.builder.exempt(function);
    }
}

impl Making {
    fn module(&self, module: u32) -> u32 {
        self.modules.get(module as usize).copied().unwrap_or(NONE)
    }
}

/// All that functions call is written down.
impl Keep<Stack> for Making {
    type Function = u32;

    fn function(&mut self, at: Place) -> u32 {
        let module = self.module(at.module);
        let Some(symbol) = self.symbols.all.get(at.symbol as usize) else {
            return self.builder.function(module, at.address, None);
        };
        let number = &mut self.functions[at.symbol as usize];
        if *number == NONE {
            *number = self.builder.function(module, symbol.start, Some(&symbol.name));
        }
        *number
    }

    fn find(&self, stack: &Stack, function: u32) -> Option<usize> {
        stack.functions().rposition(|of| of == function)
    }

    fn depth(&self, stack: &Stack) -> usize {
        stack.depth()
    }

    fn enter(&mut self, stack: &mut Stack, kind: Kind, from: Option<&Transfer>, function: u32) {
        let (module, address) = from.map_or((NONE, 0), |from| (self.module(from.module), from.address));
        let site = self.builder.site(Site { module, address, kind });
        self.builder.enter(stack, site, function, Origin::Measured);
    }

    fn leave(&mut self, stack: &mut Stack) {
        self.builder.leave(stack);
    }

    fn append(&mut self, to: &mut Stack, other: Stack) {
        self.builder.append(to, other);
    }
}

impl Analysis for Calls {
    type Part = Part;
    type Report = Sequence;

    fn wants_memory(&self) -> bool {
        false
    }

    fn part(&self, segment: &Segment) -> Part {
        let table = self.tables.get(&segment.process).cloned().unwrap_or_default();
        Part { table, told: Vec::new(), from: From::Before }
    }

    fn combine(&mut self, segment: &Segment, part: Part) {
        let key = (segment.process, segment.thread);
        let number = *self.numbers.entry(key).or_insert(self.threads.len());
        if number == self.threads.len() {
            self.threads.push((key, Thread::default()));
        }
        let thread = &mut self.threads[number].1;
        for told in part.told {
            thread.take(told, &part.table, &mut self.making);
        }
        if part.from != From::Before {
            thread.from = part.from;
        }
    }

    fn finish(mut self, _: &dyn Code, _: &dyn Locate) -> Sequence {
        for ((process, number), thread) in self.threads {
            let (calls, handlers) = thread.finish(&mut self.making);
            self.making.builder.thread(process, number, calls, handlers);
        }
        self.making.builder.finish()
    }
}
