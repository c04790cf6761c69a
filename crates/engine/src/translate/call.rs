//! Calls and the ways back from them.
//!
//! The processor foresees where a return leads if it has seen a `call` before. So there is one, though the address
//! it puts on the stack is that in the cache, which nobody is meant to see: the first thing that happens where it
//! leads is that [`DROP`] takes it away. The return puts the address in the cache on the stack again. It finds it in
//! a table, by the low 16 bits of the program's return address, or some more; behind the call, a landing compares all above the
//! lowest 16.

use super::emit::{self, Buffer};
use super::{Exit, IN_RCX, RETURNING, STEP, Spilled, Step, Writer, free, leave};
use crate::processor;
use crate::thread::offset;
use alloc::vec::Vec;
use relive_abi::engine as abi;
use relive_code::isa::Gpr;

/// `lea rsp, [rsp + 8]`
pub const DROP: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 8];

/// A call in the cache. For others that end with the same call of the program there is no second one: a return is
/// foreseen only if the table has the landing behind the `call` that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The program's call.
    pub pc: u64,
    /// The address it comes back to.
    pub back: u64,
    /// The `call` in the cache: the program's return address is on the stack already.
    pub at: u64,
    /// Behind it.
    pub landing: u64,
    /// Behind that: the place that [`Self::way`] leads away from.
    pub body: u64,
    /// The way on in the program.
    pub way: Exit,
}

impl Writer<'_, '_> {
    /// The end of a unit with a call, after the return address has been put on the stack: to `to`, or computed.
    pub(super) fn call(&mut self, step: &Step, kind: u32, to: u64) {
        let (pc, back) = (step.pc(), step.insn.next_addr().0);
        let here = self.unit.hot.here();
        if let Some(at) = (self.request.calls)(back, pc).filter(|&at| emit::reaches(here, at)) {
            self.unit.hot.jump(at);
            self.unit.shared_call = Some(at);
            self.exit(kind, step.piece, pc, to, 0, 0);
            return;
        }
        let number = self.next_exit();
        let unknown = self.unit.cold.here();
        self.mark_cold(STEP);
        self.unit.cold.raw(&DROP);
        let stub = if kind == abi::CALL {
            self.mark_cold(to);
            leave(&mut self.unit.cold, number);
            unknown
        } else {
            self.mark_cold_spilled(IN_RCX, Spilled { rcx: true, ..Spilled::default() });
            // Others know the target better, and have dropped the address already.
            let dropped = self.unit.cold.here();
            self.unit.cold.store_number(offset::EXIT, number);
            self.unit.cold.jump_through(offset::ENTER_INDIRECT);
            dropped
        };
        let field = self.unit.hot.call(unknown);
        self.exit(kind, step.piece, pc, to, field, stub);

        let landing = self.unit.hot.here();
        self.landing(back);
        self.mark(back, Spilled::default());
        let after = self.next_exit();
        let stub = self.unit.cold.here();
        self.mark_cold(back);
        leave(&mut self.unit.cold, after);
        let body = self.unit.hot.here();
        let field = self.unit.hot.jump(stub);
        let way = Exit { to: back, from: pc, field, stub, piece: step.piece as u16, ..Exit::NONE };
        self.unit.call = Some(Call { pc, back, at: landing - CALL_LEN, landing, body, way });
    }

    /// Where a return to `pc` arrives; what follows is the code of that place.
    pub(super) fn landing(&mut self, pc: u64) {
        self.mark(STEP, Spilled::default());
        let needs_rcx = !free::overwrites(self.request.source, self.effects, pc, Gpr::RCX);
        landing(&mut self.unit.hot, pc, needs_rcx);
    }

    /// A return.
    pub(super) fn give_back(&mut self, step: &Step) {
        self.take_return(step);
        self.return_to_rcx(step);
    }

    /// Takes from the stack where a return leads, into `rcx`, which is spilled.
    pub(super) fn take_return(&mut self, step: &Step) -> Spilled {
        let pc = step.pc();
        let spilled = Spilled { rcx: true, ..Spilled::default() };
        self.unit.hot.store(offset::RCX, Gpr::RCX);
        self.mark(pc, spilled);
        self.unit.hot.raw(&[0x59]); // pop rcx
        self.mark(STEP, Spilled::default());
        if let [.., 0xc2, low, high] = *step.bytes() {
            // lea rsp, [rsp + n]
            self.unit.hot.raw(&[0x48, 0x8d, 0xa4, 0x24, low, high, 0, 0]);
        }
        spilled
    }

    /// Returns to where `rcx` says, which is spilled.
    pub(super) fn return_to_rcx(&mut self, step: &Step) {
        self.record_after();
        self.end_record(self.next_exit());
        self.choose_landing();
        self.mark(RETURNING, Spilled::default());
        self.unit.hot.push_from_table(offset::RETURNS);
        self.mark(STEP, Spilled::default());
        self.unit.hot.raw(&[0xc3]);
        self.exit(abi::RETURN, step.piece, step.pc(), 0, 0, 0);
    }

    /// Makes `rcx` the place in the table of the address it is, which the landing will compare.
    pub(super) fn choose_landing(&mut self) {
        self.mark(STEP, Spilled::default());
        choose_landing(&mut self.unit.hot);
    }

    /// Puts the address a call comes back to on the program's stack.
    pub(super) fn push_return(&mut self, to: u64) {
        Pushed::new(&mut self.unit.cold, to).push(&mut self.unit.hot);
    }
}

/// An address that is put on the program's stack.
#[derive(Clone, Copy)]
pub(super) enum Pushed {
    /// It is short.
    Number(i32),
    /// It lies there.
    At(u64),
}

impl Pushed {
    /// Puts it where it can be pushed from, if it is not short.
    pub(super) fn new(cold: &mut Buffer, to: u64) -> Self {
        if let Ok(short) = i32::try_from(to as i64) {
            return Self::Number(short);
        }
        // Aligned, for programs that ask the processor to check that.
        let fill = cold.here().next_multiple_of(8) - cold.here();
        cold.raw(&[0xcc; 8][..fill as usize]);
        let at = cold.here();
        cold.raw(&to.to_le_bytes());
        Self::At(at)
    }

    pub(super) fn push(self, code: &mut Buffer) {
        match self {
            Self::Number(short) => {
                code.raw(&[0x68]);
                code.raw(&short.to_le_bytes());
            }
            Self::At(at) => {
                code.raw(&[0xff, 0x35]);
                code.distance(at, 0);
            }
        }
    }
}

/// Makes `rcx` the place in the table of the address it is.
pub(super) fn choose_landing(code: &mut Buffer) {
    code.store(offset::TARGET, Gpr::RCX);
    if processor::can_extract() {
        code.raw(&[0x65, 0xc4, 0xe2, 0xf2, 0xf5, 0x0c, 0x25]); // pext rcx, rcx, gs:[…]
        code.raw(&offset::RETURNS_MASK.to_le_bytes());
    } else {
        code.raw(&[0x0f, 0xb7, 0xc9]); // movzx ecx, cx
    }
}

/// Where a return arrives: its target is in the thread's memory, and `rcx` is spilled. The place was chosen by the low
/// 16 bits of the address; goes on if those above are right too. (The highest 16 of a valid address are zero.)
///
/// Nothing here changes a flag.
pub fn landing(code: &mut Buffer, pc: u64, needs_rcx: bool) {
    // A load of all that was stored is faster than one of a part.
    let (load, rotate): (&[u8], &[u8]) = if processor::can_rotate() {
        (&[0x65, 0xc4, 0xe3, 0xfb, 0xf0, 0x0c, 0x25], &[16]) // rorx rcx, gs:[target], 16
    } else {
        (&[0x65, 0x8b, 0x0c, 0x25], &[]) // mov ecx, gs:[target + 2]
    };
    let from = if rotate.is_empty() { offset::TARGET + 2 } else { offset::TARGET };
    code.align_patch((load.len() + 4 + rotate.len() + COMPARED.len()) as u64);
    code.raw(load);
    code.raw(&from.to_le_bytes());
    code.raw(rotate);
    code.raw(&COMPARED);
    code.raw(&((pc >> 16) as u32).wrapping_neg().to_le_bytes());
    code.raw(&[0xe3, 8]); // jrcxz over the jump
    code.jump_through(offset::WRONG_LANDING);
    if needs_rcx {
        code.load(Gpr::RCX, offset::RCX);
    }
}

/// `lea ecx, [rcx - …]`: what follows is what a landing compares with.
const COMPARED: [u8; 2] = [0x8d, 0x89];

/// Makes a landing refuse every return.
pub fn close_landing(landing: u64) {
    // Addresses of programs are positive.
    const NO_ADDRESS: u32 = 1 << 31;
    // SAFETY: a landing lies in the cache.
    let before = (0..20).find(|&n| unsafe { *((landing + n) as *const [u8; 2]) } == COMPARED);
    if let Some(before) = before {
        crate::cache::overwrite(landing + before + COMPARED.len() as u64, NO_ADDRESS);
    }
}

/// The length of a `call`.
pub const CALL_LEN: u64 = 5;

/// Where to go on if a `call` at a place in the cache could not put its address on the stack, where the program may have no room;
/// `None` if there is no `call`. All are of the engine: those of calls of the program, and those that are [made up for](make_up), which go where `rcx` says.
pub fn skip_call(at: u64, rcx: u64) -> Option<u64> {
    // SAFETY: the caller has been there; instructions in the cache are not the last bytes of it.
    let bytes = unsafe { (at as *const [u8; CALL_LEN as usize]).read_unaligned() };
    let to = match bytes {
        [0xe8, distance @ ..] => (at + CALL_LEN).wrapping_add_signed(i64::from(i32::from_le_bytes(distance))),
        [first, second, ..] if [first, second] == MADE_UP => rcx,
        _ => return None,
    };
    Some(to + DROP.len() as u64)
}

/// `call rcx`: a call that the processor has not seen where the program made it. See [`Writer::make_up`].
const MADE_UP: [u8; 2] = [0xff, 0xd1];

/// Where calls are made up for that come back to `back`, whose code in the cache is at `body`. Behind the call is another landing.
pub fn make_up(code: &mut Buffer, back: u64, body: u64) -> u64 {
    code.raw(&MADE_UP);
    let behind = code.here();
    landing(code, back, true);
    code.jump(body);
    behind
}

/// What the program may use below its stack.
const RED_ZONE: i32 = 128;

impl Writer<'_, '_> {
    /// Code that tells the processor of calls that were followed, and are left before they have come back: it foresees returns by the
    /// calls that it has seen. Each has a place in the cache where it is [made up for](make_up), which all share that follow it, as only one landing
    /// can be found by the return.
    pub(super) fn make_up(&mut self, is_hot: bool) {
        let find = |back: &u64| self.request.made_up.iter().find(|call| call.0 == *back).map(|call| call.1);
        let calls: Vec<u64> = self.followed.iter().filter_map(find).collect();
        let code = if is_hot { &mut self.unit.hot } else { &mut self.unit.cold };
        let here = code.here();
        if calls.is_empty() || !calls.iter().all(|&at| emit::reaches(here, at)) {
            return;
        }
        let move_stack = |code: &mut Buffer, by: i32| {
            code.raw(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp + …]
            code.raw(&by.to_le_bytes());
        };
        code.store(offset::SCRATCH, Gpr::RCX);
        move_stack(code, -RED_ZONE);
        for at in calls {
            const JUMP_LEN: u64 = 5;
            code.raw(&[0x48, 0x8d, 0x0d]); // lea rcx, behind the jump
            code.raw(&(JUMP_LEN as u32).to_le_bytes());
            code.raw(&[0xe9]);
            code.distance(at, 0);
            code.raw(&DROP);
        }
        move_stack(code, RED_ZONE);
        code.load(Gpr::RCX, offset::SCRATCH);
    }
}
