//! Signals: the kernel tells the engine, and the engine tells the program, as if the program had been interrupted in
//! its own code.
//!
//! The engine's handler runs on a stack of its own with everything blocked. Where it finds the thread decides:
//!
//! * In the cache, where the state is the program's: the handler of the program is started at once.
//! * In the cache, in the middle of something the engine has added: one step further, until that is over.
//! * In the engine: the signal is put aside, everything stays blocked, and [`entry::leave`](crate::entry) raises a trap
//!   when the program's state is whole again.
//!
//! The program's blocked signals are the kernel's, so that what it blocks does not arrive here either.

use crate::boot::die;
use crate::cache::By;
use crate::entry::{self, Call};
use crate::frame::{
    DISABLED, Frame, ON_STACK, ONE_AT_A_TIME, SignalInfo, SignalStack, UserContext, extended_len,
    reset_extended,
};
use crate::kernel_writes;
use crate::masks;
use crate::message::fatal;
use crate::process::{PROCESS, Process};
use crate::program_memory;
use crate::thread::Thread;
use crate::thread::register::{RAX, RCX, RDI, RDX, RSI};
use crate::translate::{Pen, RETURNING, Source as _, is_place, skip_call};
use core::arch::{asm, naked_asm};
use relive_abi::PAGE;
use relive_abi::kernel::{self, EINTR, EINVAL, ENOMEM, EPERM, Errno};
use relive_abi::trace::{SAME_STATE, STATE, Tag};

/// How many signals there are, with the one that does not exist.
const SIGNALS: usize = 65;
const ILL: i32 = 4;
const TRAP: i32 = 5;
const FPE: i32 = 8;
const BUS: i32 = 7;
const SEGV: i32 = 11;

const RT_SIGACTION: usize = 13;
const SIGALTSTACK: usize = 131;

const SA_SIGINFO: u64 = 4;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_RESTORER: u64 = 0x0400_0000;

/// What the kernel has to know of a handler's flags: `NOCLDSTOP`, `NOCLDWAIT`, `RESTART`.
const KEPT: u64 = 1 | 2 | SA_RESTART;

/// The flag that makes the processor trap behind the next instruction.
pub const TRAP_FLAG: u64 = 1 << 8;
const DIRECTION_FLAG: u64 = 1 << 10;
const RESUME_FLAG: u64 = 1 << 16;

/// The signals by which the engine proceeds, `BUS` because of a flag of the program's ([`Thread::writes_askew`]). The kernel never blocks them, whatever the program asks for.
pub const NEEDED: u64 = 1 << (TRAP - 1) | 1 << (SEGV - 1) | 1 << (BUS - 1);
/// All others.
pub const ALL_BUT_NEEDED: u64 = !NEEDED;

/// Not a signal: what comes after this instruction is to be looked up again, as the code has changed, or the thread is to say where it is.
const CHANGED: i32 = -1;
/// An access that is not aligned, as the kernel says it.
const ASKEW: i32 = 1;
/// A fault of access, as the kernel says it.
const NO_RIGHT: i32 = 2;
/// A trap behind one instruction, as the kernel says it.
const TRACED: i32 = 2;
/// In the error code of a fault: it was a write.
const WRITE: u64 = 2;

/// Instead of a handler.
const IGNORED: u64 = 1;

/// What is to be done about a signal, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Action {
    handler: u64,
    flags: u64,
    restorer: u64,
    mask: u64,
}

impl Action {
    const DEFAULT: Self = Self { handler: 0, flags: 0, restorer: 0, mask: 0 };

    /// Whether the program has a handler.
    const fn is_handled(&self) -> bool {
        self.handler > 1
    }
}

/// What the program has asked for, signal by signal.
#[derive(Clone)]
pub struct Handlers([Action; SIGNALS]);

impl Handlers {
    /// Those the process has: of a program that has just been executed, some may be ignored. From now on the kernel
    /// tells the engine.
    pub fn inherited() -> Self {
        let mut all = [Action::DEFAULT; SIGNALS];
        for (number, action) in all.iter_mut().enumerate().skip(1) {
            // SAFETY: only writes the action.
            let _ = unsafe {
                kernel::call6(RT_SIGACTION, [number, 0, (&raw mut *action).expose_provenance(), 8, 0, 0])
            };
            if action.is_handled() {
                install(number as i32, action.flags & KEPT);
            }
        }
        watch();
        Self(all)
    }

    /// Lets the kernel tell the program again.
    pub fn put_back(&self) {
        for (number, action) in self.0.iter().enumerate().skip(1) {
            let action = (&raw const *action).expose_provenance();
            // SAFETY: only reads the action.
            let _ = unsafe { kernel::call6(RT_SIGACTION, [number, action, 0, 8, 0, 0]) };
        }
    }

    /// The same with no handler left.
    #[must_use]
    pub fn without_handlers(mut self) -> Self {
        self.0.iter_mut().filter(|action| action.is_handled()).for_each(|action| *action = Action::DEFAULT);
        self
    }
}

/// Whether the kernel tells the engine about a signal, whatever the program does about it.
fn is_watched(number: i32) -> bool {
    number > 0 && NEEDED & 1 << (number - 1) != 0
}

/// Lets the kernel tell the engine about those it needs.
pub fn watch() {
    install(TRAP, SA_RESTART);
    install(SEGV, SA_RESTART);
    install(BUS, SA_RESTART);
}

/// Lets the kernel tell the engine about a signal.
fn install(number: i32, flags: u64) {
    let action = Action {
        handler: on_signal_entry as *const () as u64,
        flags: flags | SA_SIGINFO | SA_ONSTACK | SA_RESTORER,
        restorer: restore as *const () as u64,
        mask: u64::MAX,
    };
    // SAFETY: only reads the action.
    let _ = unsafe {
        kernel::call6(RT_SIGACTION, [number as usize, (&raw const action).expose_provenance(), 0, 8, 0, 0])
    };
}

/// `rt_sigaction`.
pub fn action(thread: &mut Thread, [number, new, old, size, ..]: [usize; 6]) -> Result<usize, Errno> {
    /// Flags that this kernel may know; others read as zero.
    const FLAGS: u64 = 0xdc00_0807;
    /// Nobody blocks these two.
    const KILL_AND_STOP: u64 = 1 << 8 | 1 << 18;
    if number == 0 || number >= SIGNALS || size != 8 {
        return Err(EINVAL);
    }
    let asked = if new == 0 { None } else { Some(program_memory::read::<Action>(new)?) };
    if asked.is_some() && KILL_AND_STOP & 1 << (number - 1) != 0 {
        return Err(EINVAL);
    }
    let guard = PROCESS.take();
    // SAFETY: a thread's handlers live as long as it does; the lock is held.
    let known = unsafe { &mut (*(thread.handlers as *mut Handlers)).0[number] };
    let before = *known;
    if let Some(asked) = asked {
        if asked.is_handled() || is_watched(number as i32) {
            install(number as i32, if asked.is_handled() { asked.flags & KEPT } else { SA_RESTART });
        } else {
            // SAFETY: only reads the action.
            unsafe {
                kernel::call6(RT_SIGACTION, [number, (&raw const asked).expose_provenance(), 0, 8, 0, 0])
            }?;
        }
        *known = Action { flags: asked.flags & FLAGS, mask: asked.mask & !KILL_AND_STOP, ..asked };
    }
    drop(guard);
    if old != 0 {
        program_memory::write(old, &before)?;
    }
    Ok(0)
}

/// `sigaltstack`: the kernel keeps the engine's.
pub fn alternate_stack(thread: &mut Thread, [new, old, ..]: [usize; 6]) -> Result<usize, Errno> {
    const SMALLEST: u64 = 2048;
    let pointer = thread.context.registers[crate::thread::register::RSP];
    let mut before = thread.signal_stack;
    let is_used = before.holds(pointer);
    if is_used {
        before.flags |= ON_STACK;
    }
    if new != 0 {
        let asked = program_memory::read::<SignalStack>(new)?;
        if is_used {
            return Err(EPERM);
        }
        match asked.flags & !ONE_AT_A_TIME {
            DISABLED => thread.signal_stack = SignalStack::NONE,
            0 | ON_STACK if asked.len < SMALLEST => return Err(ENOMEM),
            0 | ON_STACK => {
                thread.signal_stack = asked;
                thread.signal_stack.flags &= ONE_AT_A_TIME;
            }
            _ => return Err(EINVAL),
        }
    }
    if old != 0 {
        program_memory::write(old, &before)?;
    }
    Ok(0)
}

/// Gives the calling thread the engine's signal stack.
pub fn use_own_stack(thread: &Thread) {
    exchange_stack(thread.engine_stack);
}

/// Gives the calling thread another signal stack, and says which it had.
pub fn exchange_stack(new: SignalStack) -> SignalStack {
    let mut old = SignalStack::NONE;
    let call = [(&raw const new).expose_provenance(), (&raw mut old).expose_provenance(), 0, 0, 0, 0];
    // SAFETY: the stack is this thread's alone.
    let _ = unsafe { kernel::call6(SIGALTSTACK, call) };
    old
}

#[unsafe(naked)]
unsafe extern "C" fn on_signal_entry() {
    naked_asm!("push 0x2", "popfq", "jmp {handler}", handler = sym on_signal)
}

#[unsafe(naked)]
unsafe extern "C" fn restore() {
    naked_asm!("mov eax, 15", "syscall", "ud2")
}

/// The thread this is.
fn current() -> &'static mut Thread {
    let this: u64;
    // SAFETY: `gs` points to the thread wherever signals are not blocked.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) this, options(nostack, preserves_flags));
        &mut *(this as *mut Thread)
    }
}

unsafe extern "C" fn on_signal(number: i32, info: &mut SignalInfo, context: &mut UserContext) {
    let thread = current();
    let is_fault = info.is_fault();
    if is_fault && number == SEGV && thread.has_filled(info.address, context) {
        if thread.put_aside.number == 0 {
            // Whoever reads the next buffer shall not need those before it.
            step(thread, SignalInfo::new(CHANGED), context);
        }
        return;
    }
    if is_fault && number == BUS && info.code == ASKEW && thread.writes_askew(context) {
        return;
    }
    if !is_fault && is_watched(number) && (thread.put_aside.number != 0 || is_hidden(thread, number)) {
        // The kernel does not block these, so that it has to be done here.
        let place = (0..number).filter(|&other| is_watched(other)).count();
        thread.held[place] = *info;
        return;
    }
    if number == TRAP && thread.put_aside.number != 0 {
        return proceed(thread, context);
    }
    let is_engine = entry::is_engine(context.rip) || thread.inside != 0;
    if is_fault && is_engine && info.code == TRACED && number == TRAP {
        // The program steps through itself; this is not a part of it.
        return;
    }
    if entry::is_look_up(context.rip) {
        return step(thread, *info, context);
    }
    if is_engine {
        if !is_fault {
            return put_aside(thread, info, context);
        }
        let Some(next) = program_memory::after_fault(context.rip) else {
            let place = entry::in_engine(context.rip);
            fatal(format_args!("signal {number} at {place:#x} of the engine, about {:#x}", info.address));
        };
        context.rip = next;
        return;
    }
    arrive(thread, *info, context);
}

/// Whether the program believes to block a signal that the engine needs.
fn is_hidden(thread: &Thread, number: i32) -> bool {
    thread.hidden & 1 << (number - 1) != 0
}

/// The engine is at work: the signal waits until it is done.
fn put_aside(thread: &mut Thread, info: &SignalInfo, context: &mut UserContext) {
    const INTERRUPTED: u64 = EINTR.0 as u64;
    thread.put_aside = *info;
    thread.mask = context.mask;
    thread.masked = 1;
    context.mask = ALL_BUT_NEEDED;
    let call = entry::in_call(context.rip);
    if call == Some(Call::Before) {
        context.rip = entry::not_called();
    }
    if thread.wait == masks::WAITS {
        // Only a handler that ends the wait runs with its mask.
        let ends = call == Some(Call::After) && *context.register(RAX) == INTERRUPTED.wrapping_neg();
        thread.wait = if ends { masks::INTERRUPTED } else { masks::NO_WAIT };
    }
    // Too late for the engine to notice: it does the last part again.
    if entry::is_past_the_check(context.rip) {
        context.rip = entry::leave_with_signal as *const () as u64;
        context.rsp = thread.stack;
    }
}

/// Lets the kernel tell once more about a signal.
fn give_back(info: &SignalInfo) {
    const RT_TGSIGQUEUEINFO: usize = 297;
    let (process, thread) = (kernel::getpid() as usize, kernel::gettid() as usize);
    let call = [process, thread, info.number as usize, (&raw const *info).expose_provenance(), 0, 0];
    // SAFETY: only reads what is said about the signal.
    let _ = unsafe { kernel::call6(RT_TGSIGQUEUEINFO, call) };
}

/// Signals that could not be told to the program, and now can.
pub fn give_back_held(thread: &mut Thread) {
    for i in 0..thread.held.len() {
        let held = thread.held[i];
        if held.number != 0 && !is_hidden(thread, held.number) {
            thread.held[i] = SignalInfo::NONE;
            give_back(&held);
        }
    }
}

/// A trap after a signal was put aside: the program's state is whole, or one step closer to that.
fn proceed(thread: &mut Thread, context: &mut UserContext) {
    if thread.masked == 0 && entry::is_look_up(context.rip) {
        return;
    }
    if thread.masked == 0 && entry::is_engine(context.rip) {
        context.rflags &= !TRAP_FLAG;
        // A step into the engine: when it is done, it will see to it.
        thread.masked = 1;
        return;
    }
    if thread.masked != 0 {
        thread.masked = 0;
        context.rip = thread.resume;
    }
    let info = end_of_step(thread, context);
    arrive(thread, info, context);
}

/// What was put aside is to be seen to now.
fn end_of_step(thread: &mut Thread, context: &mut UserContext) -> SignalInfo {
    context.rflags &= !TRAP_FLAG;
    context.mask = thread.mask;
    core::mem::replace(&mut thread.put_aside, SignalInfo::NONE)
}

/// Goes on for one instruction, and sees then.
fn step(thread: &mut Thread, info: SignalInfo, context: &mut UserContext) {
    thread.put_aside = info;
    thread.mask = context.mask;
    context.mask = ALL_BUT_NEEDED;
    context.rflags |= TRAP_FLAG;
}

/// The program writes to code. Whether that is what the fault was about.
fn is_change(
    thread: &mut Thread,
    process: &mut Process,
    info: &SignalInfo,
    context: &mut UserContext,
) -> bool {
    let Process { cache, maps, .. } = process;
    let is_write = info.number == SEGV && info.code == NO_RIGHT && context.error & WRITE != 0;
    if !is_write || !cache.guard.holds(info.address) {
        // Another thread may have been there first.
        return is_write && cache.guard.has_held(info.address);
    }
    let here = cache.place(context.rip, maps);
    let code = cache.open_page(info.address);
    if here.is_some_and(|(unit, _)| cache.is_from(unit, code, code + PAGE)) {
        // What it is about to change may be what it does next.
        step(thread, SignalInfo::new(CHANGED), context);
    }
    true
}

/// A signal while code in the cache runs, or none of the engine's.
fn arrive(thread: &mut Thread, mut info: SignalInfo, context: &mut UserContext) {
    // The instruction that was to be stepped over fails.
    let waiting = if thread.put_aside.number != 0 { end_of_step(thread, context) } else { SignalInfo::NONE };
    if waiting.number > 0 {
        give_back(&waiting);
    }
    let mut guard = PROCESS.take();
    let Some(process) = guard.as_mut() else { die(b"relive: a signal before the start\n") };
    process.log.statistics().signals += 1;
    if is_change(thread, process, &info, context) {
        if waiting.number == CHANGED && thread.put_aside.number == 0 {
            step(thread, waiting, context);
        }
        return;
    }
    let is_fault = info.is_fault();
    let is_traced = is_fault && info.number == TRAP && info.code == TRACED;
    let Process { cache, maps, log, .. } = process;
    if cache.is_waiting(context.rip) {
        // The call that led there is made again.
        context.rip = thread.context.pc;
    }
    if cache.contains(context.rip) {
        let at = context.rip;
        if info.number == SEGV
            && is_fault
            && let Some(next) = skip_call(at, *context.register(RCX))
        {
            context.rip = next;
            return;
        }
        // An instruction that fails has been executed, as far as counting goes.
        let fails = is_fault && info.number != TRAP;
        let cut = |pc: u64| match maps.insn(pc) {
            Some(insn) if fails => insn.next_addr().0,
            _ => pc,
        };
        let place = cache.place(at, maps);
        let tag = place.and_then(|(unit, _)| cache.tag_of(unit));
        match place {
            // The program steps through itself, and this is not a step of its own.
            place if is_traced && !place.is_some_and(|(_, mark)| mark.is_whole(at)) => return,
            Some((_, mark)) if is_traced && thread.has_only_written(at, mark.pc) => return,
            // The state is the program's.
            Some((unit, mark)) if mark.is_whole(at) => {
                thread.take_out_of(context, mark.pen);
                thread.write_stop(tag, &mark, context);
                if info.number == CHANGED {
                    thread.interrupted.leave((unit, &mark), mark.pc, log);
                    return go_on(thread, process, context, mark.pc, SAME_STATE);
                }
                thread.interrupted.push(at, context.rsp, (unit, &mark), cut(mark.pc), log);
                context.rip = mark.pc;
            }
            // Not quite, but the instruction is the program's.
            Some((unit, mark)) if is_fault && is_place(mark.pc) => {
                thread.interrupted.push(at, 0, (unit, &mark), cut(mark.pc), log);
                context.rip = mark.pc;
                if mark.spilled.rax {
                    *context.register(RAX) = thread.rax;
                }
                if mark.spilled.rcx {
                    *context.register(RCX) = thread.rcx;
                }
                if let Some(register) = mark.spilled.scratch {
                    *context.register(register.number()) = thread.scratch;
                }
                if let Some(register) = mark.spilled.shifted {
                    let register = context.register(register.number());
                    *register = register.wrapping_sub(thread.gs_base);
                }
                thread.take_out_of(context, mark.pen);
                thread.write_stop(tag, &mark, context);
            }
            // The place of the return address cannot be written to.
            Some((_, mark)) if is_fault && mark.pc == RETURNING => {
                context.rip = thread.wrong_landing;
                return;
            }
            _ if is_fault && info.number != TRAP => {
                fatal(format_args!("signal {} at {at:#x}, about {:#x}", info.number, info.address))
            }
            _ => return step(thread, info, context),
        }
    } else if info.number != CHANGED {
        thread.take_out_of(context, Pen::BETWEEN);
    }
    if info.number == CHANGED {
        return;
    }
    // Where it happened is told twice for these.
    if info.code > 0 && matches!(info.number, ILL | FPE | TRAP) && process.cache.contains(info.address) {
        info.address = context.rip;
    }
    deliver(thread, process, &info, context);
    give_back_held(thread);
}

/// Starts the program's handler; `context` is the program's, and becomes that of the handler.
fn deliver(thread: &mut Thread, process: &mut Process, info: &SignalInfo, context: &mut UserContext) {
    let number = info.number as usize;
    // SAFETY: a thread's handlers live as long as it does; the lock is held.
    let known = unsafe { &mut (*(thread.handlers as *mut Handlers)).0[number] };
    let action = *known;
    if !action.is_handled() {
        return without_handler(thread, process, info, context);
    }
    if action.flags & SA_RESETHAND != 0 {
        known.handler = 0;
        if !is_watched(info.number) {
            reset(info.number);
        }
    }
    if is_watched(info.number) && is_hidden(thread, info.number) {
        // Blocked, as the program sees it: the kernel ends a process for that.
        known.handler = 0;
        return without_handler(thread, process, info, context);
    }
    let own_stack = context.stack;
    let mut stack = thread.signal_stack;
    let is_used = stack.holds(context.rsp);
    let top = if action.flags & SA_ONSTACK != 0 && stack.flags & DISABLED == 0 && !is_used {
        stack.start + stack.len
    } else {
        // The program may use 128 bytes below its stack.
        context.rsp - 128
    };
    if is_used {
        stack.flags |= ON_STACK;
    }
    // SAFETY: the kernel has put it there.
    let len = unsafe { extended_len(context.extended) };
    let extended = (top - len) & !63;
    let frame = ((extended - size_of::<Frame>() as u64) & !15) - 8;
    if stack.reaches(top) && !stack.reaches(frame) {
        // No room: as if there was no memory.
        return without_handler(thread, process, &SignalInfo::new(SEGV), context);
    }
    let mut interrupted = *context;
    interrupted.stack = stack;
    interrupted.mask |= thread.hidden;
    if stack.flags & ONE_AT_A_TIME != 0 {
        thread.signal_stack = SignalStack::NONE;
    }
    // A stack may have code on it.
    process.cache.open(frame, top - frame);
    // SAFETY: the program's stack. If there is no room, this fault ends the process, as the kernel would.
    unsafe {
        core::ptr::copy_nonoverlapping(context.extended as *const u8, extended as *mut u8, len as usize);
        interrupted.extended = extended;
        *(frame as *mut Frame) = Frame { restorer: action.restorer, context: interrupted, info: *info };
        reset_extended(context.extended);
    }
    let own = if action.flags & SA_NODEFER != 0 { 0 } else { 1 << (number - 1) };
    let before = match core::mem::replace(&mut thread.wait, masks::NO_WAIT) {
        masks::INTERRUPTED => thread.waits_with,
        _ => context.mask | thread.hidden,
    };
    let blocked = before | action.mask | own;
    context.mask = blocked & !NEEDED;
    thread.hidden = blocked & NEEDED;
    context.rsp = frame;
    context.rflags &= !(TRAP_FLAG | DIRECTION_FLAG | RESUME_FLAG);
    *context.register(RAX) = 0;
    *context.register(RDI) = number as u64;
    *context.register(RSI) = frame + core::mem::offset_of!(Frame, info) as u64;
    *context.register(RDX) = frame + core::mem::offset_of!(Frame, context) as u64;
    go_on(thread, process, context, action.handler, STATE);
    context.stack = own_stack;
}

/// Goes on at a place of the program. The tag says whether this is because something has happened.
fn go_on(thread: &mut Thread, process: &mut Process, context: &mut UserContext, pc: u64, tag: Tag) {
    context.rip = process.go_on(thread, pc, By::State);
    thread.put_into(context, pc, tag);
}

/// The program does not handle it (any more).
fn without_handler(thread: &mut Thread, process: &mut Process, info: &SignalInfo, context: &mut UserContext) {
    // SAFETY: a thread's handlers live as long as it does; the lock is held.
    let handler = unsafe { (*(thread.handlers as *mut Handlers)).0[info.number as usize].handler };
    if handler != IGNORED || info.code > 0 {
        // As the kernel does it by itself, when this returns.
        reset(info.number);
        raise(info.number);
        context.mask &= !(1 << (info.number - 1));
    }
    go_on(thread, process, context, context.rip, STATE);
}

/// Sends a signal to this thread.
fn raise(number: i32) {
    const TGKILL: usize = 234;
    let call = [kernel::getpid() as usize, kernel::gettid() as usize, number as usize, 0, 0, 0];
    // SAFETY: no memory is concerned.
    let _ = unsafe { kernel::call6(TGKILL, call) };
}

/// Lets the kernel do what it does by itself.
fn reset(number: i32) {
    let action = Action::DEFAULT;
    // SAFETY: only reads the action.
    let _ = unsafe {
        kernel::call6(RT_SIGACTION, [number as usize, (&raw const action).expose_provenance(), 0, 8, 0, 0])
    };
}

/// `rt_sigreturn`: back to what was interrupted, as the program's frame says it is.
pub fn return_from_handler(thread: &mut Thread) -> ! {
    let at = thread.context.registers[crate::thread::register::RSP];
    let Ok(mut context) = program_memory::read::<UserContext>(at as usize) else {
        reset(SEGV);
        raise(SEGV);
        kernel::abort()
    };
    kernel::block_signals();
    if context.stack.flags & DISABLED != 0 || context.stack.len >= 2048 {
        thread.signal_stack = context.stack;
        thread.signal_stack.flags &= ONE_AT_A_TIME | DISABLED;
    }
    context.stack = thread.engine_stack;
    let resume = match PROCESS.take().as_mut() {
        Some(process) => match thread.interrupted.pop(context.rip, context.rsp, &process.cache) {
            // What is written down begins with whole units.
            Some(at) if !thread.is_traced() => {
                thread.pass(&process.cache);
                at
            }
            _ => process.go_on(thread, context.rip, By::OUTSIDE),
        },
        None => die(b"relive: a signal before the start\n"),
    };
    let pc = core::mem::replace(&mut context.rip, resume);
    thread.put_into(&mut context, pc, STATE);
    thread.hidden = context.mask & NEEDED;
    context.mask &= !NEEDED;
    // What is given back arrives with the mask that is restored here.
    give_back_held(thread);
    if thread.is_masked() {
        // Another signal arrived meanwhile: it is next.
        thread.mask = context.mask;
        thread.resume = resume;
        context.mask = ALL_BUT_NEEDED;
        context.rip = entry::raise as *const () as u64;
    }
    // What the program called last is not what it was about to look at the result of.
    thread.scratch = kernel_writes::NO_CALL;
    thread.inside = 0;
    // SAFETY: the kernel restores what is said here and goes there.
    unsafe {
        asm!("mov rsp, {}", "mov eax, 15", "syscall", "ud2", in(reg) &raw const context, options(noreturn));
    }
}
