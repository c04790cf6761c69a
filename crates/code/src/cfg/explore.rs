//! Recursive traversal: decode everything control can reach, remember where blocks begin and end.

use super::{Problem, Reason};
use crate::addr::{AddrRange, LinkAddr};
use crate::isa::{Decode, Flow, Insn, fill_len};
use crate::source::{Returns, Surroundings};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::OnceCell;
use iced_x86::Mnemonic;

/// An instruction starts here.
const START: u8 = 1;
/// A block starts here.
const LEADER: u8 = 2;
/// The instruction that starts here ends its block.
const ENDER: u8 = 4;
/// Some instruction covers this byte.
const COVERED: u8 = 8;
/// Reached from an entry, not by the sweep over what is left.
const REACHED: u8 = 16;

/// One piece of a function with a note on every byte.
#[derive(Clone)]
pub(super) struct Piece {
    pub(super) range: AddrRange,
    marks: Vec<u8>,
}

/// The last instruction of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ender {
    pub(super) at: LinkAddr,
    pub(super) next: LinkAddr,
    pub(super) flow: Flow,
    /// The memory slot an indirect call or jump reads, if fixed.
    pub(super) slot: Option<LinkAddr>,
    /// Whether control goes on behind it.
    pub(super) goes_on: bool,
    /// A return right behind a push: a jump in disguise to what was pushed.
    pub(super) pushed: bool,
}

impl Ender {
    /// Whether only data flow tells where it leads.
    pub(super) fn is_computed(&self) -> bool {
        self.flow == Flow::IndirectJump || self.pushed
    }
}

/// A stretch of instructions that is entered at its start only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) range: AddrRange,
    pub(super) insns: u32,
    pub(super) last: LinkAddr,
    pub(super) reached: bool,
}

/// What is known of the function so far.
pub(super) struct Explorer<'a, S: ?Sized> {
    surroundings: &'a S,
    pub(super) pieces: Vec<Piece>,
    pub(super) enders: Vec<Ender>,
    /// Calls among the enders, by the address behind them.
    calls: BTreeMap<LinkAddr, usize>,
    pub(super) problems: Vec<Problem>,
    /// Addresses outside the pieces that control falls or jumps to.
    pending: Vec<LinkAddr>,
    /// Instruction starts of a straight decode, computed when first asked for.
    linear: OnceCell<Vec<LinkAddr>>,
    /// Code that runs was found, or a jump that only data flow explains.
    pub(super) has_news: bool,
}

// Derived, it would ask for surroundings that can be cloned.
impl<S: ?Sized> Clone for Explorer<'_, S> {
    fn clone(&self) -> Self {
        Self {
            surroundings: self.surroundings,
            pieces: self.pieces.clone(),
            enders: self.enders.clone(),
            calls: self.calls.clone(),
            problems: self.problems.clone(),
            pending: self.pending.clone(),
            linear: self.linear.clone(),
            has_news: self.has_news,
        }
    }
}

impl<'a, S: Surroundings + ?Sized> Explorer<'a, S> {
    pub(super) fn new(surroundings: &'a S, pieces: &[AddrRange]) -> Self {
        let pieces =
            pieces.iter().map(|&range| Piece { range, marks: vec![0; range.len() as usize] }).collect();
        Self {
            surroundings,
            pieces,
            enders: Vec::new(),
            calls: BTreeMap::new(),
            problems: Vec::new(),
            pending: Vec::new(),
            linear: OnceCell::new(),
            has_news: false,
        }
    }

    pub(super) fn surroundings(&self) -> &'a S {
        self.surroundings
    }

    /// Whether some block found so far ends in a jump that only data flow explains.
    pub(super) fn computes(&self) -> bool {
        self.enders.iter().any(Ender::is_computed)
    }

    pub(super) fn problem(&mut self, reason: Reason, at: LinkAddr) {
        let problem = Problem { reason, at };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    fn piece_of(&self, at: LinkAddr) -> Option<usize> {
        let behind = self.pieces.partition_point(|p| p.range.start <= at);
        let index = behind.checked_sub(1)?;
        self.pieces[index].range.contains(at).then_some(index)
    }

    /// Whether `at` lies in the function.
    pub(super) fn is_inside(&self, at: LinkAddr) -> bool {
        self.piece_of(at).is_some()
    }

    /// Whether a jump may lead to `at`, outside the function: there is code, or it is right behind a piece. That is where
    /// compilers lead control that they know never gets there (`__builtin_unreachable`, behind a call that never returns).
    pub(super) fn is_outside(&self, at: LinkAddr) -> bool {
        self.surroundings.is_code(at) || self.pieces.iter().any(|piece| piece.range.end == at)
    }

    /// Whether `at` is where an instruction starts when the piece is decoded from its start, one after the
    /// other: so it is for every jump target in code a compiler made.
    pub(super) fn is_linear_start(&self, at: LinkAddr) -> bool {
        let starts = self.linear.get_or_init(|| {
            let mut starts = Vec::new();
            for piece in &self.pieces {
                let bytes = self.surroundings.bytes(piece.range.start);
                let bytes = &bytes[..bytes.len().min(piece.range.len() as usize)];
                starts.extend(Decode::new(bytes, piece.range.start).map(|insn| insn.addr()));
            }
            starts
        });
        starts.binary_search(&at).is_ok()
    }

    /// Whether the function, or a piece of it, ends at `at`.
    pub(super) fn is_end(&self, at: LinkAddr) -> bool {
        self.pieces.iter().any(|p| p.range.end == at)
    }

    /// The call that ends right before `at` and was taken not to return is taken to return after all.
    pub(super) fn revive_call_before(&mut self, at: LinkAddr) -> bool {
        let Some(&i) = self.calls.get(&at).filter(|&&i| !self.enders[i].goes_on) else { return false };
        if self.surroundings.stated_return(at).is_some() {
            return false;
        }
        self.enders[i].goes_on = true;
        true
    }

    /// Whether the call that ends right before `at` only seems not to return.
    pub(super) fn is_doubtful_call_before(&self, at: LinkAddr) -> bool {
        self.calls.get(&at).is_some_and(|&i| self.is_doubtful(&self.enders[i]))
    }

    fn is_doubtful(&self, ender: &Ender) -> bool {
        match ender.flow {
            Flow::Call(target) => {
                !ender.goes_on
                    && self.surroundings.stated_return(ender.next).is_none()
                    && self.surroundings.returns(target) == Returns::SeeminglyNot
            }
            _ => false,
        }
    }

    /// Calls that only seem not to return get an edge to what follows them, where that is code anyway:
    /// an edge too many does no harm.
    pub(super) fn revive_doubtful_calls(&mut self) {
        for i in 0..self.enders.len() {
            let ender = self.enders[i];
            if self.is_doubtful(&ender) && self.mark(ender.next) & (START | LEADER) == START | LEADER {
                self.enders[i].goes_on = true;
            }
        }
        // Dead code behind such a call is dead no more, and may hold more of them.
        while let Some(next) = self.enders.iter().find(|ender| self.wakes_next(ender)).map(|ender| ender.next)
        {
            self.explore(next, true);
        }
    }

    /// Whether it is reached and goes on, but what follows is not known to be reached.
    fn wakes_next(&self, ender: &Ender) -> bool {
        ender.goes_on
            && self.mark(ender.at) & REACHED != 0
            && self.mark(ender.next) & (START | REACHED) == START
    }

    fn mark(&self, at: LinkAddr) -> u8 {
        self.piece_of(at).map_or(0, |i| {
            let piece = &self.pieces[i];
            piece.marks[at.since(piece.range.start) as usize]
        })
    }

    /// Whether `at` is inside a known instruction, behind its first byte.
    pub(super) fn is_inside_insn(&self, at: LinkAddr) -> bool {
        self.mark(at) & (START | COVERED) == COVERED
    }

    /// Explores everything reachable from `at`, which is inside the function.
    pub(super) fn explore(&mut self, at: LinkAddr, reached: bool) {
        self.lead(at, reached);
        while let Some(at) = self.pending.pop() {
            self.run(at, reached);
        }
    }

    /// Notes that a block starts at `at`, and that it wants decoding if it is new.
    fn lead(&mut self, at: LinkAddr, reached: bool) {
        let Some(index) = self.piece_of(at) else { return };
        let piece = &mut self.pieces[index];
        let mark = &mut piece.marks[at.since(piece.range.start) as usize];
        *mark |= LEADER;
        let wanted = START | if reached { REACHED } else { 0 };
        if *mark & wanted != wanted {
            self.pending.push(at);
        }
    }

    /// Decodes from `at` until control goes elsewhere or known ground is reached.
    fn run(&mut self, start: LinkAddr, reached: bool) {
        let Some(index) = self.piece_of(start) else { return };
        let range = self.pieces[index].range;
        let surroundings = self.surroundings;
        let mut insns = Decode::new(surroundings.bytes(start), start);
        let mut at = start;
        let mut pushed = false;
        let stamp = START | COVERED | if reached { REACHED } else { 0 };
        loop {
            let offset = at.since(range.start) as usize;
            if at >= range.end {
                self.falls_out(at, start);
                return;
            }
            let mark = self.pieces[index].marks[offset];
            if mark & START != 0 && (mark & REACHED != 0 || !reached) {
                // Known ground. A block boundary here only if somebody marked one.
                return;
            }
            if mark & (START | COVERED) == COVERED {
                self.problem(Reason::OverlappingInstructions, at);
            }
            let Some(insn) = insns.next() else {
                self.problem(Reason::Undecodable, at);
                return;
            };
            let len = insn.len() as usize;
            if insn.next_addr() > range.end {
                self.problem(Reason::RunsOffTheEnd, at);
                return;
            }
            let again = mark & START != 0;
            let marks = &mut self.pieces[index].marks;
            marks[offset] |= stamp;
            self.has_news |= reached;
            for mark in &mut marks[offset + 1..offset + len] {
                if *mark & START != 0 {
                    // Two readings of the same bytes: the problem is noted once, at the inner one.
                    let inner = Problem { reason: Reason::OverlappingInstructions, at };
                    if !self.problems.contains(&inner) {
                        self.problems.push(inner);
                    }
                }
                *mark |= COVERED;
            }
            // A breakpoint at the end of everything is there to stop whoever comes so far.
            let stops = insn.is_breakpoint() && self.only_fill_behind(insn.next_addr());
            let flow = if stops { Flow::Stop } else { insn.flow() };
            if flow == Flow::Next {
                at = insn.next_addr();
                pushed = insn.raw.mnemonic() == Mnemonic::Push;
                continue;
            }
            let goes_on = self.end_block(&insn, flow, again, reached);
            if pushed
                && flow == Flow::Return
                && !again
                && let Some(ender) = self.enders.last_mut()
            {
                ender.pushed = true;
                self.has_news = true;
            }
            pushed = false;
            if !goes_on {
                return;
            }
            at = insn.next_addr();
        }
    }

    /// Notes the end of a block and everything control may do there; whether it goes on behind.
    fn end_block(&mut self, insn: &Insn, flow: Flow, again: bool, reached: bool) -> bool {
        let slot = match flow {
            Flow::IndirectCall | Flow::IndirectJump => insn.fixed_memory_operand(),
            _ => None,
        };
        let next = insn.next_addr();
        let mut goes_on = match flow {
            Flow::Next | Flow::Branch(_) => true,
            // `call next; pop reg` reads the program counter: always goes on.
            Flow::Call(target) => target == next || self.surroundings.returns(target) == Returns::Yes,
            Flow::IndirectCall => {
                slot.is_none_or(|slot| self.surroundings.returns_through(slot) == Returns::Yes)
            }
            Flow::Jump(_) | Flow::IndirectJump | Flow::Return | Flow::Stop => false,
        };
        if matches!(flow, Flow::Call(_) | Flow::IndirectCall) {
            goes_on = match self.surroundings.stated_return(next) {
                Some(stated) => stated,
                // Nothing but fill up to the end of the piece: the compiler knew that it does not come back.
                None => goes_on && !self.only_fill_behind(next),
            };
        }
        if !again {
            let at = insn.addr();
            let index = self.piece_of(at).expect("decoded inside a piece");
            let piece = &mut self.pieces[index];
            piece.marks[at.since(piece.range.start) as usize] |= ENDER;
            if matches!(flow, Flow::Call(_) | Flow::IndirectCall) {
                self.calls.insert(next, self.enders.len());
            }
            self.has_news |= flow == Flow::IndirectJump;
            self.enders.push(Ender { at, next, flow, slot, goes_on, pushed: false });
        }
        match flow {
            Flow::Jump(target) | Flow::Branch(target) => {
                if self.is_inside(target) {
                    self.lead(target, reached);
                } else if !self.is_outside(target) {
                    self.problem(Reason::JumpToNowhere, insn.addr());
                }
            }
            _ => {}
        }
        if goes_on {
            self.lead_quietly(next);
        }
        goes_on
    }

    /// Notes a block start that the current run is about to decode anyway.
    fn lead_quietly(&mut self, at: LinkAddr) {
        if let Some(index) = self.piece_of(at) {
            let piece = &mut self.pieces[index];
            piece.marks[at.since(piece.range.start) as usize] |= LEADER;
        }
    }

    /// Whether nothing but fill lies between `at` and the end of its piece.
    fn only_fill_behind(&self, at: LinkAddr) -> bool {
        let Some(index) = self.piece_of(at) else {
            // At the very end of its piece, where the next function begins.
            return true;
        };
        is_fill(self.surroundings, AddrRange::new(at, self.pieces[index].range.end))
    }

    /// Control reached the end of a piece by going on.
    fn falls_out(&mut self, at: LinkAddr, from: LinkAddr) {
        if self.piece_of(at).is_some() {
            // The next piece of the same function lies right behind.
            self.lead(at, true);
        } else if !self.surroundings.is_function_start(at) {
            self.problem(Reason::RunsOffTheEnd, from);
        }
    }

    /// Ends the last piece where the last instruction found in it ends.
    pub(super) fn close(&mut self) {
        if let Some(piece) = self.pieces.last_mut() {
            let used = piece.marks.iter().rposition(|mark| mark & COVERED != 0).map_or(0, |last| last + 1);
            piece.marks.truncate(used);
            piece.range.end = piece.range.start.offset(used as u64);
        }
    }

    /// The first stretch of `range`, which lies in one piece, that no instruction covers.
    pub(super) fn first_hole_in(&self, range: AddrRange) -> Option<AddrRange> {
        let piece = &self.pieces[self.piece_of(range.start)?];
        let offset = |at: LinkAddr| at.since(piece.range.start) as usize;
        let marks = &piece.marks[offset(range.start)..offset(range.end)];
        let covered = |mark: &u8| mark & (START | COVERED) != 0;
        let first = marks.iter().position(|mark| !covered(mark))?;
        let len = marks[first..].iter().position(covered).unwrap_or(marks.len() - first);
        Some(AddrRange::sized(range.start.offset(first as u64), len as u64))
    }

    /// Everything between known instructions, by address.
    pub(super) fn holes(&self) -> Vec<AddrRange> {
        let mut holes = Vec::new();
        for piece in &self.pieces {
            let mut open: Option<u64> = None;
            for (offset, mark) in piece.marks.iter().enumerate() {
                match (mark & (START | COVERED) != 0, open) {
                    (false, None) => open = Some(offset as u64),
                    (true, Some(from)) => {
                        holes.push(AddrRange::new(
                            piece.range.start.offset(from),
                            piece.range.start.offset(offset as u64),
                        ));
                        open = None;
                    }
                    _ => {}
                }
            }
            if let Some(from) = open {
                holes.push(AddrRange::new(piece.range.start.offset(from), piece.range.end));
            }
        }
        holes
    }

    /// The instructions found so far, cut into stretches at every block boundary.
    pub(super) fn stretches(&self) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for piece in &self.pieces {
            let mut current: Option<Stretch> = None;
            let mut ended = false;
            let mut offset = 0;
            while let Some(&mark) = piece.marks.get(offset) {
                if mark & START == 0 {
                    if mark & COVERED == 0 {
                        stretches.extend(current.take());
                    }
                    offset += 1;
                    continue;
                }
                if mark & LEADER != 0 || ended {
                    stretches.extend(current.take());
                }
                ended = mark & ENDER != 0;
                let at = piece.range.start.offset(offset as u64);
                let open = current.get_or_insert(Stretch {
                    range: AddrRange::new(at, at),
                    insns: 0,
                    last: at,
                    reached: mark & REACHED != 0,
                });
                let behind = piece.marks[offset + 1..].iter();
                offset += 1 + behind.take_while(|&&mark| mark & (START | COVERED) == COVERED).count();
                open.insns += 1;
                open.last = at;
                open.range.end = piece.range.start.offset(offset as u64);
            }
            stretches.extend(current);
        }
        stretches
    }
}

/// Whether `range` holds nothing but instructions without effect, or zeros.
pub(super) fn is_fill<S: Surroundings + ?Sized>(surroundings: &S, range: AddrRange) -> bool {
    let bytes = surroundings.bytes(range.start).get(..range.len() as usize);
    bytes.is_some_and(|bytes| fill_len(bytes, range.start) == bytes.len())
}
