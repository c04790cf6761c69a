//! What the engine does for whoever holds threads still from outside: takes over a program that has been running
//! without it, and leaves it again.
//!
//! A visit is a call on a stack of its own, with everything blocked, by a thread that knows nothing of it: whoever
//! holds the thread puts its state back afterwards. Only one thread at a time is visited.

use crate::boot;
use crate::cache::By;
use crate::entry;
use crate::masks;
use crate::process::{PROCESS, Process};
use crate::program_memory;
use crate::rseq;
use crate::signals::{self, Handlers, NEEDED};
use crate::thread::Thread;
use crate::threads;
use alloc::boxed::Box;
use core::arch::naked_asm;
use relive_abi::engine::{
    ADOPT, BUSY, CLOSE, DONE, FAILED, GIVE_UP, LOCATE, RELEASE, STEP, VISIT_OVER, Visit,
};
use relive_abi::kernel::{self, EINVAL, Errno};

/// A call of the kernel, as programs make it.
const CALL: [u8; 2] = [0x0f, 0x05];
const CALL_LEN: u64 = CALL.len() as u64;

/// Where a visit begins.
///
/// # Safety
/// `rdi` points to what is asked.
#[unsafe(naked)]
pub unsafe extern "C" fn start(visit: &mut Visit) -> ! {
    naked_asm!(
        "xor ebp, ebp",
        "call {serve}",
        "mov eax, {over}",
        "syscall",
        "ud2",
        serve = sym serve,
        over = const VISIT_OVER,
    )
}

unsafe extern "C" fn serve(visit: &mut Visit) {
    visit.answer = match visit.what {
        ADOPT => adopt(visit).map_or(FAILED, |()| DONE),
        LOCATE => locate(visit),
        RELEASE => release(visit),
        CLOSE => close(visit),
        _ => FAILED,
    };
}

/// A thread's own memory.
fn thread(at: u64) -> &'static mut Thread {
    // SAFETY: whoever visits has the address from the thread itself, and holds it still.
    unsafe { &mut *(at as *mut Thread) }
}

fn adopt(visit: &mut Visit) -> Result<(), Errno> {
    let mut guard = PROCESS.take();
    if guard.is_none() {
        // SAFETY: whoever visits has mapped both.
        *guard = Some(unsafe { boot::settle(visit.arena, visit.mapped, visit.engine, visit.engine_end) });
    }
    let process = guard.as_mut().ok_or(EINVAL)?;
    process.is_adopted = true;
    let new = threads::allocate(process)?;
    let pc = if visit.in_call != 0 {
        let Process { cache, maps, log, .. } = process;
        cache.behind_call(visit.pc - CALL_LEN, maps, log).ok_or(EINVAL)?
    } else {
        process.go_on(new, visit.pc, By::OUTSIDE)
    };
    new.tid = kernel::gettid();
    [new.gs_base, new.gs_selector] = visit.gs;
    new.inside = 0;
    new.handlers = match visit.thread {
        0 => Box::into_raw(Box::new(Handlers::inherited())).expose_provenance() as u64,
        other => thread(other).handlers,
    };
    new.signal_stack = signals::exchange_stack(new.engine_stack);
    rseq::suspend(new, visit.rseq);
    new.hidden = visit.mask & NEEDED;
    (visit.thread, visit.pc, visit.mask) = (new.this, pc, visit.mask & !NEEDED);
    Ok(())
}

fn locate(visit: &mut Visit) -> u64 {
    let thread = thread(visit.thread);
    if entry::in_call(visit.pc).is_some() {
        return give_up(thread, visit);
    }
    if entry::is_engine(visit.pc) || thread.inside != 0 || thread.put_aside.number != 0 {
        return BUSY;
    }
    let mut guard = PROCESS.take();
    let Some(Process { cache, maps, log, .. }) = guard.as_mut() else { return FAILED };
    if !cache.contains(visit.pc) {
        return DONE;
    }
    if cache.is_waiting(visit.pc) {
        visit.pc = thread.context.pc;
        return DONE;
    }
    match cache.place(visit.pc, maps) {
        Some((unit, mark)) if mark.is_whole(visit.pc) => {
            // What has been executed of the unit is all there will be.
            thread.interrupted.leave((unit, &mark), mark.pc, log);
            visit.pc = mark.pc;
            DONE
        }
        _ => STEP,
    }
}

/// The engine waits for the kernel on behalf of the program, which could take forever. Nothing is held over such a call,
/// and nothing has come of it: the program makes it itself when the engine is gone.
fn give_up(thread: &mut Thread, visit: &mut Visit) -> u64 {
    let call = thread.context.pc - CALL_LEN;
    if thread.is_masked() || program_memory::read::<[u8; 2]>(call as usize) != Ok(CALL) {
        return BUSY;
    }
    let mut guard = PROCESS.take();
    let Some(process) = guard.as_mut() else { return FAILED };
    thread.pass(&process.cache);
    thread.resume = process.cache.wait_at(call);
    thread.context.pc = call;
    thread.wait = masks::NO_WAIT;
    visit.pc = entry::leave as *const () as u64;
    GIVE_UP
}

fn release(visit: &mut Visit) -> u64 {
    let thread = thread(visit.thread);
    signals::exchange_stack(thread.signal_stack);
    rseq::resume(thread);
    visit.gs = [thread.gs_base, thread.gs_selector];
    visit.mask |= core::mem::take(&mut thread.hidden);
    signals::give_back_held(thread);
    DONE
}

fn close(visit: &mut Visit) -> u64 {
    let mut guard = PROCESS.take();
    let Some(process) = guard.as_mut() else { return FAILED };
    // SAFETY: a thread's handlers live as long as it does; all threads are held.
    unsafe { (*(thread(visit.thread).handlers as *const Handlers)).put_back() };
    process.cache.guard.open_all();
    process.cache.unmap(&mut process.maps);
    DONE
}
