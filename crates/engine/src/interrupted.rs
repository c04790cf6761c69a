//! What signals have interrupted: a handler that returns goes on exactly there, and one that does not leaves a unit
//! behind of which only a part was executed.

use crate::cache::{Cache, UnitId};
use crate::log::{self, Log};
use crate::translate::{Exit, Mark, Pen, Progress, Spilled};
use relive_abi::engine as abi;

/// Handlers that can be at work in a thread at the same time, with the way back remembered. More only means that the
/// rest goes on in another unit.
const MOST: usize = 16;

/// The places, the latest last.
#[repr(C)]
pub struct Interrupted {
    all: [Place; MOST],
    len: u32,
    /// Records of the log that do not hold any more and can be used again.
    free: [u64; MOST],
    free_len: u32,
}

/// An interrupted place.
#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    /// In the cache.
    at: u64,
    /// In the program.
    pc: u64,
    /// The program's stack pointer.
    stack: u64,
    unit: UnitId,
    /// Where in the log it says so; 0 if nothing has to.
    record: u64,
}

impl Interrupted {
    /// Remembers a place, `mark` being what the cache says of it. If it is not come back to, the unit has been executed
    /// up to `cut`.
    pub fn push(&mut self, at: u64, stack: u64, (unit, mark): (UnitId, &Mark), cut: u64, log: &mut Log) {
        let record = if mark.progress.is_over() { 0 } else { self.write(unit, mark, cut, log) };
        if self.len as usize == MOST {
            // The oldest handler will hardly come back.
            self.all.copy_within(1.., 0);
            self.len -= 1;
        }
        self.all[self.len as usize] = Place { at, pc: mark.pc, stack, unit, record };
        self.len += 1;
    }

    /// Notes that a unit is left for good.
    pub fn leave(&mut self, (unit, mark): (UnitId, &Mark), cut: u64, log: &mut Log) {
        if !mark.progress.is_over() {
            self.write(unit, mark, cut, log);
        }
    }

    /// The same, before the instruction of an exit.
    pub fn leave_at(&mut self, unit: UnitId, exit: &Exit, log: &mut Log) {
        let mark = Mark {
            at: 0,
            pc: exit.from,
            spilled: Spilled::default(),
            piece: exit.piece.into(),
            progress: Progress::Counted,
            pen: Pen::BETWEEN,
        };
        self.write(unit, &mark, exit.from, log);
    }

    fn write(&mut self, unit: UnitId, mark: &Mark, pc: u64, log: &mut Log) -> u64 {
        let counted = u32::from(mark.progress == Progress::Counted);
        let record = abi::Interruption { holds: 1, unit: unit.record, piece: mark.piece, counted, pc };
        if let Some(last) = self.free_len.checked_sub(1) {
            self.free_len = last;
            let at = self.free[last as usize];
            // SAFETY: written by this thread before, in the log.
            unsafe { *(at as *mut abi::Interruption) = record };
            return at;
        }
        log.write(abi::INTERRUPTION, &[log::bytes(&record)]).unwrap_or(0)
    }

    /// Where in the cache to go on for a handler that returns to a place of the program, if that is where it came
    /// from.
    pub fn pop(&mut self, pc: u64, stack: u64, cache: &Cache) -> Option<u64> {
        let found = self.all[..self.len as usize].iter().rposition(|p| p.pc == pc && p.stack == stack)?;
        let place = self.all[found];
        // Those after it have been left for good.
        self.len = found as u32;
        if !cache.is_valid(place.unit) {
            return None;
        }
        if place.record != 0 {
            // SAFETY: written by this thread, in the log.
            unsafe { (*(place.record as *mut abi::Interruption)).holds = 0 };
            if (self.free_len as usize) < MOST {
                self.free[self.free_len as usize] = place.record;
                self.free_len += 1;
            }
        }
        Some(place.at)
    }

    /// In the child of a fork: the records are the parent's.
    pub fn forget(&mut self) {
        self.len = 0;
        self.free_len = 0;
    }
}
