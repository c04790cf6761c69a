//! Which functions threads call, one in the other.

use super::select::{Range, Selected};
use crate::functions::Functions;
use crate::output::field;
use anyhow::Result;
use relive_abi::engine::{CALL, INDIRECT_CALL, RETURN};
use relive_trace::Trace;
use relive_trace::process::Process;
use relive_trace::units::Turn;
use relive_trace::visit::{Event, Ran, Visitor};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

/// What a thread does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is in a function that it has not called, as far as is known.
    Begin,
    /// It is in a function that was called.
    Call,
    /// It goes on.
    On,
}

/// Where in a unit it calls and returns: the first instruction behind, and where that is.
type Turns = Arc<[(usize, Turn, u64)]>;

struct Calls<'a> {
    process: &'a Process,
    range: Range,
    thread: u32,
    functions: &'a mut Functions,
    /// By address of a function: its name.
    names: HashMap<u64, Arc<str>>,
    /// By unit: the calls and returns in it.
    turns: HashMap<u32, Turns>,
    depth: u64,
    before: u64,
    next: Next,
    out: &'a mut dyn Write,
    result: io::Result<()>,
}

impl Calls<'_> {
    /// A function is entered at some place, behind so many instructions.
    fn line(&mut self, ran: &Ran<'_>, pc: u64, before: u64) {
        if !self.range.has(before) || self.result.is_err() {
            return;
        }
        let (process, functions) = (self.process, &mut *self.functions);
        let name = self.names.entry(pc).or_insert_with(|| {
            let name = functions.name(process, ran.unit, pc);
            name.unwrap_or_else(|| format!("{pc:#x}").into())
        });
        let Self { thread, depth, .. } = self;
        let indent = "  ".repeat((*depth).min(100) as usize);
        self.result = writeln!(self.out, "{thread}\t{depth}\t{before}\t{indent}{}", field(name));
    }
}

impl Visitor for Calls<'_> {
    fn ran(&mut self, ran: &Ran<'_>) {
        if self.next != Next::On {
            self.line(ran, ran.unit.pieces[0].0, self.before);
        }
        self.next = Next::On;
        let unit = ran.unit;
        let turns = self
            .turns
            .entry(unit.number)
            .or_insert_with(|| unit.turns().filter(|(_, turn, _)| *turn != Turn::On).collect());
        for &(step, turn, pc) in &*Arc::clone(turns) {
            match turn {
                _ if !ran.has_come_to(step) => {}
                Turn::Call => {
                    self.depth += 1;
                    self.line(ran, pc, self.before + (step - ran.from) as u64);
                }
                _ => self.depth = self.depth.saturating_sub(1),
            }
        }
        self.before += (ran.steps - ran.from) as u64;
        let kind = ran.exit.map(|exit| u32::from(ran.unit.exits[exit].kind));
        match kind {
            Some(CALL | INDIRECT_CALL) => {
                self.depth += 1;
                self.next = Next::Call;
            }
            Some(RETURN) => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn event(&mut self, event: &Event) {
        if matches!(event, Event::State(_)) {
            self.next = Next::Begin;
        }
    }
}

/// Prints all calls: thread, depth, how many instructions came before, and the function.
pub(super) fn print(trace: &Trace, selected: &Selected, out: &mut dyn Write) -> Result<()> {
    let segments = selected.segments(trace);
    let mut functions = Functions::of(trace.modules());
    for of_thread in segments.chunk_by(|one, next| (one.process, one.thread) == (next.process, next.thread)) {
        let first = of_thread[0];
        let mut calls = Calls {
            process: trace.process(first.process)?,
            range: selected.range(first),
            thread: first.thread,
            functions: &mut functions,
            names: HashMap::new(),
            turns: HashMap::new(),
            depth: 0,
            before: first.first_instruction,
            next: Next::Begin,
            out,
            result: Ok(()),
        };
        for segment in of_thread {
            trace.replay_control(segment, &mut calls)?;
            std::mem::replace(&mut calls.result, Ok(()))?;
        }
    }
    Ok(())
}
