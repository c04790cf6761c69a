//! Threads and forked processes get areas of their own, in all modules at the same distance.

use relive_abi::PAGE;
use relive_abi::rprof::LOST_SHARED;

use super::area::{self, FORKED, Owner, REUSED, THREAD};
use super::facts::facts;
use super::registry::{self, Registry};
use super::slot;
use super::state::{self, FILE, IDLE, state};
use super::syscall::{self, EEXIST, ENOMEM, Errno};

/// How often a thread that got no area of its own comes by before it tries again.
const PATIENCE: u64 = 1 << 14;
/// How many threads are looked at to find one that is gone, each time that a thread needs an area.
const LOOKS: usize = 8;

/// Called on a thread that does not own the area it counts in.
pub(crate) extern "C" fn enter() {
    if state::mode() == IDLE {
        return;
    }
    if let Some(wiped) = state().wiped()
        && wiped.patience != 0
    {
        wiped.patience -= 1;
        return;
    }
    if let Some(mut registry) = registry::lock() {
        enter_locked(&mut registry);
    }
}

/// The same, by whoever holds the lock.
pub(crate) fn enter_locked(registry: &mut Registry) {
    if !registry.is_valid() {
        forked(registry);
        return;
    }
    let mut owner = Owner { pointer: area::thread_pointer(), tid: syscall::gettid(), kind: REUSED, base: 0 };
    if let Some((n, base)) = find(registry, &owner) {
        owner.base = base;
        for module in registry.modules() {
            (module.attach)(&owner);
        }
        registry.set_thread(n, &owner);
    } else if let Err(Errno(_)) = make(registry, &mut owner) {
        share();
        return;
    }
    // SAFETY: each module has an area there.
    if unsafe { syscall::set_gs_base(owner.base) }.is_err() {
        share();
    }
}

/// A thread that is this one, or gone: its number and the distance of its areas.
fn find(registry: &mut Registry, owner: &Owner) -> Option<(usize, u64)> {
    let threads = registry.threads();
    // The same thread with another thread pointer, or one that is gone: numbers are used again.
    let same_number = threads.iter().position(|thread| thread.tid == owner.tid);
    // One that is gone: no two threads have the same thread pointer.
    let same = same_number.or_else(|| threads.iter().position(|thread| thread.pointer == owner.pointer));
    if let Some(n) = same {
        return threads.get(n).map(|thread| (n, thread.base));
    }
    let count = threads.len();
    let mut hand = *registry.hand() as usize;
    for _ in 0..LOOKS.min(count) {
        hand = if hand + 1 < count { hand + 1 } else { 0 };
        *registry.hand() = hand as u32;
        if let Some(thread) = registry.threads().get(hand)
            && !syscall::thread_exists(thread.tid)
        {
            return Some((hand, thread.base));
        }
    }
    None
}

/// Makes areas in all modules and adds the thread.
fn make(registry: &mut Registry, owner: &mut Owner) -> Result<(), Errno> {
    if !registry.has_room() {
        return Err(ENOMEM);
    }
    registry.remove_unloaded(None);
    owner.kind = THREAD;
    let mut search = Distances::new(registry);
    for _ in 0..4096 {
        owner.base = search.next(registry)?;
        match attach_all(registry, owner) {
            Ok(()) => {
                let n = registry.threads().len();
                registry.set_thread(n, owner);
                return Ok(());
            }
            Err(EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ENOMEM)
}

/// Makes areas in all modules or in none.
fn attach_all(registry: &Registry, owner: &Owner) -> Result<(), Errno> {
    for (n, module) in registry.modules().iter().enumerate() {
        let result = (module.attach)(owner);
        if result != 0 {
            for module in registry.modules().iter().take(n) {
                (module.detach)(owner.base);
            }
            return Err(Errno(result));
        }
    }
    Ok(())
}

/// Distances at which there may be room for the areas of all modules, and of those that come later.
///
/// The kernel takes no negative base, and libraries are near the end of the address space: it puts one
/// mapping below the other, and above all of them is a gap, then the stack. So the distance is half of that
/// gap, that areas lie in the gap even if much else is mapped before another library comes.
struct Distances {
    step: u64,
    highest: u64,
    stack: (u64, u64),
    wrapped: bool,
}

/// The least distance to begin with.
const NEAR: u64 = 0x200_0000;
/// The largest.
const FAR: u64 = 0x100_0000_0000;

impl Distances {
    fn new(registry: &mut Registry) -> Self {
        const END: u64 = 0x7fff_ffff_f000;
        let (mut end, mut step) = (0, PAGE);
        for module in registry.modules() {
            end = end.max(module.area + module.area_len);
            step = step.max(module.area_len + PAGE);
        }
        if *registry.next_base() == 0 {
            *registry.next_base() = (registry.gap() / 2 / PAGE * PAGE).clamp(NEAR, FAR);
        }
        let highest = END.saturating_sub(end);
        Distances { step, highest, stack: registry.stack(), wrapped: false }
    }

    fn next(&mut self, registry: &mut Registry) -> Result<u64, Errno> {
        loop {
            let base = *registry.next_base();
            if base <= self.highest {
                *registry.next_base() = base + self.step;
                let (begin, end) = self.stack;
                let hits_stack = registry
                    .modules()
                    .iter()
                    .any(|module| module.area + base < end && begin < module.area + base + module.area_len);
                if !hits_stack {
                    return Ok(base);
                }
            } else if self.wrapped {
                return Err(ENOMEM);
            } else {
                self.wrapped = true;
                *registry.next_base() = NEAR;
            }
        }
    }
}

/// The thread has to count in the area of another.
fn share() {
    if let Some(wiped) = state().wiped() {
        wiped.patience = PATIENCE;
    }
    let Some(facts) = facts() else { return };
    if state::mode() == FILE {
        slot::mark_lost(area::current(&facts) + facts.slot_offset(), LOST_SHARED);
    }
}

/// In the child of a fork: the one thread there is takes over the area of the one that it is a copy of.
pub(crate) fn forked(registry: &mut Registry) {
    let owner = Owner {
        pointer: area::thread_pointer(),
        tid: syscall::gettid(),
        kind: FORKED,
        base: syscall::gs_base(),
    };
    registry.remove_unloaded(None);
    for module in registry.modules() {
        (module.attach)(&owner);
        for thread in registry.threads() {
            if thread.base != owner.base {
                (module.detach)(thread.base);
            }
        }
    }
    registry.clear_threads();
    registry.set_thread(0, &owner);
    registry.set_valid();
}
