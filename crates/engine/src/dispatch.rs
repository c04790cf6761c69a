//! What to do when code in the cache does not know the way.

use crate::cache::{By, Entered};
use crate::flow::Source;
use crate::habit::LATEST;
use crate::process::{PROCESS, Process};
use crate::restrict;
use crate::thread::register::RAX;
use crate::thread::{Thread, offset};
use crate::translate::{Exit, HOT, Source as _};
use crate::{kernel_calls, kernel_calls_32, kernel_writes};
use core::sync::atomic::{AtomicBool, Ordering};
use relive_abi::engine as abi;
use relive_abi::kernel;
use relive_abi::trace::BY_INTERRUPT;

/// The exit of all returns that find nothing in the table.
pub const RETURN_EXIT: u32 = u32::MAX;

/// Finds out why the engine was entered, does what is needed and says where in the cache to go on.
///
/// # Safety
/// Called by [`crate::entry::enter`] only.
pub unsafe extern "C" fn dispatch(thread: &mut Thread) -> u64 {
    let start = watch();
    thread.take_out();
    let at = find(thread);
    if start != 0
        && let Some(process) = PROCESS.take().as_mut()
    {
        process.log.statistics().time += watch() - start;
    }
    thread.put_in();
    at
}

/// The time, if somebody wants to know.
fn watch() -> u64 {
    if !TIMED.load(Ordering::Relaxed) {
        return 0;
    }
    let (seconds, nanoseconds) = kernel::now();
    seconds * 1_000_000_000 + nanoseconds
}

/// Whether the time in the engine is taken.
pub static TIMED: AtomicBool = AtomicBool::new(false);

fn find(thread: &mut Thread) -> u64 {
    let mut guard = PROCESS.take();
    let process = guard.as_mut().expect("set up before the first thread runs");
    let (links, invalid) = (process.cache.links, process.cache.invalid);
    let statistics = process.log.statistics();
    statistics.entries += 1;
    (statistics.links, statistics.invalid) = (links, invalid);
    let from = thread.generation;
    process.make_room();
    let is_old = from != process.cache.generation;
    if thread.exit != RETURN_EXIT
        && let exit @ Exit { kind: HOT, .. } = process.cache.exit_of(from, thread.exit)
    {
        if !is_old {
            let counters = thread.this + u64::from(offset::counter(0));
            // SAFETY: the thread's own counters; the number is that of one that was given out.
            let counts = |number: u32| unsafe { *(counters as *const u64).add(number as usize) };
            let Process { cache, maps, log, .. } = process;
            match thread.latest(LATEST) {
                Some(words) => cache.heat_traced(exit.unit, words, maps, log),
                None => cache.heat(exit.from, &counts, maps, log),
            }
        }
        // Goes on where it was.
        return exit.stub;
    }
    thread.pass(&process.cache);
    process.has_passed |= is_old;
    if thread.exit == RETURN_EXIT {
        return process.returned(thread);
    }
    let number = thread.exit;
    let exit = process.cache.exit_of(from, number);
    match exit.kind {
        abi::INDIRECT_CALL | abi::INDIRECT_JUMP if is_old => {
            let to = thread.target;
            let Process { cache, maps, log, .. } = process;
            let counter = cache.target_of((from, number), to, maps, log);
            if let Some(counter) = counter {
                thread.count(counter);
            }
            process.go_on(thread, to, By::Source(counter.map_or(exit.source, Source::Target)))
        }
        abi::INDIRECT_CALL | abi::INDIRECT_JUMP => {
            let Process { cache, maps, log, .. } = process;
            let entered = cache.enter_by_site(number, thread.target, maps, log);
            thread.arrive(&entered)
        }
        abi::KERNEL | abi::REFUSED => {
            process.log.statistics().kernel_calls += 1;
            thread.context.pc = exit.to;
            let is_32 = process.maps.bytes(exit.from).starts_with(&kernel_calls_32::CALL);
            drop(guard);
            let asks = exit.kind == abi::KERNEL && !is_32 && !thread.is_masked();
            if asks && restrict::is_asked(thread) && restrict::ask_to_go().is_ok() {
                thread.context.pc = exit.from;
                return PROCESS.take().as_mut().expect("as before").cache.wait_at(exit.from);
            }
            let number = thread.context.registers[RAX];
            if exit.kind == abi::KERNEL {
                match is_32 {
                    true => thread.write_call(number | BY_INTERRUPT, kernel_calls_32::arguments(thread)),
                    false => thread.write_call(number, kernel_calls::arguments(thread).map(|a| a as u64)),
                }
            }
            let is_done = match exit.kind {
                abi::REFUSED => kernel_writes::again(thread),
                _ if thread.is_masked() => false,
                _ if is_32 => match kernel_calls_32::handle(thread) {
                    Some(is_done) => is_done,
                    // In the cache of today, it is asked again.
                    None if is_old => false,
                    None => return exit.stub,
                },
                _ => kernel_calls::handle(thread),
            };
            let mut guard = PROCESS.take();
            let process = guard.as_mut().expect("as before");
            if is_done {
                if !thread.is_new() {
                    thread.write_result(thread.context.registers[RAX]);
                }
                let sets_base = !is_32 && number == kernel_calls::number::ARCH_PRCTL;
                if thread.is_new() || sets_base {
                    thread.write_context();
                }
                return process.go_on(thread, thread.context.pc, By::OUTSIDE);
            }
            // A signal first, then the call again: here it was not made.
            if let Some(unit) = process.cache.unit_at(exit.stub) {
                thread.interrupted.leave_at(unit, &exit, &mut process.log);
            }
            thread.write_not_called();
            process.go_on(thread, exit.from, By::OUTSIDE)
        }
        abi::REBASED => {
            thread.context.pc = exit.to;
            thread.write_context();
            process.go_on(thread, exit.to, By::OUTSIDE)
        }
        _ if is_old => process.go_on(thread, exit.to, By::Source(exit.source)),
        _ => process.go_on(thread, exit.to, By::Exit(number)),
    }
}

impl Process {
    /// Where a thread goes on at a place of the program.
    pub fn go_on(&mut self, thread: &mut Thread, pc: u64, by: By) -> u64 {
        thread.pass(&self.cache);
        let Self { cache, maps, log, .. } = self;
        thread.arrive(&cache.enter(pc, by, maps, log))
    }

    fn returned(&mut self, thread: &mut Thread) -> u64 {
        let to = thread.target;
        let Self { cache, maps, log, .. } = self;
        match cache.enter_by_return(to, maps, log) {
            // There is no code: the processor finds out.
            None => to,
            Some(landing) => {
                thread.remember_return(to, landing.at);
                landing.body
            }
        }
    }
}

impl Thread {
    /// Counts the way it has come, if it has to.
    pub fn arrive(&self, entered: &Entered) -> u64 {
        if let Some(counter) = entered.counter {
            self.count(counter);
        }
        entered.at
    }
}
