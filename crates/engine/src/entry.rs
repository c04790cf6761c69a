//! The ways between the cache and the engine, in assembly.

use crate::returns::{FACTOR, SHIFT, Slot, Table};
use crate::thread::{Context, Thread};
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_abi::kernel::Errno;

macro_rules! thread {
    ($field:ident) => {
        offset_of!(Thread, $field)
    };
}

/// Instructions that load the program's state from the thread's memory.
macro_rules! restore_state {
    () => {
        concat!(
            "mov rdi, gs:[{this}]\n",
            "lea rbx, [rdi + {v}]\n",
            "movaps xmm0, [rbx + 16*0]\n",
            "movaps xmm1, [rbx + 16*1]\n",
            "movaps xmm2, [rbx + 16*2]\n",
            "movaps xmm3, [rbx + 16*3]\n",
            "movaps xmm4, [rbx + 16*4]\n",
            "movaps xmm5, [rbx + 16*5]\n",
            "movaps xmm6, [rbx + 16*6]\n",
            "movaps xmm7, [rbx + 16*7]\n",
            "movaps xmm8, [rbx + 16*8]\n",
            "movaps xmm9, [rbx + 16*9]\n",
            "movaps xmm10, [rbx + 16*10]\n",
            "movaps xmm11, [rbx + 16*11]\n",
            "movaps xmm12, [rbx + 16*12]\n",
            "movaps xmm13, [rbx + 16*13]\n",
            "movaps xmm14, [rbx + 16*14]\n",
            "movaps xmm15, [rbx + 16*15]\n",
            "mov rax, gs:[{r} + 8*0]\n",
            "mov rcx, gs:[{r} + 8*1]\n",
            "mov rdx, gs:[{r} + 8*2]\n",
            "mov rbx, gs:[{r} + 8*3]\n",
            "mov rbp, gs:[{r} + 8*5]\n",
            "mov rsi, gs:[{r} + 8*6]\n",
            "mov rdi, gs:[{r} + 8*7]\n",
            "mov r8, gs:[{r} + 8*8]\n",
            "mov r9, gs:[{r} + 8*9]\n",
            "mov r10, gs:[{r} + 8*10]\n",
            "mov r11, gs:[{r} + 8*11]\n",
            "mov r12, gs:[{r} + 8*12]\n",
            "mov r13, gs:[{r} + 8*13]\n",
            "mov r14, gs:[{r} + 8*14]\n",
            "mov r15, gs:[{r} + 8*15]\n",
            "push qword ptr gs:[{flags}]\n",
            "popfq\n",
            "mov rsp, gs:[{r} + 8*4]\n",
        )
    };
}

const REGISTERS: usize = offset_of!(Thread, context) + offset_of!(Context, registers);
const FLAGS: usize = offset_of!(Thread, context) + offset_of!(Context, rflags);
const VECTORS: usize = offset_of!(Thread, context) + offset_of!(Context, vectors);

/// Into the engine: saves the program's state, asks [`crate::dispatch::dispatch`] where to go on, and goes there.
/// All registers are the program's, `exit` says why it comes.
///
/// # Safety
/// Jumped to by code in the cache only.
#[unsafe(naked)]
pub unsafe extern "C" fn enter() {
    naked_asm!(
        "mov gs:[{r} + 8*4], rsp",
        "mov rsp, gs:[{stack}]",
        "mov dword ptr gs:[{inside}], 1",
        "pushfq",
        "pop qword ptr gs:[{flags}]",
        // Whatever the program has set: direction, checks of alignment.
        "push 0x202",
        "popfq",
        "mov gs:[{r} + 8*0], rax",
        "mov gs:[{r} + 8*1], rcx",
        "mov gs:[{r} + 8*2], rdx",
        "mov gs:[{r} + 8*3], rbx",
        "mov gs:[{r} + 8*5], rbp",
        "mov gs:[{r} + 8*6], rsi",
        "mov gs:[{r} + 8*7], rdi",
        "mov gs:[{r} + 8*8], r8",
        "mov gs:[{r} + 8*9], r9",
        "mov gs:[{r} + 8*10], r10",
        "mov gs:[{r} + 8*11], r11",
        "mov gs:[{r} + 8*12], r12",
        "mov gs:[{r} + 8*13], r13",
        "mov gs:[{r} + 8*14], r14",
        "mov gs:[{r} + 8*15], r15",
        "mov rdi, gs:[{this}]",
        "lea rbx, [rdi + {v}]",
        "movaps [rbx + 16*0], xmm0",
        "movaps [rbx + 16*1], xmm1",
        "movaps [rbx + 16*2], xmm2",
        "movaps [rbx + 16*3], xmm3",
        "movaps [rbx + 16*4], xmm4",
        "movaps [rbx + 16*5], xmm5",
        "movaps [rbx + 16*6], xmm6",
        "movaps [rbx + 16*7], xmm7",
        "movaps [rbx + 16*8], xmm8",
        "movaps [rbx + 16*9], xmm9",
        "movaps [rbx + 16*10], xmm10",
        "movaps [rbx + 16*11], xmm11",
        "movaps [rbx + 16*12], xmm12",
        "movaps [rbx + 16*13], xmm13",
        "movaps [rbx + 16*14], xmm14",
        "movaps [rbx + 16*15], xmm15",
        "call {dispatch}",
        "mov gs:[{resume}], rax",
        "jmp {leave}",
        "ud2",
        r = const REGISTERS,
        flags = const FLAGS,
        v = const VECTORS,
        stack = const thread!(stack),
        inside = const thread!(inside),
        this = const thread!(this),
        resume = const thread!(resume),
        dispatch = sym crate::dispatch::dispatch,
        leave = sym leave,
    )
}

/// Back into the cache, to `resume`.
///
/// # Safety
/// `gs` points to a thread with a state to restore.
#[unsafe(naked)]
pub unsafe extern "C" fn leave() {
    naked_asm!(
        "cmp dword ptr gs:[{masked}], 0",
        ".globl relive_past_the_check",
        "relive_past_the_check:",
        "jne {with_signal}",
        restore_state!(),
        "mov dword ptr gs:[{inside}], 0",
        "jmp gs:[{resume}]",
        ".globl relive_left",
        "relive_left:",
        r = const REGISTERS,
        flags = const FLAGS,
        v = const VECTORS,
        inside = const thread!(inside),
        masked = const thread!(masked),
        this = const thread!(this),
        resume = const thread!(resume),
        with_signal = sym leave_with_signal,
    )
}

/// The same when a signal waits: traps when everything is restored.
///
/// # Safety
/// As above.
#[unsafe(naked)]
pub unsafe extern "C" fn leave_with_signal() {
    naked_asm!(
        restore_state!(),
        "mov dword ptr gs:[{inside}], 0",
        "int3",
        "ud2",
        r = const REGISTERS,
        flags = const FLAGS,
        v = const VECTORS,
        inside = const thread!(inside),
        this = const thread!(this),
    )
}

/// Traps with everything restored.
///
/// # Safety
/// A signal waits.
#[unsafe(naked)]
pub unsafe extern "C" fn raise() {
    naked_asm!("int3", "ud2")
}

/// Asks the kernel on behalf of the program, unless a signal has been put aside: that comes first, and the call has to be
/// made again ([`AGAIN`]). The same if a signal comes so early that the call has not begun, or has to begin again.
pub fn call(number: u64, arguments: &[usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the program's own business.
    let result = unsafe { call_unless_signal(number, arguments) };
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// The call was not made: a signal is first. A number that programs never see.
pub const AGAIN: Errno = Errno(512);

#[unsafe(naked)]
unsafe extern "C" fn call_unless_signal(number: u64, arguments: &[usize; 6]) -> isize {
    naked_asm!(
        "mov rax, rdi",
        "mov rcx, rsi",
        "mov rdi, [rcx]",
        "mov rsi, [rcx + 8]",
        "mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]",
        "mov r8, [rcx + 32]",
        "mov r9, [rcx + 40]",
        ".globl relive_call",
        "relive_call:",
        "cmp dword ptr gs:[{masked}], 0",
        "jne relive_not_called",
        "syscall",
        ".globl relive_called",
        "relive_called:",
        "ret",
        ".globl relive_not_called",
        "relive_not_called:",
        "mov rax, -{again}",
        "ret",
        masked = const thread!(masked),
        again = const AGAIN.0,
    )
}

/// Where a thread is in a call for the program, if it is in one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The kernel has not done anything yet.
    Before,
    /// The kernel has just answered.
    After,
}

/// Whether an address is in [`call`], where a signal makes a difference.
pub fn in_call(at: u64) -> Option<Call> {
    let (start, end) = (&raw const relive_call as u64, &raw const relive_called as u64);
    match at {
        at if (start..end).contains(&at) => Some(Call::Before),
        at if at == end => Some(Call::After),
        _ => None,
    }
}

/// Where [`call`] goes on if the call is not to be made.
pub fn not_called() -> u64 {
    &raw const relive_not_called as u64
}

unsafe extern "C" {
    static relive_past_the_check: u8;
    static relive_left: u8;
    static relive_call: u8;
    static relive_called: u8;
    static relive_not_called: u8;
    static relive_looked_up: u8;
}

/// Where the engine itself is: its first and last address.
static OWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Notes where the engine is.
pub fn set_own(start: u64, end: u64) {
    OWN[0].store(start, Ordering::Relaxed);
    OWN[1].store(end, Ordering::Relaxed);
}

/// Where the engine is.
pub fn own() -> (u64, u64) {
    (OWN[0].load(Ordering::Relaxed), OWN[1].load(Ordering::Relaxed))
}

/// Whether an address is the engine's own code.
pub fn is_engine(at: u64) -> bool {
    (OWN[0].load(Ordering::Relaxed)..OWN[1].load(Ordering::Relaxed)).contains(&at)
}

/// What an address of the engine is in its file.
pub fn in_engine(at: u64) -> u64 {
    at.wrapping_sub(OWN[0].load(Ordering::Relaxed))
}

/// Whether an address is in [`unknown_return`]: in the engine, but on the way back to the cache.
pub fn is_look_up(at: u64) -> bool {
    let (start, end) = (unknown_return as *const () as u64, &raw const relive_looked_up as u64);
    (start..end).contains(&at)
}

/// Whether it is too late for [`leave`] to notice a signal that has been put aside.
pub fn is_past_the_check(at: u64) -> bool {
    let (start, end) = (&raw const relive_past_the_check as u64, &raw const relive_left as u64);
    (start..end).contains(&at)
}

/// Into the engine with a target in `rcx`, the program's own being spilled.
///
/// # Safety
/// Jumped to by code in the cache only.
#[unsafe(naked)]
pub unsafe extern "C" fn enter_indirect() {
    naked_asm!(
        "mov gs:[{target}], rcx",
        "mov rcx, gs:[{rcx}]",
        "jmp {enter}",
        target = const thread!(target),
        rcx = const thread!(rcx),
        enter = sym enter,
    )
}

/// A return whose place in the thread's table is empty, or somebody else's: looks into the table of all returns. The
/// target is in the thread's memory, `rcx` is spilled.
///
/// # Safety
/// Jumped to by code in the cache only.
#[unsafe(naked)]
pub unsafe extern "C" fn unknown_return() {
    naked_asm!(
        "mov gs:[{rax}], rax",
        "mov rcx, gs:[{target}]",
        "mov gs:[{rdx}], rdx",
        "lahf",
        "seto al",
        "mov gs:[{flags}], rax",
        "imul rdx, rcx, {factor}",
        "shr rdx, {shift}",
        "mov rax, gs:[{table}]",
        "mov rax, [rax]",
        "and rdx, [rax + {mask}]",
        "add rdx, rax",
        "cmp [rdx + {slots} + {key}], rcx",
        "jne 3f",
        "mov rax, [rdx + {slots} + {landing}]",
        "cmp [rdx + {slots} + {key}], rcx",
        "jne 3f",
        "sub qword ptr gs:[{patience}], 1",
        "jz 3f",
        // The next time, the thread finds it at once.
        "and rcx, gs:[{which}]",
        "mov gs:[{returns} + rcx*8], rax",
        "mov gs:[{resume}], rax",
        "mov rax, gs:[{flags}]",
        "add al, 127",
        "sahf",
        "mov rdx, gs:[{rdx}]",
        "mov rax, gs:[{rax}]",
        "jmp gs:[{resume}]",
        "3:",
        "mov rax, gs:[{flags}]",
        "add al, 127",
        "sahf",
        "mov rdx, gs:[{rdx}]",
        "mov rax, gs:[{rax}]",
        "mov dword ptr gs:[{exit}], {none}",
        "jmp {indirect}",
        ".globl relive_looked_up",
        "relive_looked_up:",
        rax = const thread!(rax),
        rdx = const thread!(rdx),
        flags = const thread!(flags),
        exit = const thread!(exit),
        resume = const thread!(resume),
        target = const thread!(target),
        returns = const thread!(returns),
        table = const thread!(all_returns),
        patience = const thread!(patience),
        which = const thread!(returns_mask),
        slots = const offset_of!(Table, slots),
        key = const offset_of!(Slot, key),
        landing = const offset_of!(Slot, landing),
        mask = const offset_of!(Table, mask),
        factor = const FACTOR,
        shift = const SHIFT,
        none = const crate::dispatch::RETURN_EXIT,
        indirect = sym enter_indirect,
    )
}
