//! What threads have done, from what they write down.

use crate::history::{Called, History, Referred};
use relive_launch::collect::News;
use relive_launch::{Ended, Options, Trace};
use relive_trace::recording::Plan;
use relive_trace::visit::{Event, Ran, Reference, Visitor};
use relive_trace::{About, Layout, Recording};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

/// How a program is traced, without its addresses changing from run to run.
fn options(program: &Path, args: &[&str], memory: bool) -> Options {
    let mut command: Vec<OsString> = ["setarch", "-R"].into_iter().map(Into::into).collect();
    command.push(program.into());
    command.extend(args.iter().map(OsString::from));
    let trace = Some(Trace { memory, order: memory });
    let (count, time, follow, verify) = (false, false, true, false);
    Options { command, count, time, follow, verify, cache_len: 1 << 30, trace, exempt: Vec::new() }
}

/// Runs a program and everything it starts: how it ended, and what each thread has done, in the order of processes and threads.
pub(crate) fn traced(program: &Path, args: &[&str], memory: bool) -> (Ended, Vec<History>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("trace");
    let ended = record(&path, &options(program, args, memory));
    let trace = relive_trace::Trace::open(&path).expect("a trace");
    let mut threads: BTreeMap<(u32, u32), Seen> = BTreeMap::new();
    for segment in trace.segments() {
        let seen = threads.entry((segment.process, segment.thread)).or_default();
        trace.replay(segment, seen).expect("a segment");
    }
    // The first process has started the program.
    let threads = threads.into_iter().filter(|((process, _), _)| *process > 0);
    (ended, threads.map(|(_, seen)| seen.history).collect())
}

/// Makes a file of what a program does; how it ended.
fn record(path: &Path, options: &Options) -> Ended {
    let trace = options.trace.expect("what to write down");
    let layout = Layout::of_this_processor(relive_launch::processor::enabled_state());
    let about = About { memory: trace.memory, order: trace.order, layout, ..About::default() };
    let file = Some(File::create(path).expect("a file"));
    let mut recording = Recording::new(&about, Plan { file, ..Plan::default() });
    let mut sink = |news: News<'_>| match news {
        News::Process { number, pid, parent } => recording.process(number, pid, parent),
        News::Log { process, kind, body, end } => recording.log(process, kind, body, end),
        News::Written { process, tid, bytes } => recording.records(process, tid, bytes),
        News::Ended { process, tid } => recording.ended(process, tid),
        News::Over { process } => recording.over(process),
        News::Gone { process } => recording.gone(process),
        News::Time => {}
    };
    let done = relive_launch::trace(options, &mut |_, _| {}, &mut sink).expect("it runs");
    let recorded = recording.finish();
    recorded.written.expect("a file");
    assert!(recorded.summary.wrong.is_none(), "{:?}", recorded.summary.wrong);
    done.ended
}

/// What is told of a thread.
#[derive(Default)]
struct Seen {
    /// Where it goes on, if that is known.
    next: Option<u64>,
    history: History,
}

impl Visitor for Seen {
    fn ran(&mut self, ran: &Ran<'_>) {
        let (unit, history) = (ran.unit, &mut self.history);
        let start = unit.pieces[0].0;
        if ran.from == 0 {
            assert!(self.next.is_none_or(|next| next == start), "{:x?} at {:x?}", self.next, unit.pieces);
        }
        self.next = ran.exit.map(|exit| unit.exits[exit].to).filter(|&to| to != 0);
        history.pcs.extend(unit.steps[ran.from..ran.steps].iter().map(|step| step.pc));
        history.references.extend(ran.references.iter().map(|reference| {
            let &Reference { address, size, kind, step, .. } = reference;
            Referred { pc: unit.steps[usize::from(step)].pc, address, size, kind }
        }));
        history.times.extend(ran.stamps.iter().map(|stamp| [stamp.before, stamp.after]));
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::State(state) => self.next = Some(state.pc),
            Event::Call { number, arguments, .. } => {
                self.history.calls.push(Called { number, arguments, result: None });
            }
            Event::Result { value, .. } => {
                self.history.calls.last_mut().expect("a call before its result").result = Some(value);
            }
            Event::NotCalled => {
                self.next = self.history.pcs.pop();
                self.history.calls.pop();
            }
        }
    }
}
