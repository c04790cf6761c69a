//! Which registers and flags still matter: live at a point is what some way from there reads before
//! anything overwrites it.
//!
//! One function at a time. What callers and callees do with registers is for the caller of the
//! analysis to say, by a [`Convention`]. Every block is decoded once and summed up as what it uses and
//! what it kills; a backward worklist over the blocks does the rest. The 1.35 million blocks of gcc's
//! `cc1` take 0.43 s on one core, three quarters of it for decoding and [`EffectsReader`].
//!
//! Out of scope: what a signal handler looks at, and memory.

use crate::addr::LinkAddr;
use crate::cfg::{Block, BlockId, Cfg, Edge, EdgeKind, End, Target};
use crate::isa::{Effects, EffectsReader, Flag, Gpr, RegSet};
use crate::source::CodeSource;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// What the code on the other side of a call, a return or an unresolved jump does with registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Convention {
    /// What a callee may read.
    pub read_by_call: RegSet,
    /// What a callee overwrites on every way back, so that nothing of the old value is left.
    pub written_by_call: RegSet,
    /// What matters behind a call that never comes back: an exception may still carry it past this
    /// function to a handler in a caller.
    pub live_at_no_return: RegSet,
    /// What the caller may read once this function has returned.
    pub live_at_return: RegSet,
    /// What may be read where control goes on in another function.
    pub live_at_tail_call: RegSet,
    /// What may be read where nobody knows where control goes.
    pub live_at_unknown: RegSet,
}

impl Convention {
    /// Trusts the calling convention as little as can be afforded, for those who change code.
    ///
    /// Compilers that see both sides of a call agree on other registers than the convention's
    /// (`-fipa-ra`, local clones, hand-written code), so every register may carry a value into a call
    /// and out of a return, and a call kills nothing. The arithmetic flags alone are taken to carry
    /// nothing there: no compiler passes values in them. But a jump out of the function may lead into a
    /// piece of it that nobody recognised as such, and there flags may well matter. That costs little: it
    /// makes flags live into 1.0 % of `cc1`'s blocks rather than 0.2 %.
    #[must_use]
    pub fn cautious() -> Self {
        let all_but_flags = !RegSet::ARITHMETIC_FLAGS;
        Self {
            read_by_call: all_but_flags,
            written_by_call: RegSet::EMPTY,
            live_at_no_return: all_but_flags,
            live_at_return: all_but_flags,
            live_at_tail_call: RegSet::ALL,
            live_at_unknown: RegSet::ALL,
        }
    }

    /// The System V convention of x86-64 to the letter, for those who only look.
    #[must_use]
    pub fn system_v() -> Self {
        // The direction flag is clear at every call and return: somebody may rely on it.
        let always = RegSet::gpr(Gpr::RSP) | RegSet::flag(Flag::Df);
        let preserved = always
            | [Gpr::RBX, Gpr::RBP, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15].into_iter().collect::<RegSet>();
        // `al` counts the vector registers of a variadic call, `r10` is the static chain.
        let arguments = always
            | [Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::RCX, Gpr::R8, Gpr::R9, Gpr::RAX, Gpr::R10]
                .into_iter()
                .collect::<RegSet>()
            | vectors(8);
        let results = RegSet::gpr(Gpr::RAX) | RegSet::gpr(Gpr::RDX) | vectors(2) | RegSet::X87;
        Self {
            read_by_call: arguments,
            written_by_call: !preserved,
            live_at_no_return: preserved,
            live_at_return: preserved | results,
            live_at_tail_call: preserved | arguments,
            live_at_unknown: RegSet::ALL,
        }
    }

    /// What is live on a way out of the function.
    fn live_outside(&self, kind: EdgeKind) -> RegSet {
        match kind {
            EdgeKind::Return => self.live_at_return,
            EdgeKind::TailCall | EdgeKind::Jump | EdgeKind::Taken | EdgeKind::FallThrough => {
                self.live_at_tail_call
            }
            EdgeKind::Unknown | EdgeKind::Case | EdgeKind::CallReturn | EdgeKind::LandingPad => {
                self.live_at_unknown
            }
        }
    }
}

/// The first `count` vector registers.
fn vectors(count: u32) -> RegSet {
    (0..count).fold(RegSet::EMPTY, |set, number| set | RegSet::vector(number))
}

/// What the function at an address reads of what its caller left in registers, where that is known. It
/// goes before the convention.
pub type Callees<'a> = dyn Fn(LinkAddr) -> Option<RegSet> + Sync + 'a;

/// What is live where in one function.
pub struct Liveness<'a, S: ?Sized> {
    cfg: &'a Cfg,
    source: &'a S,
    convention: Convention,
    callees: &'a Callees<'a>,
    live_in: Vec<RegSet>,
    live_out: Vec<RegSet>,
}

impl<'a, S: CodeSource + ?Sized> Liveness<'a, S> {
    /// Solves the function. Code that cannot be read is taken to read everything.
    #[must_use]
    pub fn new(cfg: &'a Cfg, source: &'a S, convention: &Convention) -> Self {
        Self::with_callees(cfg, source, convention, &|_| None)
    }

    /// Solves the function, with what is known of the functions it calls and jumps to.
    #[must_use]
    pub fn with_callees(
        cfg: &'a Cfg,
        source: &'a S,
        convention: &Convention,
        callees: &'a Callees<'a>,
    ) -> Self {
        Self::with_summaries(cfg, source, convention, callees, &Summaries::new(cfg, source))
    }

    /// The same for whoever solves a function several times: `summaries` are those of `cfg`.
    #[must_use]
    pub fn with_summaries(
        cfg: &'a Cfg,
        source: &'a S,
        convention: &Convention,
        callees: &'a Callees<'a>,
        summaries: &Summaries,
    ) -> Self {
        let mut liveness = Self {
            cfg,
            source,
            convention: *convention,
            callees,
            live_in: vec![RegSet::EMPTY; cfg.blocks.len()],
            live_out: live_outside(cfg, convention, callees),
        };
        let with_callee = |(block, &summary): (&Block, &Summary)| {
            let mut summary = summary;
            if enters_callee(block) {
                summary.then(callee(block, convention, callees));
            }
            summary
        };
        let summaries: Vec<Summary> = cfg.blocks.iter().zip(&summaries.blocks).map(with_callee).collect();
        liveness.solve(&summaries);
        liveness
    }

    /// Spreads what is live against the edges until nothing changes. Blocks are visited in postorder,
    /// so that without loops one round is enough.
    fn solve(&mut self, summaries: &[Summary]) {
        let graph = self.cfg.graph();
        let order = graph.postorder();
        let mut pending = vec![true; order.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for &block in &order {
                let index = block as usize;
                if !core::mem::replace(&mut pending[index], false) {
                    continue;
                }
                for &next in graph.successors(block) {
                    self.live_out[index] |= self.live_in[next as usize];
                }
                let live = summaries[index].before(self.live_out[index]);
                if self.live_in[index] != live {
                    self.live_in[index] = live;
                    changed = true;
                    graph.predecessors(block).iter().for_each(|&from| pending[from as usize] = true);
                }
            }
        }
    }

    /// What is live before the first instruction of `block`.
    #[must_use]
    pub fn live_in(&self, block: BlockId) -> RegSet {
        self.live_in[block.index()]
    }

    /// What is live behind the last instruction of `block`. Behind a call that is what matters once it
    /// came back or threw; behind an instruction that never goes on, such as `ud2`, nothing does.
    #[must_use]
    pub fn live_out(&self, block: BlockId) -> RegSet {
        self.live_out[block.index()]
    }

    /// The instructions of `block` in order, each with what is live before it.
    #[must_use]
    pub fn per_insn(&self, block: BlockId) -> Vec<(LinkAddr, RegSet)> {
        let mut steps = Vec::new();
        let mut live = self.live_out(block);
        let step = |at, step| steps.push((at, step));
        let (convention, callees) = (&self.convention, self.callees);
        let mut reader = EffectsReader::new();
        if !each_step(self.cfg.block(block), self.source, convention, callees, &mut reader, step) {
            steps.iter_mut().for_each(|(_, step)| *step = Summary::UNREADABLE);
        }
        let backwards = steps.into_iter().rev().map(|(at, step)| {
            live = step.before(live);
            (at, live)
        });
        let mut before: Vec<_> = backwards.collect();
        before.reverse();
        before
    }
}

/// One line a block: what is live before it, and behind it.
impl<S: CodeSource + ?Sized> fmt::Display for Liveness<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, _) in self.cfg.numbered_blocks() {
            writeln!(f, "{id} in {:?} out {:?}", self.live_in(id), self.live_out(id))?;
        }
        Ok(())
    }
}

/// What an instruction, or several in a row, do to what is live.
#[derive(Clone, Copy, Default)]
struct Summary {
    /// Read before anything in the row kills it.
    uses: RegSet,
    kills: RegSet,
}

impl Summary {
    /// Of code nobody can read.
    const UNREADABLE: Self = Self { uses: RegSet::ALL, kills: RegSet::EMPTY };

    /// Adds what comes next.
    fn then(&mut self, next: Self) {
        self.uses |= next.uses - self.kills;
        self.kills |= next.kills;
    }

    /// What is live before it, if `live` is behind it.
    fn before(self, live: RegSet) -> RegSet {
        self.uses | (live - self.kills)
    }
}

/// What each block of a function does to what is live, whoever it calls: most of the work there is.
pub struct Summaries {
    blocks: Box<[Summary]>,
    writes: RegSet,
}

impl Summaries {
    /// Reads all instructions of the function.
    #[must_use]
    pub fn new<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S) -> Self {
        let mut reader = EffectsReader::new();
        let mut writes = RegSet::EMPTY;
        let of_block = |block: &Block| {
            let mut whole = Summary::default();
            let mut count = 0;
            for insn in block.insns(source) {
                let effects = reader.effects(&insn);
                whole.then(effects.into());
                writes |= effects.writes;
                count += 1;
            }
            if count == block.insns { whole } else { Summary::UNREADABLE }
        };
        let blocks = cfg.blocks.iter().map(of_block).collect();
        Self { blocks, writes }
    }

    /// Everything that any instruction of the function writes.
    #[must_use]
    pub fn writes(&self) -> RegSet {
        self.writes
    }
}

impl From<Effects> for Summary {
    fn from(effects: Effects) -> Self {
        Self { uses: effects.reads, kills: effects.kills }
    }
}

/// What the callee does that the block ends with.
fn callee(block: &Block, convention: &Convention, callees: &Callees<'_>) -> Summary {
    let known = match block.end {
        End::Call(to) => callees(to),
        _ => None,
    };
    Summary { uses: known.unwrap_or(convention.read_by_call), kills: convention.written_by_call }
}

/// Calls `step` with every instruction of `block`; whether that is all the block should hold.
fn each_step<S: CodeSource + ?Sized>(
    block: &Block,
    source: &S,
    convention: &Convention,
    callees: &Callees<'_>,
    reader: &mut EffectsReader,
    mut step: impl FnMut(LinkAddr, Summary),
) -> bool {
    let mut count = 0;
    for insn in block.insns(source) {
        let mut effect = Summary::from(reader.effects(&insn));
        count += 1;
        if count == block.insns && enters_callee(block) {
            effect.then(callee(block, convention, callees));
        }
        step(insn.addr(), effect);
    }
    count == block.insns
}

/// Whether it ends in a call of somebody else: `call next` only reads the program counter.
fn enters_callee(block: &Block) -> bool {
    block.end.is_call() && block.end != End::Call(block.end_addr())
}

/// For each block, what is live on the ways from it that leave the function.
fn live_outside(cfg: &Cfg, convention: &Convention, callees: &Callees<'_>) -> Vec<RegSet> {
    // Where control goes on in another function, that one reads, and then our caller.
    let outside = |edge: &Edge| match edge.to {
        Target::Outside(to) if edge.kind != EdgeKind::Unknown => {
            callees(to).map_or(convention.live_outside(edge.kind), |reads| reads | convention.live_at_return)
        }
        _ => convention.live_outside(edge.kind),
    };
    let without_edges = |block: &Block| match block.end {
        End::Stop => RegSet::EMPTY,
        End::Call(_) | End::IndirectCall(_) => convention.live_at_no_return,
        _ => convention.live_at_unknown,
    };
    let mut live: Vec<RegSet> = cfg.blocks.iter().map(without_edges).collect();
    for edges in cfg.edges.chunk_by(|a, b| a.from == b.from) {
        live[edges[0].from.index()] = edges
            .iter()
            .filter(|edge| !matches!(edge.to, Target::Block(_)))
            .fold(RegSet::EMPTY, |live, edge| live | outside(edge));
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::AddrRange;
    use crate::cfg::recover;
    use crate::testing::{self, BASE, FlatSource};
    use crate::verify::liveness::check;
    use crate::verify::random::fail;
    use alloc::string::{String, ToString};
    use proptest::test_runner::TestRunner;

    /// What is live before each instruction, as far as it is among `shown`; one line an instruction.
    fn live(code: &[u8], convention: &Convention, shown: RegSet) -> Vec<String> {
        let source = FlatSource(code.to_vec());
        let cfg = source.cfg();
        assert_eq!(cfg.problems, []);
        let liveness = Liveness::new(&cfg, &source, convention);
        check(&cfg, &source, convention, &liveness).unwrap();
        let all = cfg.numbered_blocks().flat_map(|(id, _)| liveness.per_insn(id));
        all.map(|(_, live)| (live & shown).to_string()).collect()
    }

    fn system_v(code: &[u8], shown: RegSet) -> Vec<String> {
        live(code, &Convention::system_v(), shown)
    }

    const RAX: RegSet = RegSet::gpr(Gpr::RAX);
    const RBX: RegSet = RegSet::gpr(Gpr::RBX);
    const RCX: RegSet = RegSet::gpr(Gpr::RCX);
    const RSI: RegSet = RegSet::gpr(Gpr::RSI);
    const RDI: RegSet = RegSet::gpr(Gpr::RDI);

    #[test]
    fn straight_code() {
        // mov eax, edi; add eax, esi; mov ecx, eax; ret
        let code = [0x89, 0xf8, 0x01, 0xf0, 0x89, 0xc1, 0xc3];
        assert_eq!(system_v(&code, RAX | RCX | RSI | RDI), ["rsi rdi", "rax rsi", "rax", "rax"]);
    }

    #[test]
    fn a_partial_write_keeps_the_rest_alive() {
        // mov al, 1; ret
        assert_eq!(system_v(&[0xb0, 1, 0xc3], RAX), ["rax", "rax"]);
    }

    #[test]
    fn a_branch_needs_what_either_way_needs() {
        // test edi, edi; je 1f; mov eax, esi; ret; 1: mov eax, ecx; ret
        let code = [0x85, 0xff, 0x74, 3, 0x89, 0xf0, 0xc3, 0x89, 0xc8, 0xc3];
        let shown = RAX | RCX | RSI | RDI | RegSet::flag(Flag::Zf) | RegSet::flag(Flag::Cf);
        assert_eq!(system_v(&code, shown), ["rcx rsi rdi", "rcx rsi zf", "rsi", "rax", "rcx", "rax"]);
    }

    #[test]
    fn a_loop_carries_round() {
        // 1: add eax, esi; dec edi; jne 1b; ret
        let code = [0x01, 0xf0, 0xff, 0xcf, 0x75, 0xfa, 0xc3];
        let shown = RAX | RSI | RDI | RegSet::flag(Flag::Zf);
        assert_eq!(system_v(&code, shown), ["rax rsi rdi", "rax rsi rdi", "rax rsi rdi zf", "rax"]);
    }

    #[test]
    fn calls_by_the_convention() {
        // cmp eax, eax; call outside; je .+0; ret
        let code = [0x39, 0xc0, 0xe8, 0xf9, 0x6f, 0, 0, 0x74, 0, 0xc3];
        let shown = RAX | RBX | RCX | RegSet::vector(7) | RegSet::vector(8) | RegSet::flag(Flag::Zf);
        assert_eq!(
            system_v(&code, shown),
            ["rax rcx rbx zmm7", "rax rcx rbx zmm7", "rax rbx zf", "rax rbx"],
            "the call reads arguments and overwrites the flags"
        );
        assert_eq!(
            live(&code, &Convention::cautious(), shown),
            [
                "rax rcx rbx zmm7 zmm8",
                "rax rcx rbx zf zmm7 zmm8",
                "rax rcx rbx zf zmm7 zmm8",
                "rax rcx rbx zmm7 zmm8"
            ],
            "the call may let everything pass"
        );
    }

    #[test]
    fn reading_the_program_counter_is_no_call() {
        // call next; pop rax; ret
        let code = [0xe8, 0, 0, 0, 0, 0x58, 0xc3];
        assert_eq!(system_v(&code, RAX | RBX | RCX), ["rbx", "rbx", "rax rbx"]);
    }

    #[test]
    fn behind_a_call_that_never_comes_back() {
        // call NO_RETURN
        let code = [0xe8, 0xfb, 0xef, 0x0f, 0];
        assert_eq!(system_v(&code, RAX | RBX), ["rax rbx"], "the unwinder may carry rbx to a caller");
    }

    #[test]
    fn nothing_matters_where_the_program_stops() {
        // mov eax, edi; ud2
        let code = [0x89, 0xf8, 0x0f, 0x0b];
        assert_eq!(live(&code, &Convention::cautious(), RegSet::ALL), ["rdi", ""]);
    }

    #[test]
    fn flags_matter_only_where_a_jump_leads_elsewhere() {
        let arithmetic = RegSet::ARITHMETIC_FLAGS;
        let cautious = Convention::cautious();
        assert_eq!(live(&[0xc3], &cautious, RegSet::FLAGS), ["df"], "ret");
        // jmp outside: perhaps into a piece of the same function.
        assert_eq!(live(&[0xe9, 0xfb, 0x6f, 0, 0], &cautious, arithmetic), ["cf pf af zf sf of"]);
        assert_eq!(system_v(&[0xe9, 0xfb, 0x6f, 0, 0], arithmetic), [""]);
    }

    #[test]
    fn a_landing_pad_needs_what_its_code_reads() {
        // call outside; ret; pad: mov rdi, rax; mov esi, ebx; call NO_RETURN
        let code = [0xe8, 0xfb, 0x6f, 0, 0, 0xc3, 0x48, 0x89, 0xc7, 0x89, 0xde, 0xe8, 0xf0, 0xef, 0x0f, 0];
        let source = FlatSource(code.to_vec());
        let mut outline = source.outline();
        outline.landing_pads = vec![(AddrRange::sized(BASE, 5), BASE.offset(6))];
        let cfg = recover(&source, &outline);
        let convention = Convention::system_v();
        let liveness = Liveness::new(&cfg, &source, &convention);
        check(&cfg, &source, &convention, &liveness).unwrap();
        let pad = cfg.landing_pads[0];
        assert_eq!((liveness.live_in(pad) & (RAX | RBX | RDI)).to_string(), "rax rbx");
        assert!(liveness.live_out(BlockId(0)).contains(liveness.live_in(pad)));
    }

    #[test]
    fn code_that_cannot_be_read_may_read_anything() {
        let source = FlatSource(vec![0xb8, 1, 0, 0, 0, 0xc3]);
        let cfg = source.cfg();
        let nothing = FlatSource(Vec::new());
        let convention = Convention::system_v();
        let liveness = Liveness::new(&cfg, &nothing, &convention);
        assert_eq!(liveness.live_in(BlockId(0)), RegSet::ALL);
        check(&cfg, &nothing, &convention, &liveness).unwrap();
    }

    #[test]
    fn text_form() {
        let source = FlatSource(vec![0x0f, 0x0b]);
        let cfg = source.cfg();
        let liveness = Liveness::new(&cfg, &source, &Convention::cautious());
        assert_eq!(liveness.to_string(), "bb0 in {} out {}\n");
    }

    #[test]
    fn agrees_with_the_definition() {
        let agrees = |source: FlatSource| {
            let cfg = source.cfg();
            for convention in [Convention::cautious(), Convention::system_v()] {
                let liveness = Liveness::new(&cfg, &source, &convention);
                check(&cfg, &source, &convention, &liveness).map_err(fail)?;
            }
            Ok(())
        };
        TestRunner::default().run(&testing::program(), agrees).unwrap();
        TestRunner::default().run(&testing::noise(), agrees).unwrap();
    }
}
