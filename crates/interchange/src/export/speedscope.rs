//! speedscope's own format.
//!
//! Specification: `https://www.speedscope.app/file-format-schema.json`. Stacks of a profile are estimated and written as
//! samples with a weight; a sequence of calls is written call by call, in order, each thread a profile of its own.

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::stacks::{Frame, Stacks, frame};
use crate::surroundings::Surroundings;
use relive_profile::model::Profile;
use relive_sequence::Sequence;
use relive_sequence::model::Step;
use serde::Serialize;
use std::io::Write;

/// The format.
pub(super) struct Speedscope;

/// How many calls are written in order; of more, a viewer in a browser is not happy.
const MOST_CALLS: u64 = 1_000_000;

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: Shared<'a>,
    profiles: Vec<Profiled>,
    name: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active_profile_index: u32,
    exporter: &'static str,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<SharedFrame<'a>>,
}

#[derive(Serialize)]
struct SharedFrame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Profiled {
    #[serde(rename_all = "camelCase")]
    Sampled {
        name: String,
        unit: &'static str,
        start_value: u64,
        end_value: u64,
        samples: Vec<Vec<usize>>,
        weights: Vec<u64>,
    },
    #[serde(rename_all = "camelCase")]
    Evented { name: String, unit: &'static str, start_value: u64, end_value: u64, events: Vec<Event> },
}

#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    kind: &'static str,
    frame: usize,
    at: u64,
}

impl Exporter for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn about(&self) -> &'static str {
        "for www.speedscope.app; estimated for a profile, exact and in order for calls (.rcalls)"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let stacks = Stacks::estimated(profile, around);
        finish(&stacks.frames, &stacks.title, vec![sampled(&stacks)], out)?;
        Ok(stacks.summary(stacks.stacks.len() as u64))
    }

    fn write_calls(&self, calls: &Sequence, out: &mut dyn Write) -> Result<Summary, ExportError> {
        let count = calls.len();
        if count > MOST_CALLS {
            let stacks = Stacks::exact(calls);
            finish(&stacks.frames, &stacks.title, vec![sampled(&stacks)], out)?;
            let mut summary = stacks.summary(stacks.stacks.len() as u64);
            summary.notes.push(format!("more than {MOST_CALLS} calls: written without their order"));
            return Ok(summary);
        }
        let frames: Vec<Frame> = (0..).zip(&calls.functions).map(|(i, _)| frame(calls, i)).collect();
        let title = calls.modules.first().map_or("", |module| &module.path);
        let mut profiles = Vec::new();
        for thread in &calls.threads {
            for (list, what) in [(thread.calls, ""), (thread.handlers, ", handlers of signals")] {
                let events = events(calls, list);
                if let Some(last) = events.last() {
                    profiles.push(Profiled::Evented {
                        name: format!("thread {}{what}: calls, exact", thread.thread),
                        unit: "none",
                        start_value: 0,
                        end_value: last.at,
                        events,
                    });
                }
            }
        }
        finish(&frames, title, profiles, out)?;
        Ok(Summary { written: vec![("calls", count)], notes: Vec::new() })
    }
}

/// Each call takes one unit of time, and those in it theirs.
fn events(calls: &Sequence, list: u32) -> Vec<Event> {
    let (mut events, mut open, mut at) = (Vec::new(), Vec::new(), 0);
    for step in calls.steps(list) {
        match step {
            Step::Enter(call) => {
                let frame = calls.bodies[call.body as usize].function as usize;
                events.push(Event { kind: "O", frame, at });
                open.push(frame);
                at += 1;
            }
            Step::Leave => events.extend(open.pop().map(|frame| Event { kind: "C", frame, at })),
        }
    }
    events.extend(open.into_iter().rev().map(|frame| Event { kind: "C", frame, at }));
    events
}

fn sampled(stacks: &Stacks) -> Profiled {
    let (mut samples, mut weights) = (Vec::new(), Vec::new());
    for stack in stacks.stacks.iter().filter(|stack| stack.own > 0) {
        let mut way = vec![stack.frame];
        let mut above = stack.parent;
        while let Some(parent) = above.map(|parent| &stacks.stacks[parent]) {
            way.push(parent.frame);
            above = parent.parent;
        }
        way.reverse();
        samples.push(way);
        weights.push(stack.own);
    }
    Profiled::Sampled {
        name: format!("{}, stacks {}", stacks.unit, stacks.evidence()),
        unit: "none",
        start_value: 0,
        end_value: stacks.total(),
        samples,
        weights,
    }
}

fn finish(
    frames: &[Frame],
    name: &str,
    profiles: Vec<Profiled>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let frames = frames.iter().map(|frame| SharedFrame {
        name: &frame.name,
        file: frame
            .line
            .as_ref()
            .map(|(file, _)| &**file)
            .or(Some(&*frame.module))
            .filter(|file| !file.is_empty()),
        line: frame.line.as_ref().map(|&(_, line)| line).filter(|&line| line > 0),
    });
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        shared: Shared { frames: frames.collect() },
        profiles,
        name,
        active_profile_index: 0,
        exporter: concat!("relive ", env!("CARGO_PKG_VERSION")),
    };
    crate::json::write(&file, out)
}
