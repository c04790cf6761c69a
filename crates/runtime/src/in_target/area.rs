//! Where a thread counts in this module: mapped at a distance from the first area.

use core::arch::asm;

use relive_abi::counters::Private;
use relive_abi::parameters::{EARLY, LIBRARY};
use relive_abi::rprof::LOST_SHARED;

use super::facts::{Facts, facts};
use super::file;
use super::merge;
use super::slot;
use super::state::{FILE, State, state};
use super::syscall::{
    self, EEXIST, EIO, Errno, MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE,
    MAP_SHARED, PROT_NONE, PROT_RW,
};

/// The private part of an area up to the keys: what the rewritten code reads, then what only this code does.
#[repr(C)]
pub(crate) struct Local {
    pub(crate) public: Private,
    /// The distance of this area.
    pub(crate) base: u64,
    /// Table of overflow entries by call site and address; see `calls`.
    pub(crate) by_address: u64,
    /// Table of overflow entries by call site and target.
    pub(crate) by_target: u64,
    /// Not zero if targets may no longer be exchanged.
    pub(crate) pinned: u64,
    /// Counters by call site and address; see `cache`.
    pub(crate) cache: u64,
    /// Calls for which there was no room.
    pub(crate) dropped: u64,
}

const _: () = assert!(size_of::<Local>() as u64 <= relive_abi::counters::keys_offset());

/// The private part of an area.
pub(crate) fn local(area: u64) -> *mut Local {
    area as *mut Local
}

/// The area of the thread that asks.
pub(crate) fn current(facts: &Facts) -> u64 {
    facts.area().wrapping_add(local_word(facts, 8))
}

/// Who owns the area of the thread that asks.
pub(crate) fn current_owner(facts: &Facts) -> u64 {
    local_word(facts, 0)
}

fn local_word(facts: &Facts, offset: u64) -> u64 {
    let word: u64;
    // SAFETY: every thread has an area, the first one if no other.
    unsafe {
        asm!("mov {word}, gs:[{at}]", word = out(reg) word, at = in(reg) facts.area() + offset,
            options(nostack, readonly, preserves_flags));
    }
    word
}

/// What `fs:0` reads.
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: every thread has such a word, see `start`.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}

/// The area that is part of the module, when the module starts.
pub(crate) const FIRST: u32 = 0;
/// An area for a thread, at a distance where there is nothing yet.
pub(crate) const THREAD: u32 = 1;
/// An area that was there before a fork.
pub(crate) const FORKED: u32 = 2;
/// An area whose thread is gone, or has another `fs:0` now.
pub(crate) const REUSED: u32 = 3;

/// What an area is to be attached to.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Owner {
    /// What `fs:0` reads.
    pub(crate) pointer: u64,
    pub(crate) tid: u32,
    pub(crate) kind: u32,
    /// The distance of its areas.
    pub(crate) base: u64,
}

/// Gives a thread its area in this module. Called by whichever module sees the thread first, with the lock
/// of the registry held and signals blocked. Returns zero or the number of an error.
pub(crate) extern "C" fn attach(owner: &Owner) -> i32 {
    let Some(facts) = facts() else { return EIO.0 };
    match attach_here(&facts, state(), owner) {
        Ok(()) => 0,
        Err(Errno(error)) => error,
    }
}

fn attach_here(facts: &Facts, state: &mut State, owner: &Owner) -> Result<(), Errno> {
    let area = facts.area().wrapping_add(owner.base);
    let slot = area + facts.slot_offset();
    match owner.kind {
        FIRST => first(facts, state, owner, area)?,
        THREAD => {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
            // SAFETY: replaces nothing.
            let at = unsafe { syscall::mmap(area, facts.area_len(), PROT_NONE, flags, -1, 0) }?;
            if at != area {
                // A kernel that does not know the flag.
                // SAFETY: mapped above.
                unsafe { syscall::munmap(at, facts.area_len()) };
                return Err(EEXIST);
            }
            let result = private_part(facts, area).and_then(|()| further(facts, state, owner, slot));
            if result.is_err() {
                // SAFETY: mapped above.
                unsafe { syscall::munmap(area, facts.area_len()) };
            }
            result?;
        }
        FORKED => forked(facts, state, owner, slot),
        _ => {
            if state.mode == FILE {
                slot::sign(slot, state, owner.tid);
            }
        }
    }
    if let Some(wiped) = state.wiped()
        && wiped.home == 0
    {
        wiped.home = owner.base.wrapping_add(1);
    }
    // SAFETY: the private part of the area is mapped.
    unsafe {
        (*local(area)).base = owner.base;
        (*local(area)).public.owner = owner.pointer;
    }
    Ok(())
}

/// The private part: zero now, and in the child of a fork.
fn private_part(facts: &Facts, area: u64) -> Result<(), Errno> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    // SAFETY: the place is part of an area of ours.
    unsafe { syscall::mmap(area, facts.slot_offset(), PROT_RW, flags, -1, 0) }?;
    syscall::wipe_on_fork(area, facts.slot_offset())
}

/// The first area: what was counted there already is kept.
fn first(facts: &Facts, state: &mut State, owner: &Owner, area: u64) -> Result<(), Errno> {
    let (slot, len) = (area + facts.slot_offset(), facts.slot_len());
    if state.mode == FILE {
        let at = slot::claim(facts, state)?;
        // SAFETY: a new mapping replaces nothing.
        let aside = unsafe { syscall::mmap(0, len, PROT_RW, MAP_SHARED, state.descriptor, at) }?;
        slot::sign(aside, state, owner.tid);
        if facts.given.flags & (EARLY | LIBRARY) != 0 && owner.base == 0 {
            merge::merge(&facts.header().slot, slot, aside);
        }
        private_part(facts, area)?;
        // SAFETY: the slot's part of the area is ours, and counted in above.
        unsafe { syscall::mremap(aside, len, slot, len) }?;
        Ok(())
    } else {
        private_part(facts, area)
    }
}

/// The slot of a further thread; shared with another if there is none to be had.
fn further(facts: &Facts, state: &mut State, owner: &Owner, slot: u64) -> Result<(), Errno> {
    let len = facts.slot_len();
    if state.mode != FILE {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        // SAFETY: the place was reserved for this.
        return unsafe { syscall::mmap(slot, len, PROT_RW, flags, -1, 0) }.map(drop);
    }
    let mapped = file::keep(state)
        .and_then(|()| slot::claim(facts, state))
        .and_then(|at| map_slot(state, slot, len, at));
    if mapped.is_ok() {
        slot::sign(slot, state, owner.tid);
        return Ok(());
    }
    let home = state.wiped().map_or(0, |wiped| wiped.home);
    if home == 0 {
        return Err(EIO);
    }
    let shared = facts.area().wrapping_add(home.wrapping_sub(1)) + facts.slot_offset();
    // SAFETY: the place was reserved for this.
    unsafe { syscall::mremap(shared, 0, slot, len) }?;
    slot::mark_lost(slot, LOST_SHARED);
    Ok(())
}

fn map_slot(state: &State, slot: u64, len: u64, at: u64) -> Result<(), Errno> {
    // SAFETY: the place is part of an area of ours.
    unsafe { syscall::mmap(slot, len, PROT_RW, MAP_SHARED | MAP_FIXED, state.descriptor, at) }.map(drop)
}

/// A slot of its own for the child of a fork; if there is none to be had, it shares that of its parent.
fn forked(facts: &Facts, state: &mut State, owner: &Owner, slot: u64) {
    if state.mode != FILE {
        return;
    }
    let mapped = file::renew(state)
        .and_then(|own| {
            state.wiped().ok_or(EIO)?.shared = u64::from(!own);
            slot::claim(facts, state)
        })
        .and_then(|at| map_slot(state, slot, facts.slot_len(), at));
    match mapped {
        Ok(()) => slot::sign(slot, state, owner.tid),
        Err(_) => slot::mark_lost(slot, LOST_SHARED),
    }
}

/// Lets go of an area that no thread uses: in the child of a fork, those of its parent's other threads.
pub(crate) extern "C" fn detach(base: u64) {
    let Some(facts) = facts() else { return };
    let area = facts.area().wrapping_add(base);
    if base != 0 {
        // SAFETY: mapped by `attach`, and its thread is not in this process.
        unsafe { syscall::munmap(area, facts.area_len()) };
        return;
    }
    // The first area stays memory, since it is part of the module.
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    // SAFETY: as above.
    let _ = unsafe { syscall::mmap(area + facts.slot_offset(), facts.slot_len(), PROT_RW, flags, -1, 0) };
}
