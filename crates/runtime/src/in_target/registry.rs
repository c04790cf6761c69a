//! What all measured modules of a process agree on.
//!
//! A thread has one `gs` base, which is the distance of its areas in *all* modules. So the modules share a
//! list of threads with their distances, and a list of modules, each with a way to make an area at a given
//! distance. The lists are at a fixed address, and their layout may not change: modules that were rewritten
//! by different versions of the tool must get on with each other.

use core::sync::atomic::{AtomicU32, Ordering};

use relive_abi::PAGE;

use super::area::Owner;
use super::syscall::{
    self, ENOMEM, Errno, Identity, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE, PROT_RW,
};

const MAGIC: u64 = u64::from_le_bytes(*b"RELIVEP1");
/// Where to look for it, and how far from there the next place is. Far above where the kernel puts executables, and far
/// below everything else; and sanitizers take it for memory of the program, while most of what else is free they want for
/// themselves (memory: 0x51–0x60 and 0x70–0x80 are the program's; threads: 0x55–0x5a and 0x7a–0x80; times 2⁴⁰).
const PLACES: (u64, u64, u64) = (0x5671_7e00_0000, 0x1_0000_0000, 8);
const LEN: u64 = 1 << 20;

pub(crate) const MODULES_MAX: usize = 64;
const THREADS_MAX: usize = (LEN as usize - 2 * PAGE as usize - size_of::<Lists>()) / size_of::<Thread>();

/// The first page. All zero in the child of a fork.
#[repr(C)]
struct Wiped {
    lock: AtomicU32,
    /// Whether the list of threads is the one of this process.
    valid: u32,
}

/// A measured module.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Module {
    /// Its first area.
    pub(crate) area: u64,
    pub(crate) area_len: u64,
    /// Where its parameters are, and what their first two words were: it is loaded as long as this is so.
    parameters: u64,
    words: [u64; 3],
    /// Makes an area; see `area::attach`.
    pub(crate) attach: extern "C" fn(&Owner) -> i32,
    /// Gives up an area; see `area::detach`.
    pub(crate) detach: extern "C" fn(u64),
    /// Its descriptor, to be closed when it is gone.
    descriptor: i32,
    reserved: u32,
    identity: [u64; 2],
}

/// A thread, maybe gone.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    /// What `fs:0` reads.
    pub(crate) pointer: u64,
    /// The distance of its areas.
    pub(crate) base: u64,
    pub(crate) tid: u32,
    reserved: u32,
}

#[repr(C)]
struct Lists {
    magic: u64,
    modules: u32,
    threads: u32,
    /// Where the search for dead threads goes on.
    hand: u32,
    reserved: u32,
    /// The distance that the next thread may get; zero if none was given yet.
    next_base: u64,
    /// An address at the top of the first thread's stack.
    stack: u64,
    /// An address among the first that the kernel gave to mappings.
    mappings: u64,
    module: [Module; MODULES_MAX],
}

/// The registry, locked, with all signals blocked.
pub(crate) struct Registry {
    at: u64,
    signals: u64,
}

static mut PLACE: u64 = 0;

/// Finds the registry of the process or makes it.
pub(crate) fn join() -> Result<Registry, Errno> {
    let (mut at, step, count) = PLACES;
    for _ in 0..count {
        match place(at) {
            Ok(true) => {
                // SAFETY: the module starts: no other thread runs its code.
                unsafe { PLACE = at };
                return lock().ok_or(ENOMEM);
            }
            Ok(false) => at += step,
            Err(error) => return Err(error),
        }
    }
    Err(ENOMEM)
}

/// Whether the registry is here, or is now. An error if there is none and none can be made.
fn place(at: u64) -> Result<bool, Errno> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    match unsafe { syscall::mmap(at, LEN, PROT_RW, flags, -1, 0) } {
        Ok(place) if place == at => {
            if let Err(error) = syscall::wipe_on_fork(at, PAGE) {
                // SAFETY: mapped above.
                unsafe { syscall::munmap(at, LEN) };
                return Err(error);
            }
            // SAFETY: mapped above.
            unsafe { *((at + PAGE) as *mut u64) = MAGIC };
            Ok(true)
        }
        Ok(place) => {
            // SAFETY: mapped above; a kernel that does not know the flag.
            unsafe { syscall::munmap(place, LEN) };
            Ok(is_registry(at))
        }
        Err(syscall::EEXIST) => Ok(is_registry(at)),
        Err(error) => Err(error),
    }
}

fn is_registry(at: u64) -> bool {
    // SAFETY: read only if that is possible.
    syscall::is_readable(at + PAGE) && unsafe { *((at + PAGE) as *const u64) } == MAGIC
}

/// Locks the registry; `None` if there is none.
pub(crate) fn lock() -> Option<Registry> {
    // SAFETY: written once, before any other thread comes here.
    let at = unsafe { core::ptr::read_volatile(&raw const PLACE) };
    if at == 0 {
        return None;
    }
    let registry = Registry { at, signals: syscall::block_signals() };
    let word = registry.lock_word();
    if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        while word.swap(2, Ordering::Acquire) != 0 {
            syscall::futex_wait(word.as_ptr(), 2);
        }
    }
    Some(registry)
}

impl Drop for Registry {
    fn drop(&mut self) {
        if self.lock_word().swap(0, Ordering::Release) == 2 {
            syscall::futex_wake(self.lock_word().as_ptr());
        }
        syscall::restore_signals(self.signals);
    }
}

impl Registry {
    fn wiped(&self) -> *mut Wiped {
        self.at as *mut Wiped
    }

    fn lists(&self) -> *mut Lists {
        (self.at + PAGE) as *mut Lists
    }

    fn lock_word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped for good.
        unsafe { &(*self.wiped()).lock }
    }

    /// Whether the list of threads is the one of this process: false for a new one, and after a fork.
    pub(crate) fn is_valid(&self) -> bool {
        // SAFETY: mapped, and locked.
        unsafe { (*self.wiped()).valid != 0 }
    }

    /// Says that the list of threads is now the one of this process.
    pub(crate) fn set_valid(&mut self) {
        // SAFETY: mapped, and locked.
        unsafe { (*self.wiped()).valid = 1 };
    }

    /// The modules.
    pub(crate) fn modules(&self) -> &[Module] {
        // SAFETY: mapped, and locked; the number never exceeds the room.
        unsafe {
            let count = ((*self.lists()).modules as usize).min(MODULES_MAX);
            core::slice::from_raw_parts((&raw const (*self.lists()).module).cast(), count)
        }
    }

    /// Adds a module.
    pub(crate) fn add_module(&mut self, module: Module) -> Result<(), Errno> {
        let count = self.modules().len();
        if count >= MODULES_MAX {
            return Err(ENOMEM);
        }
        // SAFETY: mapped, locked, and there is room. The number comes last, in case of a fork right now.
        unsafe {
            (&raw mut (*self.lists()).module).cast::<Module>().add(count).write_volatile(module);
            (&raw mut (*self.lists()).modules).write_volatile(count as u32 + 1);
        }
        Ok(())
    }

    /// Forgets modules that are no longer loaded, and those in the way of a new one.
    pub(crate) fn remove_unloaded(&mut self, new: Option<(u64, u64)>) {
        let mut n = 0;
        while let Some(&module) = self.modules().get(n) {
            let in_the_way = new
                .is_some_and(|(area, len)| area < module.area + module.area_len && module.area < area + len);
            if module.is_loaded() && !in_the_way {
                n += 1;
                continue;
            }
            for thread in self.threads() {
                if thread.base != 0 {
                    let area = module.area.wrapping_add(thread.base);
                    // SAFETY: was mapped for this module and nobody else.
                    unsafe { syscall::munmap(area, module.area_len) };
                }
            }
            module.close();
            // SAFETY: mapped, and locked; the last one takes the place.
            unsafe {
                let last = self.modules().len() - 1;
                let all = (&raw mut (*self.lists()).module).cast::<Module>();
                *all.add(n) = *all.add(last);
                (*self.lists()).modules = last as u32;
            }
        }
    }

    fn first_thread(&self) -> *mut Thread {
        (self.at + PAGE + size_of::<Lists>() as u64) as *mut Thread
    }

    /// The threads.
    pub(crate) fn threads(&self) -> &[Thread] {
        // SAFETY: mapped, and locked; the number never exceeds the room.
        unsafe {
            let count = ((*self.lists()).threads as usize).min(THREADS_MAX);
            core::slice::from_raw_parts(self.first_thread(), count)
        }
    }

    /// Whether there is room for another thread.
    pub(crate) fn has_room(&self) -> bool {
        self.threads().len() < THREADS_MAX
    }

    /// Sets the thread with this number, or adds it.
    pub(crate) fn set_thread(&mut self, n: usize, owner: &Owner) {
        if n < THREADS_MAX {
            let thread = Thread { pointer: owner.pointer, base: owner.base, tid: owner.tid, reserved: 0 };
            // SAFETY: mapped, locked, and there is room. The number comes last, in case of a fork right now.
            unsafe {
                self.first_thread().add(n).write_volatile(thread);
                if n >= (*self.lists()).threads as usize {
                    (&raw mut (*self.lists()).threads).write_volatile(n as u32 + 1);
                }
            }
        }
    }

    /// Forgets all threads.
    pub(crate) fn clear_threads(&mut self) {
        // SAFETY: mapped, and locked.
        unsafe { (*self.lists()).threads = 0 };
    }

    /// Where the search for dead threads goes on.
    pub(crate) fn hand(&mut self) -> &mut u32 {
        // SAFETY: mapped, and locked.
        unsafe { &mut (*self.lists()).hand }
    }

    /// The distance that the next thread may get.
    pub(crate) fn next_base(&mut self) -> &mut u64 {
        // SAFETY: mapped, and locked.
        unsafe { &mut (*self.lists()).next_base }
    }
}

impl Registry {
    /// Notes where the first thread's stack is, and something that was mapped early.
    pub(crate) fn set_layout(&mut self, stack: u64, mapping: u64) {
        // SAFETY: mapped, and locked.
        unsafe {
            if (*self.lists()).stack == 0 {
                (*self.lists()).stack = stack;
            }
            (*self.lists()).mappings = mapping.max((*self.lists()).mappings);
        }
    }

    /// How much room the kernel left between mappings and the stack.
    pub(crate) fn gap(&self) -> u64 {
        // SAFETY: mapped, and locked.
        let mappings = unsafe { (*self.lists()).mappings };
        self.stack().0.saturating_sub(mappings)
    }

    /// The memory that the first thread's stack may take one day: begin and end.
    pub(crate) fn stack(&self) -> (u64, u64) {
        const SLACK: u64 = 4 << 20;
        // SAFETY: mapped, and locked.
        let top = unsafe { (*self.lists()).stack };
        let len = syscall::limit(syscall::RLIMIT_STACK).min(1 << 40);
        (top.saturating_sub(len + SLACK), top + SLACK)
    }
}

impl Module {
    /// Describes the module that this code is part of.
    pub(crate) fn new(
        facts: &super::facts::Facts,
        attach: extern "C" fn(&Owner) -> i32,
        detach: extern "C" fn(u64),
        descriptor: i32,
        identity: Identity,
    ) -> Self {
        let parameters = super::facts::parameters_address();
        Module {
            area: facts.area(),
            area_len: facts.area_len(),
            parameters,
            words: words(parameters),
            attach,
            detach,
            descriptor,
            reserved: 0,
            identity: [identity.device, identity.inode],
        }
    }

    /// Whether it is still where it was.
    fn is_loaded(&self) -> bool {
        syscall::is_readable(self.parameters) && words(self.parameters) == self.words
    }

    fn close(&self) {
        let Ok((Identity { device, inode }, ..)) = syscall::fstat(self.descriptor) else { return };
        if self.descriptor >= 0 && [device, inode] == self.identity {
            syscall::close(self.descriptor);
        }
    }
}

/// Three words that tell modules apart: magic number, own address, address of the file.
fn words(parameters: u64) -> [u64; 3] {
    // SAFETY: the caller knows that the parameters can be read: they do not cross a page.
    unsafe {
        let at = parameters as *const u64;
        [*at, *at.add(2), *at.add(5)]
    }
}
