//! The part of each thread that is wanted.

use super::buffer::Buffer;
use super::thread::{Known, Stage};
use super::{Nobody, Traced};
use crate::process::Process;
use crate::replay::{Raw, Replay, Wrong};
use crate::units::{Unit, Words};
use relive_abi::trace::{Tag, stopped_values, tag_of};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tells whether a unit is a place that is looked for.
pub type IsPlace = dyn Fn(&Process, &Unit) -> bool + Send + Sync;

/// Where something begins or ends, in each thread.
#[derive(Clone)]
pub enum Point {
    /// Behind so many instructions, where the thread next comes to the beginning of a unit.
    Instructions(u64),
    /// Where a unit is executed that is such a place.
    Place(Arc<IsPlace>),
}

/// From where to where each thread is recorded.
#[derive(Clone, Default)]
pub struct Window {
    /// Where it begins, if not at once.
    pub start: Option<Point>,
    /// Where it ends, if it does.
    pub stop: Option<Point>,
}

impl Window {
    /// Whether it is everything.
    pub(super) fn is_all(&self) -> bool {
        self.start.is_none() && self.stop.is_none()
    }
}

/// Which units are places that are looked for, by process and number.
#[derive(Default)]
pub(super) struct Places(Mutex<HashMap<(u32, u32), bool>>);

impl Places {
    fn is_place(&self, is_place: &IsPlace, process: &Process, unit: &Unit) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry((process.number, unit.number)).or_insert_with(|| is_place(process, unit))
    }
}

/// A window, and what was found out about places.
#[derive(Default)]
pub(super) struct Cutter {
    pub(super) window: Window,
    starts: Places,
    stops: Places,
}

impl Cutter {
    pub(super) fn new(window: Window) -> Self {
        Self { window, ..Self::default() }
    }

    /// The part of what a thread has written down that is wanted. What is known becomes that at its start.
    pub(super) fn cut(
        &self,
        known: &mut Known,
        traced: &Traced,
        mut records: Vec<Buffer>,
    ) -> Result<Vec<Buffer>, Wrong> {
        if known.stage == Stage::Before
            && let Some(start) = &self.window.start
        {
            let mut replay = Replay::on(known.machine.take());
            let found = find(start, &self.starts, traced, &records, &mut known.instructions, &mut replay)?;
            known.machine = replay.machine;
            let Some((buffer, at)) = found else { return Ok(Vec::new()) };
            records.drain(..buffer);
            records[0].skip(at);
        }
        if known.stage == Stage::After {
            return Ok(Vec::new());
        }
        known.stage = Stage::In;
        if let Some(stop) = &self.window.stop {
            let (mut replay, mut instructions) = (Replay::on(known.machine.clone()), known.instructions);
            let found = find(stop, &self.stops, traced, &records, &mut instructions, &mut replay)?;
            if let Some((buffer, at)) = found {
                records.truncate(buffer + 1);
                records[buffer].truncate(at);
                known.stage = Stage::After;
            }
        }
        Ok(records)
    }
}

/// Where a point is: in which buffer, and where there. Everything before it is executed, and counted.
fn find(
    point: &Point,
    places: &Places,
    traced: &Traced,
    records: &[Buffer],
    instructions: &mut u64,
    replay: &mut Replay,
) -> Result<Option<(usize, usize)>, Wrong> {
    let Traced { process, shapes } = traced;
    for (buffer, bytes) in records.iter().enumerate() {
        let mut at = 0;
        while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
            let tag = tag_of(u32::from_le_bytes(*word));
            if tag == 0 {
                break;
            }
            let end = at + size_of::<Tag>() + shapes.len_behind(tag, process.units.is_of_memory())?;
            let record = bytes.get(at..end).ok_or(Wrong::CutShort)?;
            match process.units.find(tag) {
                Some((unit, exit)) => {
                    let is_there = match point {
                        Point::Instructions(count) => *instructions >= *count,
                        Point::Place(is_place) => places.is_place(&**is_place, process, unit),
                    };
                    if is_there {
                        return Ok(Some((buffer, at)));
                    }
                    *instructions += u64::from(unit.exits[exit].steps);
                }
                None => {
                    if let Some(values) = stopped_values(tag) {
                        let stop = Words(&record[size_of::<Tag>() + usize::from(values) * 8..]).stop();
                        let stop = stop.ok_or(Wrong::CutShort)?;
                        *instructions += process.units.steps_before(&stop) as u64;
                    }
                }
            }
            replay.run(&process.units, &mut Raw::new(record), &mut Nobody)?;
            at = end;
        }
    }
    Ok(None)
}
