//! Several calls of the kernel in a row from inside a program, without a stop at each: a few instructions, and a list of
//! calls behind them.

use crate::Error;
use crate::tracee::Tracee;
use libc::user_regs_struct;
use relive_abi::PAGE;
use std::arch::global_asm;

/// Stands for the descriptor that the last `open` has given.
pub(crate) const OPENED: u64 = -2i64 as u64;
/// Stands for the address of the text that comes with the calls; what is added to it, for a place in the text.
pub(crate) const TEXT: u64 = -1i64 as u64 - PAGE;

/// A call: its number, arguments, and what it has to answer; 0 if anything but an error is right.
type Call = [u64; 8];

// The list is at `rbx`, its last call at `rbp`: that stops the process, and is made again if it has gone on.
global_asm!(
    ".section .rodata.relive_calls, \"a\", @progbits",
    "relive_calls:",
    "2: mov rax, [rbx]",
    "mov rdi, [rbx + 8]",
    "mov rsi, [rbx + 16]",
    "mov rdx, [rbx + 24]",
    "mov r10, [rbx + 32]",
    "mov r8, [rbx + 40]",
    "mov r9, [rbx + 48]",
    "cmp rdi, {opened}",
    "cmove rdi, r12",
    "cmp r8, {opened}",
    "cmove r8, r12",
    "syscall",
    "relive_called_one:",
    "cmp rax, -4095",
    "jae 4f",
    "mov rcx, [rbx + 56]",
    "test rcx, rcx",
    "je 3f",
    "cmp rax, rcx",
    "jne 4f",
    "3: cmp dword ptr [rbx], {open}",
    "cmove r12, rax",
    // What is closed is not open any more.
    "mov rcx, -1",
    "cmp dword ptr [rbx], {close}",
    "cmove r12, rcx",
    "cmp rbx, rbp",
    "je 2b",
    "add rbx, 64",
    "jmp 2b",
    "4: mov r13, rax",
    "mov r14, rbx",
    "mov rbx, rbp",
    "jmp 2b",
    "relive_calls_end:",
    ".previous",
    opened = const OPENED as i64,
    open = const libc::SYS_open,
    close = const libc::SYS_close,
);

unsafe extern "C" {
    static relive_calls: u8;
    static relive_called_one: u8;
    static relive_calls_end: u8;
}

/// A call that went wrong.
pub(crate) struct Failed {
    /// Which of them.
    pub(crate) call: usize,
    /// The descriptor that is open then.
    pub(crate) opened: Option<u64>,
}

/// Makes calls in a program that stands at the end of `execve`, and leaves it as it was, but for its registers.
pub(crate) fn make(
    tracee: &Tracee,
    before: &user_regs_struct,
    calls: &[Call],
    text: &[u8],
) -> Result<Result<(), Failed>, Error> {
    let start = &raw const relive_calls;
    let len = &raw const relive_calls_end as usize - start as usize;
    let stops_at = &raw const relive_called_one as u64 - start as u64;
    // SAFETY: as far as the labels say.
    let code = unsafe { std::slice::from_raw_parts(start, len) };
    let tid = tracee.tid as u64;
    let stop = [libc::SYS_tgkill as u64, tid, tid, libc::SIGSTOP as u64, 0, 0, 0, 0];

    // Where its first instruction is, there is a page to be executed.
    let at = before.rip & !(PAGE - 1);
    let list = at + len.next_multiple_of(8) as u64;
    let last = list + size_of_val(calls) as u64;
    let text_at = last + size_of_val(&stop) as u64;
    let mut bytes = code.to_vec();
    bytes.resize((list - at) as usize, 0);
    for &word in calls.iter().chain([&stop]).flatten() {
        let in_text = word.wrapping_sub(TEXT);
        bytes.extend(if in_text < text.len() as u64 { text_at + in_text } else { word }.to_le_bytes());
    }
    bytes.extend(text);
    assert!(bytes.len() <= PAGE as usize);

    let covered = tracee.read_some(at, bytes.len())?;
    tracee.write(at, &bytes)?;
    let inside = user_regs_struct {
        rip: at,
        rbx: list,
        rbp: last,
        r12: u64::MAX,
        r13: 0,
        orig_rax: u64::MAX,
        ..*before
    };
    tracee.set_registers(&inside)?;
    let stopped = tracee.go_to_own_stop(at + stops_at);
    tracee.write(at, &covered)?;
    let after = stopped?;
    Ok(match after.r13 {
        0 => Ok(()),
        _ => Err(Failed {
            call: (after.r14 - list) as usize / size_of::<Call>(),
            opened: Some(after.r12).filter(|&fd| fd != u64::MAX),
        }),
    })
}
