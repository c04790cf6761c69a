//! The functions that a thread is in.

use super::table::{Place, Table, Way};
use super::{From, Making, Told};
use relive_sequence::builder::Stack;
use relive_sequence::model::NONE;
use relive_sequence::{Builder, Kind, Origin, Site};

/// A thread.
pub(super) struct Thread {
    /// What it is doing, and what handlers of signals do meanwhile, the last one last.
    contexts: Vec<Context>,
    /// Handlers that are over.
    handlers: Stack,
    /// Where it comes from.
    pub(super) from: From,
    has_begun: bool,
    handler_ends: bool,
    /// It goes on behind a handler, from where it was.
    goes_on: bool,
}

#[derive(Default)]
struct Context {
    stack: Stack,
    /// Where functions of the stack return to; 0 if they were not called.
    returns: Vec<u64>,
    /// Where the thread came from when a signal led it away.
    held: From,
}

impl Default for Thread {
    fn default() -> Self {
        Self {
            contexts: vec![Context::default()],
            handlers: Stack::default(),
            from: From::Outside,
            has_begun: false,
            handler_ends: false,
            goes_on: false,
        }
    }
}

impl Thread {
    pub(super) fn take(&mut self, told: Told, table: &Table, making: &mut Making) {
        match told {
            Told::HandlerEnds => {
                self.handler_ends = true;
                return;
            }
            Told::State(from, pc) => self.goes_on_outside(from, pc, table, making),
            Told::Within { unit, tail } => {
                let (_, transfer, to) = table.units[unit as usize].tails[tail as usize];
                self.enter(Kind::Tail, transfer, to, table, making);
            }
            Told::Entered { from, unit } => {
                let from = if from == From::Before { self.from } else { from };
                self.entered(from, unit, table, making);
            }
        }
        self.handler_ends = false;
        self.has_begun = true;
    }

    /// The thread goes on from outside.
    fn goes_on_outside(&mut self, from: From, pc: u64, table: &Table, making: &mut Making) {
        let from = if from == From::Before { self.from } else { from };
        let is_there = match from {
            From::Exit(unit, exit) => table.goes_on_at((unit, exit), pc),
            From::Middle(next) => next == pc,
            From::Before | From::Outside => false,
        };
        if is_there && !self.handler_ends {
            // Not a signal: something else that is written down with all registers.
            self.innermost().held = From::Middle(pc);
            self.goes_on = true;
            self.from = From::Outside;
            return;
        }
        if self.handler_ends && self.contexts.len() > 1 {
            self.close(&mut making.builder);
            self.goes_on = true;
        } else if self.has_begun {
            // What is held is where the thread has come from, behind a handler too.
            let held = if self.goes_on { self.innermost().held } else { from };
            self.innermost().held = held;
            self.contexts.push(Context::default());
            self.goes_on = false;
        }
        self.from = From::Outside;
    }

    fn entered(&mut self, from: From, unit: u32, table: &Table, making: &mut Making) {
        let from = match from {
            From::Outside if self.goes_on => std::mem::take(&mut self.innermost().held),
            from => from,
        };
        let goes_on = std::mem::take(&mut self.goes_on);
        let Some(described) = table.units.get(unit as usize) else { return };
        let to = described.entry;
        match from {
            From::Outside if !goes_on => self.enter(Kind::Begin, NONE, to, table, making),
            From::Exit(from, exit) => match table.way((from, exit), unit) {
                Some((Way::Call, transfer)) => self.enter(Kind::Call, transfer, to, table, making),
                Some((Way::Tail, transfer)) => self.enter(Kind::Tail, transfer, to, table, making),
                Some((Way::Return, transfer)) => self.returns(transfer, to, table, making),
                Some((Way::Jump, _)) => _ = self.leave_to_function(to, making),
                None => {}
            },
            _ => {}
        }
    }

    fn innermost(&mut self) -> &mut Context {
        self.contexts.last_mut().expect("one at least")
    }

    /// A handler is over.
    fn close(&mut self, builder: &mut Builder) {
        if let Some(context) = self.contexts.pop() {
            builder.append(&mut self.handlers, context.stack);
        }
    }

    fn enter(&mut self, kind: Kind, transfer: u32, to: Place, table: &Table, making: &mut Making) {
        let transfer = table.transfers.get(transfer as usize);
        let site = match transfer {
            Some(transfer) => {
                Site { module: making.module(transfer.module), address: transfer.address, kind }
            }
            None => Site { module: NONE, address: 0, kind },
        };
        let site = making.builder.site(site);
        let function = making.function(to);
        let behind = transfer.filter(|_| kind == Kind::Call).map_or(0, |transfer| transfer.behind);
        let context = self.innermost();
        making.builder.enter(&mut context.stack, site, function, Origin::Measured);
        context.returns.push(behind);
    }

    /// A return leads somewhere.
    fn returns(&mut self, transfer: u32, to: Place, table: &Table, making: &mut Making) {
        for number in (0..self.contexts.len()).rev() {
            if let Some(depth) = self.contexts[number].returns.iter().rposition(|&behind| behind == to.pc) {
                return self.leave_to(number, depth, &mut making.builder);
            }
        }
        if self.leave_to_function(to, making) {
            return;
        }
        // Somebody has pushed the address of a function: that is a way to jump there.
        if to.is_start && self.contexts.len() == 1 && self.innermost().stack.depth() > 0 {
            return self.enter(Kind::Tail, transfer, to, table, making);
        }
        // To whoever was there before the recording began, or to what ends a handler.
        let outermost = self.contexts.len() - 1;
        self.leave_to(outermost, 0, &mut making.builder);
    }

    /// Leaves all functions up to one; whether the thread is in that.
    fn leave_to_function(&mut self, to: Place, making: &mut Making) -> bool {
        if to.symbol == NONE {
            return false;
        }
        let function = making.function(to);
        for number in (0..self.contexts.len()).rev() {
            let depth = self.contexts[number].stack.functions().rposition(|of| of == function);
            if let Some(depth) = depth {
                self.leave_to(number, depth + 1, &mut making.builder);
                return true;
            }
        }
        false
    }

    /// Leaves handlers and functions, until so many are left.
    fn leave_to(&mut self, context: usize, depth: usize, builder: &mut Builder) {
        while self.contexts.len() > context + 1 {
            self.close(builder);
        }
        let innermost = self.innermost();
        while innermost.stack.depth() > depth {
            builder.leave(&mut innermost.stack);
            innermost.returns.pop();
        }
    }

    /// The thread is over: its calls, and those of handlers.
    pub(super) fn finish(mut self, builder: &mut Builder) -> (Stack, Stack) {
        self.leave_to(0, 0, builder);
        (self.contexts.pop().map_or_else(Stack::default, |context| context.stack), self.handlers)
    }
}

impl Making {
    /// The function that is executed from some place on.
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
}
