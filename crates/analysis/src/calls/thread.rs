//! The functions that a thread is in.

use super::table::{Place, Table, Transfer, Way, Within};
use super::{From, Told};
use relive_sequence::Kind;
use relive_sequence::model::NONE;

/// Who keeps what is known of the functions that a thread is in, in stacks of a kind.
pub(super) trait Keep<Stack> {
    /// What functions are told apart by.
    type Function: Copy;

    /// The function that is executed from some place on.
    fn function(&mut self, at: Place) -> Self::Function;
    /// Where in a stack a function is, the last time.
    fn find(&self, stack: &Stack, function: Self::Function) -> Option<usize>;
    /// How many functions a stack has.
    fn depth(&self, stack: &Stack) -> usize;
    /// A function is entered, from somewhere.
    fn enter(&mut self, stack: &mut Stack, kind: Kind, from: Option<&Transfer>, function: Self::Function);
    /// The last function of a stack is left.
    fn leave(&mut self, stack: &mut Stack);
    /// A handler is over, as others were before.
    fn append(&mut self, to: &mut Stack, handler: Stack);
}

/// A thread.
pub(super) struct Thread<Stack> {
    /// What it is doing, and what handlers of signals do meanwhile, the last one last.
    contexts: Vec<Context<Stack>>,
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
pub(super) struct Context<Stack> {
    pub(super) stack: Stack,
    /// Where functions of the stack return to; 0 if they were not called.
    returns: Vec<u64>,
    /// Where the thread came from when a signal led it away.
    pub(super) held: From,
}

impl<Stack: Default> Default for Thread<Stack> {
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

impl<Stack: Default> Thread<Stack> {
    pub(super) fn take(&mut self, told: Told, table: &Table, keep: &mut impl Keep<Stack>) {
        match told {
            Told::HandlerEnds => {
                self.handler_ends = true;
                return;
            }
            Told::Marked(_) => return,
            Told::State(from, pc) => self.goes_on_outside(from, pc, table, keep),
            Told::Within { unit, number } => {
                let Within { way, transfer, to, .. } = table.units[unit as usize].within[number as usize];
                self.goes(way, transfer, to, table, keep);
            }
            Told::Entered { from, unit } => {
                let from = if from == From::Before { self.from } else { from };
                self.entered(from, unit, table, keep);
            }
        }
        self.handler_ends = false;
        self.has_begun = true;
    }

    /// The thread goes on from outside.
    fn goes_on_outside(&mut self, from: From, pc: u64, table: &Table, keep: &mut impl Keep<Stack>) {
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
            self.close(keep);
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

    fn entered(&mut self, from: From, unit: u32, table: &Table, keep: &mut impl Keep<Stack>) {
        let from = match from {
            From::Outside if self.goes_on => std::mem::take(&mut self.innermost().held),
            from => from,
        };
        let goes_on = std::mem::take(&mut self.goes_on);
        let Some(described) = table.units.get(unit as usize) else { return };
        let to = described.entry;
        match from {
            From::Outside if !goes_on => self.enter(Kind::Begin, NONE, to, table, keep),
            From::Exit(from, exit) => {
                if let Some((way, transfer)) = table.way((from, exit), unit) {
                    self.goes(way, transfer, to, table, keep);
                }
            }
            _ => {}
        }
    }

    fn goes(&mut self, way: Way, transfer: u32, to: Place, table: &Table, keep: &mut impl Keep<Stack>) {
        match way {
            Way::Call => self.enter(Kind::Call, transfer, to, table, keep),
            Way::Tail => self.enter(Kind::Tail, transfer, to, table, keep),
            Way::Return => self.returns(transfer, to, table, keep),
            Way::Jump => _ = self.leave_to_function(to, keep),
        }
    }

    fn innermost(&mut self) -> &mut Context<Stack> {
        self.contexts.last_mut().expect("one at least")
    }

    /// A handler is over.
    fn close(&mut self, keep: &mut impl Keep<Stack>) {
        if let Some(context) = self.contexts.pop() {
            keep.append(&mut self.handlers, context.stack);
        }
    }

    fn enter(&mut self, kind: Kind, transfer: u32, to: Place, table: &Table, keep: &mut impl Keep<Stack>) {
        let transfer = table.transfers.get(transfer as usize);
        let function = keep.function(to);
        let behind = transfer.filter(|_| kind == Kind::Call).map_or(0, |transfer| transfer.behind);
        let context = self.innermost();
        keep.enter(&mut context.stack, kind, transfer, function);
        context.returns.push(behind);
    }

    /// A return leads somewhere.
    fn returns(&mut self, transfer: u32, to: Place, table: &Table, keep: &mut impl Keep<Stack>) {
        for number in (0..self.contexts.len()).rev() {
            if let Some(depth) = self.contexts[number].returns.iter().rposition(|&behind| behind == to.pc) {
                return self.leave_to(number, depth, keep);
            }
        }
        if self.leave_to_function(to, keep) {
            return;
        }
        // Somebody has pushed the address of a function: that is a way to jump there.
        if to.is_start && self.contexts.len() == 1 && keep.depth(&self.innermost().stack) > 0 {
            return self.enter(Kind::Tail, transfer, to, table, keep);
        }
        // To whoever was there before the recording began, or to what ends a handler.
        let outermost = self.contexts.len() - 1;
        self.leave_to(outermost, 0, keep);
    }

    /// Leaves all functions up to one; whether the thread is in that.
    fn leave_to_function(&mut self, to: Place, keep: &mut impl Keep<Stack>) -> bool {
        if to.symbol == NONE {
            return false;
        }
        let function = keep.function(to);
        for number in (0..self.contexts.len()).rev() {
            let depth = keep.find(&self.contexts[number].stack, function);
            if let Some(depth) = depth {
                self.leave_to(number, depth + 1, keep);
                return true;
            }
        }
        false
    }

    /// Leaves handlers and functions, until so many are left.
    fn leave_to(&mut self, context: usize, depth: usize, keep: &mut impl Keep<Stack>) {
        while self.contexts.len() > context + 1 {
            self.close(keep);
        }
        let innermost = self.innermost();
        while keep.depth(&innermost.stack) > depth {
            keep.leave(&mut innermost.stack);
            innermost.returns.pop();
        }
    }

    /// What it is doing, and what handlers of signals do meanwhile, the last one last.
    pub(super) fn contexts(&self) -> &[Context<Stack>] {
        &self.contexts
    }

    /// The thread is over: its calls, and those of handlers.
    pub(super) fn finish(mut self, keep: &mut impl Keep<Stack>) -> (Stack, Stack) {
        self.leave_to(0, 0, keep);
        (self.contexts.pop().map_or_else(Stack::default, |context| context.stack), self.handlers)
    }
}
