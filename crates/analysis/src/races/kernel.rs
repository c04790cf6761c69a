//! Which calls of the kernel bring threads in order, and which give memory back.
//!
//! What one thread sends and another receives is in order, whichever way it takes. All files together count as one such way: that may
//! hide a race, and never makes one up.

/// `futex`.
pub(super) const FUTEX: u64 = 202;

/// What a call gives away when it begins, or takes when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Through {
    /// A word of memory.
    Word(u64),
    /// Pipes, sockets, queues: whatever can be written and read.
    Files,
    /// Signals.
    Signals,
}

/// What a call means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Meaning {
    /// It gives away.
    pub(super) gives: Option<Through>,
    /// It takes.
    pub(super) takes: Option<Through>,
    /// A thread or process begins: the one whose number is the result.
    pub(super) begins: bool,
    /// It waits until what it begins has ended or executes another program. Not set for `clone3`, which says so in memory.
    pub(super) waits: bool,
    /// The thread ends.
    pub(super) ends: bool,
    /// The process ends, or executes another program: the thread is gone, unless that fails.
    pub(super) leaves: bool,
    /// Nothing that was in this memory is there any more when it is over: from where, how much. 0 stands for where the result
    /// says.
    pub(super) forgets: Option<(u64, u64)>,
}

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const WAIT_BITSET: u64 = 9;
const WAIT_REQUEUE_PI: u64 = 11;
const LOCK_PI: u64 = 6;
const LOCK_PI2: u64 = 13;
const CLONE_VFORK: u64 = 0x4000;
/// Flags besides the operation: private, real time.
const OPERATION: u64 = 0x7f;

/// Whether a call of `futex` is about a word at its first argument, which all are that are in use.
pub(super) fn is_shared_word(arguments: &[u64; 6]) -> bool {
    arguments[0] != 0 && (arguments[1] & OPERATION) <= LOCK_PI2
}

/// What a call means.
pub(super) fn meaning(number: u64, arguments: &[u64; 6]) -> Meaning {
    let none = Meaning::default();
    let gives = |through| Meaning { gives: Some(through), ..none };
    let takes = |through| Meaning { takes: Some(through), ..none };
    match number {
        FUTEX => {
            let word = Through::Word(arguments[0]);
            match arguments[1] & OPERATION {
                WAIT | WAIT_BITSET | WAIT_REQUEUE_PI | LOCK_PI | LOCK_PI2 => takes(word),
                WAKE..=LOCK_PI2 => Meaning { gives: Some(word), takes: Some(word), ..none },
                _ => none,
            }
        }
        // clone
        56 => Meaning { begins: true, waits: arguments[0] & CLONE_VFORK != 0, ..none },
        // vfork
        58 => Meaning { begins: true, waits: true, ..none },
        // fork, clone3
        57 | 435 => Meaning { begins: true, ..none },
        // exit
        60 => Meaning { ends: true, ..none },
        // execve, execveat, exit_group
        59 | 322 | 231 => Meaning { leaves: true, ..none },
        // read, pread64, readv, recvfrom, recvmsg, accept, accept4, recvmmsg, preadv, preadv2, msgrcv, mq_timedreceive
        0 | 17 | 19 | 45 | 47 | 43 | 288 | 299 | 295 | 327 | 70 | 243 => takes(Through::Files),
        // poll, select, epoll_wait, epoll_pwait, epoll_pwait2, pselect6, ppoll
        7 | 23 | 232 | 281 | 441 | 270 | 271 => takes(Through::Files),
        // write, pwrite64, writev, sendto, sendmsg, shutdown, close, sendfile, sendmmsg, pwritev, pwritev2, splice, tee, vmsplice,
        // msgsnd, mq_timedsend
        1 | 18 | 20 | 44 | 46 | 48 | 3 | 40 | 307 | 296 | 328 | 275 | 276 | 278 | 69 | 242 => {
            gives(Through::Files)
        }
        // semop, semtimedop, io_uring_enter
        65 | 220 | 426 => Meaning { gives: Some(Through::Files), takes: Some(Through::Files), ..none },
        // kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
        62 | 200 | 234 | 129 | 297 => gives(Through::Signals),
        // pause, rt_sigtimedwait, rt_sigsuspend
        34 | 128 | 130 => takes(Through::Signals),
        // mmap: where the result says.
        9 => Meaning { forgets: Some((0, arguments[1])), ..none },
        // munmap
        11 => Meaning { forgets: Some((arguments[0], arguments[1])), ..none },
        // mremap
        25 => Meaning { forgets: Some((0, arguments[2])), ..none },
        _ => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_takes_and_waking_gives() {
        let futex = |operation| meaning(FUTEX, &[0x1000, operation, 0, 0, 0, 0]);
        let word = Some(Through::Word(0x1000));
        assert_eq!(futex(128), Meaning { takes: word, ..Meaning::default() });
        assert_eq!(futex(129).gives, word);
        assert_eq!(futex(0x189).takes, word, "FUTEX_WAIT_BITSET | PRIVATE | CLOCK_REALTIME");
        assert_eq!(meaning(9, &[0, 4096, 3, 34, 0, 0]).forgets, Some((0, 4096)));
    }
}
