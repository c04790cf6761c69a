//! A program that restricts its own system calls (seccomp) restricts the engine's too, and would be ended for what the
//! engine does. So it is let go before it does that.

use crate::execute::{Request, ask};
use crate::kernel_calls::{arguments, number};
use crate::message::say;
use crate::process::PROCESS;
use crate::thread::Thread;
use crate::thread::register::RAX;
use relive_abi::engine::WILL_RESTRICT;
use relive_abi::kernel::{self, EINVAL, Errno};

/// Whether the call that the program is about to make is such a restriction, and not a question whether there is one.
pub fn is_asked(thread: &Thread) -> bool {
    const PR_SET_SECCOMP: usize = 22;
    const STRICT: usize = 0;
    const FILTER: usize = 1;
    let [a, b, c, ..] = arguments(thread);
    // The kernel looks at no more than half of the number.
    match u64::from(thread.context.registers[RAX] as u32) {
        // Here, modes are numbered from 1.
        number::PRCTL => a == PR_SET_SECCOMP && (b == STRICT + 1 || b == FILTER + 1 && c != 0),
        number::SECCOMP => a == STRICT && b == 0 && c == 0 || a == FILTER && c != 0,
        _ => false,
    }
}

/// Asks for this process to be let go. If that is not possible, the call fails as if the kernel did not have it: neither
/// a process that dies for no reason it could know nor one that believes to be restricted is any better.
pub fn ask_to_go() -> Result<(), Errno> {
    let arena = PROCESS.take().as_ref().map(|process| process.arena);
    if arena.is_some_and(|arena| ask(arena, &Request { what: WILL_RESTRICT, log: 0, mask: 0 }).is_some()) {
        return Ok(());
    }
    say(format_args!(
        "relive: process {} must not restrict its system calls (seccomp), as the engine needs them",
        kernel::getpid()
    ));
    Err(EINVAL)
}
