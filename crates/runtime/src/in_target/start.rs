//! What happens once per module and process.

use core::ffi::CStr;

use super::area::{self, FIRST, Owner, THREAD};
use super::cache;
use super::environment::Environment;
use super::facts::{Facts, facts};
use super::file::{self, Failure};
use super::fork;
use super::link_map::Executable;
use super::message;
use super::pattern::{self, Names};
use super::registry::{self, Module, Registry};
use super::state::{FILE, PATH_MAX, PRIVATE, State, state};
use super::syscall::{self, ENAMETOOLONG, ENOENT, Errno};
use super::threads;

const UNRECORDED: &[u8] = b"this run is not recorded";

/// What `fs` points to before a static program has set up its threads.
#[repr(C, align(64))]
struct EarlyThread {
    below: [u64; 64],
    itself: u64,
    above: [u64; 63],
}

static mut EARLY_THREAD: EarlyThread = EarlyThread { below: [0; 64], itself: 0, above: [0; 63] };

/// The start of an executable. Returns where it goes on.
pub(crate) extern "C" fn start(stack: *const u64) -> u64 {
    let Some(facts) = facts() else { syscall::abort() };
    if syscall::fs_base() == 0 {
        // SAFETY: no thread-local memory is in use where there is no base, and nobody else knows the block.
        unsafe {
            let block = &raw mut EARLY_THREAD.itself;
            *block = block as u64;
            syscall::set_fs_base(block as u64);
        }
    }
    // SAFETY: this is the entry of the process.
    let environment = unsafe { Environment::from_stack(stack, &mut state().scratch) };
    begin(&facts, &environment);
    // SAFETY: as above.
    unsafe { fork::watch(Executable { headers: environment.headers, bias: facts.bias }) };
    facts.loaded(facts.given.next)
}

/// The start of a library. Returns where it goes on, or zero.
pub(crate) extern "C" fn init() -> u64 {
    let Some(facts) = facts() else { syscall::abort() };
    let environment = Environment::from_proc(&mut state().scratch);
    begin(&facts, &environment);
    if facts.given.next == 0 { 0 } else { facts.loaded(facts.given.next) }
}

fn begin(facts: &Facts, environment: &Environment) {
    let state = state();
    if let Err(error) = state.allocate().and_then(|()| registry::join()).map(|mut registry| {
        if !registry.is_valid() {
            if registry.modules().is_empty() {
                let thread = Owner {
                    pointer: area::thread_pointer(),
                    tid: syscall::gettid(),
                    kind: FIRST,
                    base: syscall::gs_base(),
                };
                registry.set_thread(0, &thread);
                registry.set_valid();
            } else {
                threads::forked(&mut registry);
            }
        }
        let mapping = environment.linker.max(state.wiped);
        registry.set_layout(environment.executable.as_ptr() as u64, mapping);
        registry.remove_unloaded(Some((facts.area(), facts.area_len())));
        join(facts, environment, state, &mut registry);
    }) {
        message::failed(b"start", b"", error, UNRECORDED);
    }
}

fn join(facts: &Facts, environment: &Environment, state: &mut State, registry: &mut Registry) {
    state.mode = FILE;
    let opened = find_path(facts, environment, state).and_then(|()| file::open(facts, state));
    if let Err(Failure(what, error)) = opened {
        message::failed(state.path(), what, error, UNRECORDED);
        state.mode = PRIVATE;
    }
    for thread in registry.threads() {
        let mut owner = Owner { pointer: thread.pointer, tid: thread.tid, kind: THREAD, base: thread.base };
        if thread.base == 0 {
            owner.kind = FIRST;
            let mut result = area::attach(&owner);
            if result != 0 && state.mode == FILE {
                message::failed(state.path(), b"no room for counters: ", Errno(result), UNRECORDED);
                state.mode = PRIVATE;
                result = area::attach(&owner);
            }
            if result == 0 {
                continue;
            }
        } else if area::attach(&owner) == 0 {
            continue;
        }
        // Threads are running that would count in memory of others.
        message::failed(state.path(), b"no room for counters of threads: ", ENOENT, b"giving up");
        syscall::exit(127);
    }
    // SAFETY: written once, when all that is below it is ready.
    unsafe { cache::AREA = facts.area() };
    let module = Module::new(facts, area::attach, area::detach, state.descriptor, state.identity);
    if let Err(error) = registry.add_module(module) {
        message::failed(state.path(), b"too many modules: ", error, b"giving up");
        syscall::exit(127);
    }
}

/// Works out the path of the profile.
fn find_path(facts: &Facts, environment: &Environment, state: &mut State) -> Result<(), Failure> {
    // SAFETY: the rewriter put a string there.
    let given = unsafe { CStr::from_ptr(facts.loaded(facts.given.pattern) as *const _) }.to_bytes();
    // SAFETY: and the name of the module behind it.
    let module = unsafe {
        CStr::from_ptr((facts.loaded(facts.given.pattern) + given.len() as u64 + 1) as *const _).to_bytes()
    };
    let asked = state.scratch.get(..environment.pattern_len).unwrap_or(&[]);
    let pattern = if asked.is_empty() { given } else { asked };
    let mut directory = [0u8; PATH_MAX];
    let directory = if pattern.first() == Some(&b'/') {
        &[]
    } else {
        match syscall::getcwd(&mut directory) {
            Ok(len @ 2..) if directory.first() == Some(&b'/') => directory.get(..len - 1).unwrap_or(&[]),
            Ok(_) => return Err(Failure(b"working directory: ", ENOENT)),
            Err(error) => return Err(Failure(b"working directory: ", error)),
        }
    };
    let names = Names { pid: syscall::getpid(), module, executable: environment.executable, directory };
    let len = pattern::expand(pattern, &names, &mut state.path);
    state.path_len = len.unwrap_or(0);
    if len.is_some() { Ok(()) } else { Err(Failure(b"profile: ", ENAMETOOLONG)) }
}
