//! Puts the engine into a process that runs already, and takes it out of one again.
//!
//! Both ways, the state of each thread is the program's but for the place: where it goes on, and what `gs` points to. A
//! system call that was interrupted is left to the kernel to make again, as it is whenever a thread is stopped.

use crate::Error;
use crate::arena::Arena;
use crate::image::Image;
use crate::inject::{Caller, LONG_MODE};
use crate::processes::{is_running, maps, status, threads};
use crate::run::Options;
use crate::tracee::{Place, Tracee};
use libc::{pid_t, user_regs_struct};
use relive_abi::engine::{self as abi, ARENA_LEN, HOME, Visit, ZONE};
use std::time::{Duration, Instant};

/// What mappings of an arena are called.
const ARENA: &str = "/memfd:relive (deleted)";

/// Where the engine's memory is, but for code and its tables: nothing else is put there.
const ENGINE_ZONE: std::ops::Range<u64> = HOME..ZONE + 2 * ARENA_LEN;

/// A thread that is held, and how it is to go on.
struct Held {
    tracee: Tracee,
    /// The program's registers.
    registers: user_regs_struct,
    /// What the program blocks.
    mask: u64,
    /// The engine's memory for it; 0 if it is not under the engine.
    thread: u64,
}

impl Held {
    fn new(tracee: Tracee) -> Result<Self, Error> {
        let mut registers = tracee.registers()?;
        restart(&mut registers);
        let mask = tracee.mask()?;
        Ok(Self { tracee, registers, mask, thread: 0 })
    }

    /// Whether it is in a system call that the kernel is about to make again.
    fn is_in_call(&self) -> bool {
        is_call(&self.registers) && matches!(-(self.registers.rax as i64), 512 | 514 | 516)
    }

    /// Restartable sequences, for the engine. One that was interrupted begins again, as the kernel would see to.
    fn rseq(&mut self) -> Result<[u64; 3], Error> {
        let found = self.tracee.rseq();
        if found[0] != 0 {
            let word = |at: u64| self.tracee.read(at).map(u64::from_le_bytes);
            let sequence = word(found[0] + 8)?;
            if sequence != 0 {
                let (start, len, abort) = (word(sequence + 8)?, word(sequence + 16)?, word(sequence + 24)?);
                if self.registers.rip.wrapping_sub(start) < len {
                    self.registers.rip = abort;
                }
                self.tracee.write(found[0] + 8, &[0; 8])?;
            }
        }
        Ok(found)
    }
}

fn is_call(registers: &user_regs_struct) -> bool {
    registers.orig_rax as i64 >= 0
}

/// Some calls say that a signal has come when nothing has but us. Those that have done nothing by then are made again.
/// Those that are made again in any case begin anew, as the engine may want to see them: a new thread.
fn restart(registers: &mut user_regs_struct) {
    const ERESTARTNOINTR: i64 = 513;
    const ERESTARTNOHAND: i64 = 514;
    const CALLS: [i64; 7] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_io_getevents,
    ];
    if CALLS.contains(&(registers.orig_rax as i64)) && registers.rax as i64 == -i64::from(libc::EINTR) {
        registers.rax = -ERESTARTNOHAND as u64;
    }
    if is_call(registers) && registers.rax as i64 == -ERESTARTNOINTR {
        registers.rip -= 2;
        registers.rax = registers.orig_rax;
        registers.orig_rax = u64::MAX;
    }
}

/// Holds every thread of a process, new ones too, each as `hold` does it.
fn hold_all(pid: pid_t, hold: impl Fn(pid_t) -> Result<Held, Error>) -> Result<Vec<Held>, Error> {
    let mut held: Vec<Held> = Vec::new();
    loop {
        let before = held.len();
        for tid in threads(pid) {
            if held.iter().any(|held| held.tracee.tid == tid) {
                continue;
            }
            match hold(tid) {
                Ok(thread) => held.push(thread),
                // It has ended meanwhile.
                Err(_) if !threads(pid).contains(&tid) => {}
                Err(error) => return Err(error),
            }
        }
        match held.len() {
            0 => return Err(Error::Gone(pid)),
            now if now == before => return Ok(held),
            _ => {}
        }
    }
}

/// Puts the engine into a process. The arena is made in there, so that it can be mapped whoever the process belongs to.
pub(crate) fn attach(pid: pid_t, image: &Image, options: &Options) -> Result<Arena, Error> {
    let refused = |why: &str| Error::Refused { pid, why: why.to_owned() };
    check(pid)?;
    let mut held = hold_all(pid, |tid| Tracee::seize(tid).and_then(Held::new))?;
    if held.iter().any(|held| held.registers.cs != LONG_MODE) {
        return Err(refused("it is a 32-bit program"));
    }
    move_in(pid, &mut held, image, options).inspect_err(|_| {
        // As it was. If that fails too, the first reason is the better one.
        let _ = unmap(&held[0].tracee);
    })
}

/// Maps all that the engine needs into a process, and lets it take over its threads.
fn move_in(pid: pid_t, held: &mut [Held], image: &Image, options: &Options) -> Result<Arena, Error> {
    let first = &held[0].tracee;
    let caller = Caller::new(first)?;
    let place = caller.map_engine(image)?;
    first.write(place.start, b"relive\0")?;
    let fd = caller.call(libc::SYS_memfd_create, [place.start, libc::MFD_CLOEXEC.into(), 0, 0, 0, 0])?;
    let arena = Arena::open(&format!("/proc/{}/fd/{fd}", first.tid), options)?;
    let mapped = caller.map_arena(&arena, fd)?;
    drop(caller);
    first.write(place.start, image.bytes())?;

    let request = Visit {
        what: abi::ADOPT,
        arena: mapped,
        mapped: arena.share_of(first.tid),
        engine: place.start,
        engine_end: place.end,
        ..Visit::default()
    };
    let mut ready = Vec::new();
    for i in 0..held.len() {
        let thread = &mut held[i];
        let rseq = thread.rseq()?;
        let known = ready.last().map_or(0, |visit: &Visit| visit.thread);
        let (pc, in_call) = (thread.registers.rip, thread.is_in_call().into());
        let gs = [thread.registers.gs_base, thread.registers.gs];
        let mut visit = Visit { thread: known, pc, in_call, mask: thread.mask, gs, rseq, ..request };
        thread.tracee.visit(&place, &mut visit)?;
        if visit.answer != abi::DONE {
            release(held, &place)?;
            let why = "there is no memory for all its threads, or one is in a system call of 32-bit code";
            return Err(Error::Refused { pid, why: why.into() });
        }
        thread.thread = visit.thread;
        ready.push(visit);
    }
    for (held, visit) in held.iter().zip(&ready) {
        let registers = user_regs_struct { rip: visit.pc, gs: 0, gs_base: visit.thread, ..held.registers };
        held.tracee.set_registers(&registers)?;
        held.tracee.set_mask(visit.mask)?;
    }
    Ok(arena)
}

/// Whether there is anything to be said against a process before it is touched.
fn check(pid: pid_t) -> Result<(), Error> {
    let refused = |why: String| Err(Error::Refused { pid, why });
    let Some(tracer) = status(pid, "TracerPid") else {
        return refused("there is no such process".into());
    };
    if pid == std::process::id() as pid_t {
        return refused("it is this one".into());
    }
    if tracer != "0" {
        return refused(format!("process {tracer} traces it; end that first"));
    }
    // The same as this process has is no matter: containers have one for everything.
    let restrictions = |pid| status(pid, "Seccomp_filters").and_then(|n| n.parse::<u32>().ok()).unwrap_or(0);
    if restrictions(pid) > restrictions(std::process::id() as pid_t) {
        return refused("it has restricted its system calls (seccomp), and the engine needs more".into());
    }
    let maps = maps(pid);
    if maps.iter().any(|m| m.name == ARENA) {
        return refused("it is being measured already".into());
    }
    if maps.iter().any(|m| ENGINE_ZONE.contains(&m.start)) {
        return refused("it has memory of its own where the engine would go".into());
    }
    Ok(())
}

/// Whether a process is under an engine. It may be another than it says it is, if it numbers itself in a namespace of its own; this
/// one has an arena too.
pub(crate) fn is_measured(pid: pid_t) -> bool {
    let maps = maps(pid);
    maps.iter().any(|m| m.name == ARENA) && maps.iter().any(|m| ENGINE_ZONE.contains(&m.start))
}

/// Takes the engine out of a process, which goes on without it. `engine` is where the engine lies.
pub(crate) fn detach(pid: pid_t, engine: (u64, u64), image: &Image) -> Result<(), Error> {
    move_out(pid, engine, image).map(drop)
}

/// The same when one thread is about to restrict the system calls of all. Those that wait in one get there again first:
/// the kernel makes another call of it (`restart_syscall`), which may not be allowed any more.
pub(crate) fn detach_before(tid: pid_t, pid: pid_t, engine: (u64, u64), image: &Image) -> Result<(), Error> {
    const PATIENCE: Duration = Duration::from_millis(200);
    let mut held = move_out(pid, engine, image)?;
    let last = held.iter().position(|held| held.tracee.tid == tid).map(|index| held.swap_remove(index));
    let waiting: Vec<pid_t> =
        held.iter().filter(|held| held.is_in_call()).map(|held| held.tracee.tid).collect();
    drop(held);
    let start = Instant::now();
    while waiting.iter().any(|&tid| is_running(pid, tid)) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(50));
    }
    drop(last);
    Ok(())
}

/// Takes the engine out of a process, the threads of which are still held.
fn move_out(pid: pid_t, engine: (u64, u64), image: &Image) -> Result<Vec<Held>, Error> {
    let place = Place { end: engine.1, ..image.place(0) };
    let held = hold_all(pid, |tid| bring_out(tid, &place))?;
    release(&held, &place)?;
    Ok(held)
}

/// Brings a thread to a place where its state is the program's.
fn bring_out(tid: pid_t, place: &Place) -> Result<Held, Error> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let start = Instant::now();
    let tracee = loop {
        match Tracee::seize(tid) {
            // Another thread of this process may be following it into a program it executes.
            Err(_) if start.elapsed() < PATIENCE && is_traced_here(tid) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            seized => break seized?,
        }
    };
    let mut held = Held::new(tracee)?;
    loop {
        let thread = held.registers.gs_base;
        let pc = held.registers.rip;
        let mut visit = Visit { what: abi::LOCATE, thread, pc, answer: abi::BUSY, ..Visit::default() };
        // In the engine it may hold its lock, or not have begun; unless it waits there.
        if !place.holds(pc) || held.is_in_call() {
            if thread == 0 {
                return Ok(held);
            }
            held.tracee.visit(place, &mut visit)?;
        }
        match visit.answer {
            abi::DONE => {
                held.thread = thread;
                held.registers.rip = visit.pc;
                if is_call(&held.registers) {
                    // The kernel leaves it there.
                    held.registers.rcx = visit.pc;
                }
                return Ok(held);
            }
            abi::STEP => held.tracee.step()?,
            abi::GIVE_UP => {
                let registers = user_regs_struct { rip: visit.pc, orig_rax: u64::MAX, ..held.registers };
                held.tracee.set_registers(&registers)?;
                held.tracee.set_mask(held.mask)?;
                held.tracee.pause(0)?;
            }
            _ if start.elapsed() > PATIENCE => return Err(Error::Busy(tid)),
            _ => held.tracee.pause(0)?,
        }
        held = Held::new(held.tracee)?;
    }
}

fn is_traced_here(tid: pid_t) -> bool {
    let own = threads(std::process::id() as pid_t);
    status(tid, "TracerPid")
        .and_then(|tracer| tracer.parse().ok())
        .is_some_and(|tracer| own.contains(&tracer))
}

/// Gives all threads of a process back to the program.
fn release(held: &[Held], place: &Place) -> Result<(), Error> {
    let ask = |held: &Held, what: u64| {
        let mut visit = Visit { what, thread: held.thread, mask: held.mask, ..Visit::default() };
        held.tracee.visit(place, &mut visit).map(|()| visit)
    };
    let mut ready = Vec::new();
    for thread in held.iter().filter(|held| held.thread != 0) {
        let Visit { mask, gs: [gs_base, gs], .. } = ask(thread, abi::RELEASE)?;
        ready.push((thread, user_regs_struct { gs_base, gs, ..thread.registers }, mask));
    }
    if let Some((last, ..)) = ready.last() {
        ask(last, abi::CLOSE)?;
    }
    ready.extend(held.iter().filter(|held| held.thread == 0).map(|held| (held, held.registers, held.mask)));
    for (held, registers, mask) in ready {
        held.tracee.set_registers(&registers)?;
        held.tracee.set_mask(mask)?;
    }
    unmap(&held[0].tracee)
}

/// Gives the engine's memory back.
fn unmap(tracee: &Tracee) -> Result<(), Error> {
    let is_engine = |name: &str, start: u64| name == ARENA || ENGINE_ZONE.contains(&start);
    let maps = maps(tracee.tid);
    let caller = Caller::new(tracee)?;
    for mapping in maps.iter().filter(|m| is_engine(&m.name, m.start)) {
        caller.call(libc::SYS_munmap, [mapping.start, mapping.end - mapping.start, 0, 0, 0, 0])?;
    }
    Ok(())
}
