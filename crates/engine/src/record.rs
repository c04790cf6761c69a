//! The buffers of a traced thread: see [`relive_abi::trace`].

use crate::frame::UserContext;
use crate::limits;
use crate::process::Process;
use crate::room;
use crate::signals::TRAP_FLAG;
use crate::thread::register::{R11, RAX, RCX};
use crate::thread::{Context, Thread};
use crate::translate::{self, Mark, POINTER, Pen};
use core::sync::atomic::Ordering;
use relive_abi::engine as abi;
use relive_abi::kernel::{self, Errno};
use relive_abi::trace::{
    BUFFER_LEN, BUFFERS, CALL, Call, CallResult, GUARD_LEN, NOT_CALLED, RESULT, RING_LEN, Ring, STATE, State,
    Stop, Tag, buffer, stopped,
};
use relive_code::addr::LinkAddr;
use relive_code::isa::{Gpr, Insn, Operand, RegisterClass};

/// What the engine itself writes at once, at most.
const LONGEST: u64 = size_of::<State>() as u64;

/// Gives a thread a ring of its own, if it is traced.
pub fn begin(process: &Process, thread: &mut Thread) -> Result<(), Errno> {
    thread.ring = 0;
    if process.arena.options & abi::TRACE == 0 {
        return Ok(());
    }
    let (arena, pid) = (process.arena, kernel::getpid());
    let chunk =
        if thread.is_apart { None } else { room::take(arena, abi::RING, process.number, pid, RING_LEN) };
    let ring = match chunk {
        // SAFETY: nothing is mapped over.
        Some(chunk) => unsafe { limits::share(arena, chunk, RING_LEN, None) }?,
        // Written down for nobody.
        None => crate::zone::map(RING_LEN)?,
    };
    for number in 0..BUFFERS as u64 {
        // SAFETY: between buffers of this ring.
        unsafe { kernel::mprotect(ring + buffer(number) + BUFFER_LEN, GUARD_LEN, 0) }?;
    }
    thread.ring = ring;
    thread.is_collected = chunk.is_some();
    thread.tool = arena.tool;
    thread.buffer = ring + buffer(0);
    Ok(())
}

impl Thread {
    fn ring(&self) -> &'static Ring {
        // SAFETY: mapped for as long as the thread lives.
        unsafe { &*(self.ring as *const Ring) }
    }

    /// Whether it is written down what the thread does.
    pub fn is_traced(&self) -> bool {
        self.ring != 0
    }

    /// Where the buffer begins that is being filled.
    fn start(&self) -> u64 {
        self.ring + buffer(self.ring().filled.load(Ordering::Relaxed))
    }

    /// From the cache: the program's state is all in the thread's context.
    pub fn take_out(&mut self) {
        if self.is_traced() {
            self.buffer = self.context.registers[R11];
            self.context.registers[R11] = self.r11;
        }
    }

    /// Back into the cache.
    pub fn put_in(&mut self) {
        if self.is_traced() {
            self.r11 = self.context.registers[R11];
            self.context.registers[R11] = self.buffer;
        }
    }

    /// The words that it has written down last, at most so many, if it is traced. The last record is whole, the first may not be.
    pub fn latest(&self, most: usize) -> Option<&[u32]> {
        let begun = self.is_traced().then(|| self.buffer - self.start())?;
        let words = (begun as usize / size_of::<u32>()).min(most);
        let first = (self.buffer as *const u32).wrapping_sub(words);
        // SAFETY: in the buffer, which is this thread's, and it is in the engine.
        Some(unsafe { core::slice::from_raw_parts(first, words) })
    }

    /// Writes down what the thread goes on with.
    pub fn write_state(&mut self, registers: &[u64; 16], flags: u64, pc: u64, tag: Tag) {
        if self.is_traced() {
            let state = State { registers: *registers, flags, pc, fs: kernel::fs_base(), gs: self.gs_base };
            self.write(&state, tag);
        }
    }

    /// The same, as the engine finds it.
    pub fn write_context(&mut self) {
        let Context { registers, rflags, pc, .. } = self.context;
        self.write_state(&registers, rflags, pc, STATE);
    }

    /// Writes down that a unit, with exits from this tag on, was left in the middle.
    pub fn write_stop(&mut self, unit: Option<Tag>, mark: &Mark, context: &mut UserContext) {
        let Some(unit) = unit.filter(|_| self.is_traced()) else { return };
        match (mark.pen.is_away, mark.progress.is_over()) {
            // Before a call of the kernel, with the record finished.
            (true, false) => self.write(&(), NOT_CALLED),
            // Right behind it.
            (true, true) => self.write_result(*context.register(RAX)),
            (false, false) => {
                let stop = Stop { pc: mark.pc, unit, piece: mark.piece, rcx: *context.register(RCX) };
                self.write_behind(mark.pen.values, &stop, stopped(mark.pen.values));
            }
            (false, true) => {}
        }
    }

    /// Writes down that the program calls the kernel.
    pub fn write_call(&mut self, number: u64, arguments: [u64; 6]) {
        if self.is_traced() {
            self.write(&Call { number, arguments, time: time() }, CALL);
        }
    }

    /// Writes down what came of it.
    pub fn write_result(&mut self, value: u64) {
        if self.is_traced() {
            self.write(&CallResult { value, time: time() }, RESULT);
        }
    }

    /// Whether nothing has been written down yet: then it begins with a state.
    pub fn is_new(&self) -> bool {
        self.is_traced()
            && self.buffer == self.ring + buffer(0)
            && self.ring().filled.load(Ordering::Relaxed) == 0
    }

    /// From the cache, when a signal has come there: the program's state is all in its context.
    pub fn take_out_of(&mut self, context: &mut UserContext, pen: Pen) {
        if !self.is_traced() || pen.is_away {
            return;
        }
        let register = context.register(pen.register.number());
        self.buffer = *register;
        *register = if pen.register == POINTER { self.r11 } else { self.host };
    }

    /// Back into the cache, with the state of the program at `pc`, which is `STATE` or `SAME_STATE`.
    pub fn put_into(&mut self, context: &mut UserContext, pc: u64, tag: Tag) {
        if !self.is_traced() {
            return;
        }
        let registers = core::array::from_fn(|number| *context.register(number));
        self.write_state(&registers, context.rflags, pc, tag);
        self.resumed = if context.rflags & TRAP_FLAG != 0 { [context.rip, pc] } else { [0; 2] };
        let register = context.register(R11);
        self.r11 = *register;
        *register = self.buffer;
    }

    /// Whether a place in the cache where the program's state is whole is one before which nothing of the program has been
    /// executed since it went on: what it needs there has only been written down.
    pub fn has_only_written(&mut self, at: u64, pc: u64) -> bool {
        let [from, first] = core::mem::take(&mut self.resumed);
        first == pc && from != at
    }

    /// Writes down that something has happened.
    fn write<T: Copy>(&mut self, what: &T, tag: Tag) {
        self.write_behind(0, what, tag);
    }

    /// The same behind so many values of a record that was begun and becomes a part of this one.
    fn write_behind<T: Copy>(&mut self, values: u16, what: &T, tag: Tag) {
        let begun = size_of::<Tag>() as u64 + u64::from(values) * 8;
        if self.buffer + begun + LONGEST > self.start() + BUFFER_LEN {
            self.buffer = self.next_buffer(self.buffer, begun);
        }
        let (start, at) = (self.buffer, self.buffer + begun);
        // SAFETY: there is room in the buffer, which is this thread's.
        unsafe {
            (at as *mut T).write_unaligned(*what);
            // Whoever takes away what is left of a thread reads up to where there is no tag.
            core::sync::atomic::compiler_fence(Ordering::Release);
            (start as *mut Tag).write_volatile(tag);
        }
        self.buffer = at + size_of::<T>() as u64;
    }

    /// Writes down that a call of the kernel was not made.
    pub fn write_not_called(&mut self) {
        if self.is_traced() {
            self.write(&(), NOT_CALLED);
        }
    }

    /// The thread may end with what it is about to do.
    pub fn hand_over(&mut self) {
        if self.is_traced() {
            self.buffer = self.next_buffer(self.buffer, 0);
        }
    }

    /// Says which thread it is.
    pub fn sign(&self) {
        if self.is_traced() {
            self.ring().tid.store(self.tid, Ordering::Relaxed);
        }
    }

    /// Gives a buffer away that has been filled up to some place. What lies behind that place goes to the beginning of the next
    /// buffer, when that is empty: where it begins.
    fn next_buffer(&mut self, end: u64, more: u64) -> u64 {
        let ring = self.ring();
        let filled = ring.filled.load(Ordering::Relaxed);
        let start = self.ring + buffer(filled);
        let mut waits = !ring.has_room_behind(filled);
        while self.is_collected && waits {
            const LONG: u64 = 100_000_000;
            let room = ring.room.load(Ordering::Acquire);
            waits = !ring.has_room_for_who_waits(filled);
            if waits && !kernel::futex_wait_for(ring.room.as_ptr(), room, LONG) {
                waits = !ring.has_room_behind(filled);
                // Nobody wants to know any more, if the tool has ended.
                self.is_collected = kernel::process_exists(self.tool);
            }
        }
        let next = if self.is_collected { self.ring + buffer(filled + 1) } else { start };
        // A record that begins where the buffer ends has nothing in it.
        let more = more.min(start + BUFFER_LEN - end);
        // SAFETY: both are in the ring, and this thread's. An empty buffer is all zero.
        unsafe {
            core::ptr::copy(end as *const u8, next as *mut u8, more as usize);
            core::ptr::write_bytes(end as *mut u8, 0, more as usize);
        }
        if self.is_collected {
            let index = filled as usize % BUFFERS;
            ring.lens[index].store((end - start) as u32, Ordering::Relaxed);
            ring.tids[index].store(self.tid, Ordering::Relaxed);
            ring.filled.store(filled + 1, Ordering::Release);
        }
        next
    }

    /// Whether a fault means that a buffer is full. Then the record that was begun goes on in the next one.
    pub fn has_filled(&mut self, address: u64, context: &mut UserContext) -> bool {
        if !self.is_traced() || address.wrapping_sub(self.ring) >= RING_LEN {
            return false;
        }
        let Some(register) = base(context.rip) else { return false };
        let register = context.register(register.number());
        *register = self.next_buffer(*register, address - *register);
        true
    }

    /// Whether a fault means that the program wants accesses to memory to be aligned, as java does for a moment to find out what the processor
    /// is, while a value is written down: values are not. Then it is written here.
    pub fn writes_askew(&mut self, context: &mut UserContext) -> bool {
        if !self.is_traced() {
            return false;
        }
        let Some(insn) = instruction(context.rip) else { return false };
        let mut operands = insn.operands();
        let (Some(Operand::Memory(memory)), Some(what)) = (operands.next(), operands.next()) else {
            return false;
        };
        let (Some(base), 8) = (memory.base, memory.width) else { return false };
        let value = match what {
            Operand::Register(name) if name.class == RegisterClass::General => {
                *context.register(name.number.into())
            }
            _ => return false,
        };
        let address = context.register(base.number.into()).wrapping_add_signed(memory.displacement);
        if address.wrapping_sub(self.ring) >= RING_LEN {
            return false;
        }
        let end = self.start() + BUFFER_LEN;
        if address + size_of::<u64>() as u64 > end {
            // It is tried again there.
            return self.has_filled(end, context);
        }
        // SAFETY: in the thread's buffer, where it was about to be written.
        unsafe { (address as *mut u64).write_unaligned(value) };
        context.rip = insn.next_addr().0;
        true
    }
}

/// The time, not before all that has been done.
fn time() -> u64 {
    // SAFETY: every processor of this kind has both.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

/// An instruction that has just been executed.
fn instruction(at: u64) -> Option<Insn> {
    // SAFETY: as it says. Where code may end, instructions are not read to their longest.
    let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, translate::LONGEST) };
    Insn::decode(bytes, LinkAddr(at))
}

/// The register by which an instruction in the cache finds its memory.
fn base(at: u64) -> Option<Gpr> {
    instruction(at)?.operands().find_map(|operand| match operand {
        Operand::Memory(memory) => Gpr::all().nth(memory.base?.number.into()),
        _ => None,
    })
}
