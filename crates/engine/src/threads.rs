//! Threads and processes begin and end.

use crate::cache::By;
use crate::entry;
use crate::frame::{SignalInfo, SignalStack};
use crate::kernel_calls::{self, arguments, number};
use crate::limits;
use crate::log::Log;
use crate::masks;
use crate::process::{PROCESS, Process};
use crate::program_memory;
use crate::record;
use crate::room;
use crate::signals::{self, Handlers};
use crate::thread::register::{R11, RAX, RCX, RSP};
use crate::thread::{self, KERNEL_CALLS, RETURNS, Thread, offset};
use alloc::boxed::Box;
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use relive_abi::PAGE;
use relive_abi::engine as abi;
use relive_abi::kernel::{
    self, EINVAL, Errno, MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, PROT_RW,
};

const STACK_LEN: u64 = 256 << 10;
/// Of the engine's signal handler, with room for the largest state a processor may have.
const SIGNAL_STACK_LEN: u64 = 64 << 10;

/// Memory for a thread: its stack in the engine, then its own words, then counters in the arena.
pub fn allocate(process: &mut Process) -> Result<&'static mut Thread, Errno> {
    let at = crate::zone::map(SIGNAL_STACK_LEN + STACK_LEN + thread::len())?;
    let this = at + SIGNAL_STACK_LEN + STACK_LEN;
    let returns = (this + u64::from(offset::RETURNS)) & !(PAGE - 1);
    // All of it will be filled.
    crate::zone::populate(returns, (RETURNS * size_of::<u64>()) as u64);
    // SAFETY: fresh memory of the right size, all zero, which is a valid thread.
    let thread = unsafe { &mut *(this as *mut Thread) };
    thread.this = this;
    thread.is_apart = process.is_apart;
    map_counters(process, thread)?;
    record::begin(process, thread)?;
    thread.stack = this;
    thread.inside = 1;
    thread.enter = entry::enter as *const () as u64;
    thread.enter_indirect = entry::enter_indirect as *const () as u64;
    thread.wrong_landing = entry::unknown_return as *const () as u64;
    process.threads.push(this);
    thread.engine_stack = SignalStack::new(at, SIGNAL_STACK_LEN);
    thread.signal_stack = SignalStack::NONE;
    kernel_calls::watch(&mut thread.kernel_calls);
    process.cache.guard.add(thread);
    thread.generation = thread::NO_GENERATION;
    thread.pass(&process.cache);
    Ok(thread)
}

/// Puts fresh counters behind a thread's words.
fn map_counters(process: &Process, thread: &Thread) -> Result<(), Errno> {
    let (arena, to) = (process.arena, thread.this + u64::from(offset::COUNTERS));
    let (len, pid) = (limits::counters(), kernel::getpid());
    let chunk =
        if thread.is_apart { None } else { room::take(arena, abi::COUNTERS, process.number, pid, len) };
    let Some(chunk) = chunk else {
        // It counts for nobody.
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        // SAFETY: as below.
        unsafe { kernel::mmap(to, len, PROT_RW, flags, -1, 0) }?;
        kernel::keep_out_of_cores(to, len);
        return Ok(());
    };
    // SAFETY: what is there belongs to the thread and holds nothing, or counters of the parent process.
    unsafe { limits::share(arena, chunk, len, Some(to)) }?;
    Ok(())
}

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
const CLONE_THREAD: u64 = 0x1_0000;
const SIGCHLD: u64 = 17;

/// What is asked of `clone3`, as far as it matters here.
#[repr(C)]
#[derive(Clone, Copy)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_len: u64,
    rest: [u64; 4],
}

/// A new thread or process, by any of the four calls.
pub fn begin(thread: &mut Thread) -> Result<usize, Errno> {
    let mut call = [0; 6];
    call.copy_from_slice(&arguments(thread));
    let mut number = thread.context.registers[RAX];
    let mut copy = CloneArguments {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: 0,
        stack: 0,
        stack_len: 0,
        rest: [0; 4],
    };
    let (flags, stack) = match number {
        number::FORK => (SIGCHLD, 0),
        number::VFORK => (CLONE_VM | CLONE_VFORK | SIGCHLD, 0),
        number::CLONE => (call[0] as u64, call[1] as u64),
        _ => {
            let len = call[1].min(size_of::<CloneArguments>());
            if len < 64 {
                return Err(EINVAL);
            }
            program_memory::read_into(call[0], &mut copy, len)?;
            (copy.flags, if copy.stack == 0 { 0 } else { copy.stack + copy.stack_len })
        }
    };
    if matches!(number, number::FORK | number::VFORK) {
        number = number::CLONE;
        call = [flags as usize, 0, 0, 0, 0, 0];
    }
    let shares = flags & CLONE_VM != 0;
    // A child that shares nothing uses the engine's stack first, and then the one that was asked for.
    if number == number::CLONE3 {
        if !shares {
            (copy.stack, copy.stack_len) = (0, 0);
        }
        call[0] = (&raw const copy).expose_provenance();
    } else if !shares {
        call[1] = 0;
    }
    if shares { share(thread, number, call, stack, flags) } else { fork(thread, number, call, stack, flags) }
}

/// A process of its own, a copy of this one.
fn fork(thread: &mut Thread, number: u64, call: [usize; 6], stack: u64, flags: u64) -> Result<usize, Errno> {
    // Held over the call, so that the copy is in order.
    let mut guard = PROCESS.take();
    let process = guard.as_mut().ok_or(EINVAL)?;
    // Whoever reads logs knows by this how many may still come that refer to this one.
    let children = |n: u32| process.log.head().map(|head| head.children.fetch_add(n, Ordering::Relaxed));
    children(1);
    // Before the call: the parent may write on before the child gets to it, and what comes then is not the child's.
    let written = process.log.written();
    let mask = kernel::block_signals();
    // SAFETY: the child returns here too, on a copy of this stack.
    let child = unsafe { kernel::call6(number as usize, call) };
    if child == Ok(0) {
        // What has been put aside is the parent's.
        thread.put_aside = SignalInfo::NONE;
        thread.held.fill(SignalInfo::NONE);
        if flags & CLONE_CLEAR_SIGHAND != 0 {
            thread.handlers = without_handlers(thread);
            signals::watch();
        }
        kernel::restore_signals(if thread.is_masked() { thread.mask } else { mask });
        thread.masked = 0;
        if stack != 0 {
            thread.context.registers[RSP] = stack;
        }
        become_process(process, thread, written);
    } else {
        if child.is_err() {
            children(1u32.wrapping_neg());
        }
        kernel::restore_signals(mask);
    }
    child
}

/// In the child of a fork: what it counts is its own from now on. The parent's log was that long.
fn become_process(process: &mut Process, thread: &mut Thread, written: u64) {
    process.pid = kernel::getpid();
    process.is_apart = process.arena.options & abi::ALONE != 0;
    let log = if process.is_apart {
        None
    } else {
        process.number = process.arena.processes.fetch_add(1, Ordering::Relaxed);
        Log::new(process.arena, process.number, process.pid)
    };
    let parent = core::mem::replace(&mut process.log, log.unwrap_or_else(Log::nowhere));
    // Counters go on meaning what they meant in the parent.
    process.log.write(abi::PARENT, &[&parent.offset().to_le_bytes(), &written.to_le_bytes()]);
    parent.give_back();
    thread.is_apart = process.is_apart;
    thread.tid = kernel::gettid();
    thread.interrupted.forget();
    process.ended.clear();
    process.threads.retain(|&other| other == thread.this);
    let _ = map_counters(process, thread);
    let _ = record::begin(process, thread);
    thread.sign();
}

/// A thread, or a process that uses the same memory for a while.
fn share(thread: &mut Thread, number: u64, call: [usize; 6], stack: u64, flags: u64) -> Result<usize, Errno> {
    let (child, counter) = {
        let mut guard = PROCESS.take();
        let process = guard.as_mut().ok_or(EINVAL)?;
        let gone = |t: &Thread| t.tid == 0 || !kernel::thread_exists(t.tid);
        let child = match process.ended.iter().position(|t| gone(t)) {
            Some(ended) => process.ended.swap_remove(ended),
            None => allocate(process)?,
        };
        let is_apart =
            process.is_apart || flags & CLONE_THREAD == 0 && process.arena.options & abi::ALONE != 0;
        if core::mem::replace(&mut child.is_apart, is_apart) != is_apart {
            map_counters(process, child)?;
        }
        child.context = thread.context;
        child.context.registers[RAX] = 0;
        child.context.registers[RCX] = thread.context.pc;
        child.context.registers[R11] = thread.context.rflags;
        if stack != 0 {
            child.context.registers[RSP] = stack;
        }
        child.tid = 0;
        child.pass(&process.cache);
        let Process { cache, maps, log, .. } = process;
        let entered = cache.enter(thread.context.pc, By::OUTSIDE, maps, log);
        child.resume = child.arrive(&entered);
        child.inside = 1;
        child.put_aside = SignalInfo::NONE;
        child.held.fill(SignalInfo::NONE);
        child.hidden = thread.hidden;
        (child.gs_base, child.gs_selector) = (thread.gs_base, thread.gs_selector);
        child.has_no_handlers = u32::from(flags & CLONE_CLEAR_SIGHAND != 0);
        child.is_lent = u32::from(flags & CLONE_VFORK != 0);
        child.wait = masks::NO_WAIT;
        child.interrupted.forget();
        child.masked = 0;
        child.rseq = [0; 3];
        child.signal_stack = SignalStack::NONE;
        child.handlers = if flags & CLONE_SIGHAND != 0 {
            thread.handlers
        } else if flags & CLONE_CLEAR_SIGHAND != 0 {
            without_handlers(thread)
        } else {
            // SAFETY: a thread's handlers live as long as it does; the lock is held.
            let copy = unsafe { (*(thread.handlers as *const Handlers)).clone() };
            Box::into_raw(Box::new(copy)).expose_provenance() as u64
        };
        child.context.pc = thread.context.pc;
        (child, entered.counter)
    };
    let mask = kernel::block_signals();
    child.mask = if thread.is_masked() { thread.mask } else { mask };
    // SAFETY: the child has memory of its own for all that the engine needs.
    let result = unsafe { clone(number, &call, child.this) };
    kernel::restore_signals(mask);
    if (-4095..0).contains(&result) {
        if let Some(process) = PROCESS.take().as_mut() {
            if let Some(counter) = counter {
                child.count_back(counter);
            }
            child.is_over();
            process.ended.push(child);
        }
        return Err(Errno(-result as i32));
    }
    if flags & CLONE_VFORK != 0 {
        // Its owner has a program of its own by now, or is gone.
        child.is_over();
        child.tid = 0;
        if let Some(process) = PROCESS.take().as_mut() {
            if child.handlers != thread.handlers {
                // SAFETY: made for this child above, which is the only one to use them.
                drop(unsafe { Box::from_raw(child.handlers as *mut Handlers) });
            }
            process.ended.push(child);
        }
    }
    Ok(result as usize)
}

/// A copy of a thread's handlers for a child that begins without.
fn without_handlers(thread: &Thread) -> u64 {
    // SAFETY: a thread's handlers live as long as it does; the lock is held.
    let copy = unsafe { (*(thread.handlers as *const Handlers)).clone() };
    Box::into_raw(Box::new(copy.without_handlers())).expose_provenance() as u64
}

/// The number is kept where the kernel cannot: the thread has not started yet when its parent goes on.
unsafe extern "C" fn begun(thread: &mut Thread) {
    thread.tid = kernel::gettid();
    thread.sign();
    thread.write_context();
    thread.put_in();
    signals::use_own_stack(thread);
    if thread.has_no_handlers != 0 {
        signals::watch();
    }
    kernel::restore_signals(thread.mask);
}

/// Asks for a child that shares this memory. Returns in the parent only; the child goes to `resume` of its thread.
///
/// # Safety
/// The call must be one that makes a child with `CLONE_VM`, and the thread must be ready to run.
#[unsafe(naked)]
unsafe extern "C" fn clone(number: u64, arguments: &[usize; 6], child: u64) -> isize {
    naked_asm!(
        "push rbx",
        "mov rbx, rdx",
        "mov rax, rdi",
        "mov rcx, rsi",
        "mov rdi, [rcx]",
        "mov rsi, [rcx + 8]",
        "mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]",
        "mov r8, [rcx + 32]",
        "mov r9, [rcx + 40]",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "pop rbx",
        "ret",
        // The child.
        "2:",
        "mov rsp, [rbx + {stack}]",
        "mov rsi, rbx",
        "mov edi, 0x1001", // ARCH_SET_GS
        "mov eax, 158",
        "syscall",
        "mov rdi, rbx",
        "call {begun}",
        "jmp {leave}",
        stack = const offset_of!(Thread, stack),
        begun = sym begun,
        leave = sym entry::leave,
    )
}

/// A process ends itself, unless this is a child that only borrows its memory.
pub fn end_process() {
    if let Some(process) = PROCESS.take().as_ref()
        && let Some(head) = process.log.head()
        && process.is_own()
    {
        head.state.store(abi::ENDS, Ordering::Release);
    }
}

/// A thread ends itself. Comes back if a signal is first.
pub fn end(thread: &mut Thread) -> Result<usize, Errno> {
    // From here on, signals for the process are for the other threads.
    let mask = kernel::block_signals();
    if thread.is_masked() {
        kernel::restore_signals(mask);
        return Err(entry::AGAIN);
    }
    thread.hand_over();
    let this = thread.this;
    let code = arguments(thread)[0];
    if thread.is_lent == 0
        && let Some(process) = PROCESS.take().as_mut()
    {
        // SAFETY: nobody else has it. It is given to another thread when the kernel says that this one is gone.
        let over = unsafe { &mut *(this as *mut Thread) };
        over.is_over();
        process.ended.push(over);
    }
    // SAFETY: does not come back.
    let _ = unsafe { kernel::call6(number::EXIT as usize, [code, 0, 0, 0, 0, 0]) };
    kernel::abort()
}

const _: () = assert!(KERNEL_CALLS == 1 << 16 && RETURNS == 1 << 16, "as the code in the cache takes them");
