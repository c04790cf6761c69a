//! What the kernel puts on the stack for a signal handler, and takes back when it returns.

use crate::thread::register;

/// A signal stack, as `sigaltstack` has it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignalStack {
    /// Its lowest address.
    pub start: u64,
    /// [`ON_STACK`], [`DISABLED`], and what else the kernel may know.
    pub flags: u32,
    fill: u32,
    /// Its length.
    pub len: u64,
}

/// It is in use just now.
pub const ON_STACK: u32 = 1;
/// There is none.
pub const DISABLED: u32 = 2;
/// There is none while a handler runs on it.
pub const ONE_AT_A_TIME: u32 = 1 << 31;

impl SignalStack {
    /// None.
    pub const NONE: Self = Self { start: 0, flags: DISABLED, fill: 0, len: 0 };

    /// One of the engine's.
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start, flags: 0, fill: 0, len }
    }

    /// Whether a stack pointer is on it.
    pub const fn holds(&self, pointer: u64) -> bool {
        self.flags & (DISABLED | ONE_AT_A_TIME) == 0 && self.reaches(pointer)
    }

    /// The same, whatever is at work on it.
    pub const fn reaches(&self, pointer: u64) -> bool {
        pointer > self.start && pointer - self.start <= self.len
    }
}

/// The state of the program, in the kernel's order: `ucontext` with all that the kernel uses of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UserContext {
    flags: u64,
    link: u64,
    /// The signal stack at that time.
    pub stack: SignalStack,
    r8_to_r15: [u64; 8],
    rdi: u64,
    rsi: u64,
    rbp: u64,
    rbx: u64,
    rdx: u64,
    rax: u64,
    rcx: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The program counter.
    pub rip: u64,
    /// The flags.
    pub rflags: u64,
    segments: u64,
    /// About a fault of memory.
    pub error: u64,
    trap: u64,
    old_mask: u64,
    fault: u64,
    /// Where the rest of the state is: see [`extended_len`].
    pub extended: u64,
    reserved: [u64; 8],
    /// Blocked signals.
    pub mask: u64,
}

const _: () = assert!(size_of::<UserContext>() == 304);

impl UserContext {
    /// A register, by its hardware number.
    pub fn register(&mut self, number: usize) -> &mut u64 {
        match number {
            register::RAX => &mut self.rax,
            register::RCX => &mut self.rcx,
            register::RDX => &mut self.rdx,
            3 => &mut self.rbx,
            register::RSP => &mut self.rsp,
            5 => &mut self.rbp,
            register::RSI => &mut self.rsi,
            register::RDI => &mut self.rdi,
            _ => &mut self.r8_to_r15[number - 8],
        }
    }
}

/// What the kernel says about a signal: its number, and more.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SignalInfo {
    /// The signal.
    pub number: i32,
    errno: i32,
    /// Why.
    pub code: i32,
    fill: i32,
    /// For faults, the address.
    pub address: u64,
    rest: [u64; 13],
}

const _: () = assert!(size_of::<SignalInfo>() == 128);

impl SignalInfo {
    /// Nothing.
    pub const NONE: Self = Self::new(0);

    /// Whether the thread's own instruction caused it. (The kernel says so in other ways for other signals.)
    pub const fn is_fault(&self) -> bool {
        const ILL_TRAP_BUS_FPE_SEGV: u64 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 11;
        self.code > 0 && self.number > 0 && ILL_TRAP_BUS_FPE_SEGV & 1 << self.number != 0
    }

    /// A number and nothing else.
    pub const fn new(number: i32) -> Self {
        Self { number, errno: 0, code: 0, fill: 0, address: 0, rest: [0; 13] }
    }
}

/// What lies on the stack when a handler starts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Frame {
    /// Where the handler returns to.
    pub restorer: u64,
    /// The interrupted state.
    pub context: UserContext,
    /// What happened.
    pub info: SignalInfo,
}

/// How long the rest of a state is: vector registers and what else the processor has.
///
/// # Safety
/// `at` is where the kernel has put one.
pub unsafe fn extended_len(at: u64) -> u64 {
    const MAGIC: u32 = 0x4650_5853;
    const LEGACY: u64 = 512;
    // SAFETY: the first 512 bytes are always there; the last 48 of them are for the kernel to say more.
    let (magic, len) = unsafe { (*((at + 464) as *const u32), *((at + 468) as *const u32)) };
    if magic == MAGIC { u64::from(len) } else { LEGACY }
}

/// Makes it what a program starts with.
///
/// # Safety
/// As above.
pub unsafe fn reset_extended(at: u64) {
    const DEFAULT_MXCSR: u32 = 0x1f80;
    // SAFETY: the header behind the first 512 bytes says which parts are not in their initial state.
    unsafe {
        *((at + 24) as *mut u32) = DEFAULT_MXCSR;
        if extended_len(at) > 512 {
            *((at + 512) as *mut u64) = 0;
        }
    }
}
