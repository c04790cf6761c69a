//! A part of the profile for one thread.
//!
//! The lock of a slot belongs to an open file. A forked process opens the profile anew, but may be unable to (it
//! has another root now, or other rights): then it shares the open file of its parent, the lock does not tell
//! the two apart, and the owner's name in the slot does.

use core::sync::atomic::{AtomicU64, Ordering};

use relive_abi::PAGE;
use relive_abi::rprof::SlotHeader;

use super::facts::Facts;
use super::state::{SLOTS_MAX, State};
use super::syscall::{self, EACCES, EAGAIN, EFBIG, EINTR, EIO, ENOSYS, EOPNOTSUPP, Errno};

/// In the name of the owner: not the lock keeps others away, but the name.
const BY_NAME: u64 = 1 << 63;

/// Takes the first slot that nobody uses, and sees to it that the file has all its blocks. Returns its
/// offset in the file.
pub(crate) fn claim(facts: &Facts, state: &mut State) -> Result<u64, Errno> {
    let wiped = state.wiped().ok_or(EIO)?;
    let own = wiped.shared == 0;
    let fd = state.descriptor;
    for slot in 0..SLOTS_MAX {
        if wiped.holds(slot) {
            continue;
        }
        let at = facts.header().slots_offset + u64::from(slot) * facts.slot_len();
        match syscall::lock_byte(fd, at, true) {
            Ok(()) => {}
            Err(EAGAIN | EACCES) => continue,
            Err(error) => return Err(error),
        }
        if let Err(error) = reserve(fd, at, facts.slot_len()) {
            if own && !is_taken_by_name(fd, at) {
                let _ = syscall::lock_byte(fd, at, false);
            }
            return Err(error);
        }
        let taken = if own { !is_taken_by_name(fd, at) } else { take_by_name(fd, at) };
        if !taken {
            continue;
        }
        wiped.hold(slot);
        return Ok(at);
    }
    Err(EAGAIN)
}

/// Allocates the blocks of a part of the file: a page without one would be the program's death if the disk
/// were full when it counts there.
fn reserve(fd: i32, at: u64, len: u64) -> Result<(), Errno> {
    if at + len > syscall::limit(syscall::RLIMIT_FSIZE) {
        // Beyond the limit the file may not grow: trying to is a signal.
        let (.., size) = syscall::fstat(fd)?;
        if at + len > size {
            return Err(EFBIG);
        }
    }
    loop {
        match syscall::fallocate(fd, at, len) {
            Err(EINTR) => {}
            Err(EOPNOTSUPP | ENOSYS) => return write_over(fd, at, len),
            other => return other,
        }
    }
}

/// The same where the file system has no such call: writes what is there.
fn write_over(fd: i32, at: u64, len: u64) -> Result<(), Errno> {
    const PIECE: u64 = 1024;
    let mut place = at;
    while place < at + len {
        let mut piece = [0u8; PIECE as usize];
        syscall::pread(fd, &mut piece, place)?;
        if syscall::pwrite(fd, &piece, place)? != piece.len() {
            return Err(EIO);
        }
        place += PIECE;
    }
    Ok(())
}

/// Who owns a slot: process and thread.
pub(crate) fn owner(pid: u32, tid: u32) -> u64 {
    u64::from(pid) | u64::from(tid) << 32
}

/// Whether a process that shares the open file with this one has taken a slot by name.
fn is_taken_by_name(fd: i32, at: u64) -> bool {
    let mut word = [0u8; 8];
    let _ = syscall::pread(fd, &mut word, at);
    let owner = u64::from_le_bytes(word);
    owner & BY_NAME != 0 && owner as u32 != syscall::getpid() && syscall::process_exists(owner as u32)
}

/// Takes a slot where the lock does not tell this process from its parent.
fn take_by_name(fd: i32, at: u64) -> bool {
    // SAFETY: a new mapping replaces nothing.
    let mapped = unsafe { syscall::mmap(0, PAGE, syscall::PROT_RW, syscall::MAP_SHARED, fd, at) };
    let Ok(page) = mapped else { return false };
    // SAFETY: the owner is the first word of the slot.
    let word = unsafe { &*(page as *const AtomicU64) };
    let before = word.load(Ordering::Acquire);
    let pid = syscall::getpid();
    let free = before == 0 || before as u32 == pid || !syscall::process_exists(before as u32);
    let mine = owner(pid, syscall::gettid()) | BY_NAME;
    let taken = free && word.compare_exchange(before, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    // SAFETY: mapped above and not used below.
    unsafe { syscall::munmap(page, PAGE) };
    taken
}

/// Says in the slot who counts there now.
pub(crate) fn sign(slot: u64, state: &mut State, tid: u32) {
    // SAFETY: a mapped slot of ours begins with its header.
    let header = unsafe { &mut *(slot as *mut SlotHeader) };
    let shared = state.wiped().is_some_and(|wiped| wiped.shared != 0);
    header.owner = owner(syscall::getpid(), tid) | if shared { BY_NAME } else { 0 };
    let (seconds, _) = syscall::now();
    if header.first_run == 0 {
        header.first_run = seconds;
    }
    header.last_run = seconds;
    if let Some(wiped) = state.wiped()
        && wiped.counted == 0
    {
        wiped.counted = 1;
        header.runs += 1;
    }
}

/// Notes in a slot that something is missing.
pub(crate) fn mark_lost(slot: u64, what: u32) {
    // SAFETY: a mapped slot of ours begins with its header.
    unsafe { (*(slot as *mut SlotHeader)).lost |= what };
}
