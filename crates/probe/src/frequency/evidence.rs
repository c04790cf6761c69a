//! What speaks for and against each way out of a branch.
//!
//! A sign is seen on one way, or on the answer to the question that the branch asks. Each is worth so much
//! for its way, as the logarithm of the odds, and the sum decides: the combination of Dempster and Shafer
//! that Wu and Larus use. What each is worth was fitted to runs of many programs, all at once, so that
//! signs that go together do not count twice: see docs/frequencies.md, also for hit rates.

use super::shape::{Shape, number};
use crate::graph::{ArcKind, Flow, Node};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{Block, BlockId, Cfg, End};
use relive_code::dominators::DominatorTree;
use relive_code::isa::{Against, EffectsReader, Gpr, Question, RegSet};
use relive_code::source::CodeSource;

/// Something that hints at how a branch goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    // Of one way.
    /// It only leads to calls that do not come back.
    Doomed,
    /// It leads to another piece of the function: compilers put apart what they think cold.
    Apart,
    /// It is the one that jumps: compilers lay out the likely way straight on.
    Taken,
    /// It jumps far ahead.
    Far,
    /// It jumps to where nothing falls through to, and only makes a detour there.
    Detour,
    /// There is fill in front of it: worth aligning.
    Aligned,
    /// It closes a loop.
    Back,
    /// It leaves a loop.
    Exit,
    /// It joins the other way, sooner or later: the other way is something done in addition.
    Joins,
    /// It is hardly worth a block of its own.
    Short,
    /// There is nothing but a jump.
    Empty,
    /// It calls a function that need not come back.
    Call,
    /// It calls only what is sure to come back.
    SteadyCall,
    /// It soon returns.
    Return,
    /// It soon returns a negative constant: an error.
    ReturnNegative,
    /// It soon returns zero.
    ReturnZero,
    /// It goes on with what was compared: the other way is for when that is of no use.
    Guard,

    // Of the answer yes.
    /// A pointer, or something as large, is zero.
    ZeroPointer,
    /// Something that was just loaded is zero, or some bits of it are: most flags are off.
    ZeroLoaded,
    /// Some bits are all zero.
    ZeroBits,
    /// Equal to a constant that is not zero.
    EqualConstant,
    /// Equal to another value.
    EqualValue,
    /// Less than zero.
    Negative,
    /// Less than a constant.
    LessConstant,
    /// Less than a constant, without a sign: in range.
    BelowConstant,
    /// Not a number, or an overflow.
    Odd,
}

/// What each sign is worth for its way.
pub const WEIGHTS: [(Sign, f64); 26] = [
    (Sign::Doomed, -4.00),
    (Sign::Apart, -3.00),
    (Sign::Taken, -0.45),
    (Sign::Far, -0.36),
    (Sign::Detour, -0.21),
    (Sign::Aligned, 0.06),
    (Sign::Back, 0.27),
    (Sign::Exit, -0.63),
    (Sign::Joins, 0.06),
    (Sign::Short, -0.24),
    (Sign::Empty, -0.26),
    (Sign::Call, -0.44),
    (Sign::SteadyCall, -0.13),
    (Sign::Return, -0.17),
    (Sign::ReturnNegative, -0.85),
    (Sign::ReturnZero, -0.39),
    (Sign::Guard, 0.33),
    (Sign::ZeroPointer, -0.31),
    (Sign::ZeroLoaded, 0.27),
    (Sign::ZeroBits, 0.31),
    (Sign::EqualConstant, -0.20),
    (Sign::EqualValue, -0.45),
    (Sign::Negative, -0.83),
    (Sign::LessConstant, 0.40),
    (Sign::BelowConstant, 0.24),
    (Sign::Odd, -1.76),
];

/// A jump as far ahead as this leads away from where things happen.
const FAR: u64 = 256;

/// A block of at most so many instructions is short.
const SHORT: u32 = 2;

/// A way is followed no further than this.
const STEPS: usize = 4;

/// A branch and what is seen of it.
pub struct Branch {
    /// The arc that is taken.
    pub taken: u32,
    /// The other one.
    pub other: u32,
    /// For each sign, 1 if it is seen on the way that is taken, -1 if on the other.
    pub signs: [i8; WEIGHTS.len()],
}

impl Branch {
    /// How likely it is taken.
    #[must_use]
    pub fn chance(&self) -> f64 {
        let odds: f64 =
            self.signs.iter().zip(WEIGHTS).map(|(&sign, (_, worth))| f64::from(sign) * worth).sum();
        1.0 / (1.0 + (-odds).exp())
    }
}

/// Looks at every branch.
#[must_use]
pub fn branches<S: CodeSource + ?Sized>(cfg: &Cfg, source: &S, flow: &Flow, shape: &Shape) -> Vec<Branch> {
    let branching = cfg.numbered_blocks().filter(|(_, block)| block.reached && block.end == End::Branch);
    let mut ends = Vec::new();
    for (id, _) in branching {
        let (mut taken, mut other) = (None, None);
        for &arc in shape.leaving(id.0) {
            match flow.arcs[arc as usize].kind {
                ArcKind::NoReturn => {}
                ArcKind::FallThrough => other = Some(arc),
                _ => taken = Some(arc),
            }
        }
        ends.extend(taken.zip(other).map(|(taken, other)| (id, taken, other)));
    }
    if ends.is_empty() {
        return Vec::new();
    }
    let view = View::new(cfg, source, flow, shape);
    let look = |(id, taken, other)| Branch { taken, other, signs: view.signs(id, taken, other) };
    ends.into_iter().map(look).collect()
}

/// Blocks and hubs that only lead to calls that do not come back: error paths.
#[must_use]
pub fn doomed(flow: &Flow, shape: &Shape) -> Vec<bool> {
    let mut doomed = vec![false; shape.len()];
    for &node in shape.order().iter().rev() {
        doomed[node as usize] = shape.leaving(node).iter().all(|&arc| {
            let arc = &flow.arcs[arc as usize];
            matches!(arc.kind, ArcKind::NoReturn | ArcKind::LandingPad)
                || number(flow, arc.to).is_some_and(|to| doomed[to as usize])
        });
    }
    doomed
}

/// What a branch asks.
#[derive(Clone, Copy)]
struct Asked {
    against: Against,
    register: Option<Gpr>,
    loaded: bool,
}

/// What a block does, or the blocks one gets to without being asked.
#[derive(Clone, Copy, Default)]
struct Doing {
    calls: bool,
    calls_unsteady: bool,
    returns: bool,
    result: Option<i64>,
}

/// What is known of a block.
#[derive(Clone, Copy, Default)]
struct Seen {
    doing: Doing,
    asks: Option<(Question, bool, Asked)>,
    /// What it reads before it writes it.
    needs: RegSet,
    aligned: bool,
    out_of_line: bool,
}

struct View<'a> {
    cfg: &'a Cfg,
    flow: &'a Flow,
    shape: &'a Shape,
    doomed: Vec<bool>,
    post: DominatorTree,
    seen: Vec<Seen>,
}

impl<'a> View<'a> {
    fn new<S: CodeSource + ?Sized>(cfg: &'a Cfg, source: &S, flow: &'a Flow, shape: &'a Shape) -> Self {
        let leaves = flow.arcs.iter().filter(|arc| arc.to == Node::Outside && arc.kind != ArcKind::NoReturn);
        let exits: Vec<u32> = leaves.filter_map(|arc| number(flow, arc.from)).collect();
        let mut reader = EffectsReader::new();
        // Flags outlive a branch that is not taken: three ways out of one comparison.
        let mut before: Option<(&Block, Option<Asked>)> = None;
        let mut seen = vec![Seen::default(); cfg.blocks.len()];
        for ((id, block), seen) in cfg.numbered_blocks().zip(&mut seen).filter(|((_, b), _)| b.reached) {
            let behind = before.filter(|(b, _)| b.end_addr() == block.start);
            let asked = behind.filter(|(b, _)| b.end == End::Branch).and_then(|(_, asked)| asked);
            let asked = seen.read(block, source, asked, &mut reader);
            let may_stay = |&arc: &u32| flow.arcs[arc as usize].kind == ArcKind::NoReturn;
            seen.doing.calls_unsteady = seen.doing.calls && shape.leaving(id.0).iter().any(may_stay);
            if id.0 > 0 {
                let above = &cfg.blocks[id.index() - 1];
                let falls =
                    cfg.edges_from(BlockId(id.0 - 1)).iter().any(|edge| edge.inner_target() == Some(id));
                seen.aligned = above.end_addr() != block.start;
                seen.out_of_line = matches!(above.end, End::Jump | End::IndirectJump) || !falls;
            }
            before = Some((block, asked));
        }
        let post = DominatorTree::post(shape.graph(), &exits);
        Self { cfg, flow, shape, doomed: doomed(flow, shape), post, seen }
    }

    fn at(&self, block: u32) -> LinkAddr {
        self.cfg.block(BlockId(block)).start
    }

    /// What is done from `at` on without a further question, and the last block of that.
    fn straight(&self, mut at: u32) -> (Doing, u32) {
        let mut doing = Doing::default();
        for _ in 0..STEPS {
            doing.add(self.seen[at as usize].doing);
            let mut on = self.shape.leaving(at).iter().map(|&arc| &self.flow.arcs[arc as usize]);
            let mut goes_on = || on.find(|arc| !matches!(arc.kind, ArcKind::NoReturn | ArcKind::LandingPad));
            let (Some(next), None) = (goes_on(), goes_on()) else { break };
            let Node::Block(to) = next.to else { break };
            if self.shape.retreats(at, to.0) || self.shape.graph().predecessors(to.0).len() > 1 {
                // Many ways share the end of a function.
                doing.returns |= self.seen[to.index()].doing.returns;
                break;
            }
            at = to.0;
        }
        (doing, at)
    }

    fn signs(&self, from: BlockId, taken: u32, other: u32) -> [i8; WEIGHTS.len()] {
        let mut signs = [0; WEIGHTS.len()];
        for (arc, way) in [(taken, 1), (other, -1)] {
            self.of_way(from.0, arc, &mut |sign| signs[sign as usize] += way);
        }
        if let Some((question, yes, asked)) = self.seen[from.index()].asks {
            of_answer(question, asked, |sign| signs[sign as usize] += if yes { 1 } else { -1 });
        }
        signs
    }

    fn of_way(&self, from: u32, arc: u32, see: &mut dyn FnMut(Sign)) {
        let arc = &self.flow.arcs[arc as usize];
        let loops = &self.shape.loops;
        let inner = loops.innermost(from);
        let is_taken = arc.kind != ArcKind::FallThrough;
        let Node::Block(to) = arc.to else {
            if inner.is_some() {
                see(Sign::Exit);
            }
            return;
        };
        let (to, block) = (to.0, self.cfg.block(to));
        let seen = &self.seen[to as usize];
        let (doing, last) = self.straight(to);
        let closes = self.shape.retreats(from, to) && inner.is_some_and(|inner| loops.contains(inner, to));
        let joins = self.post.dominates(to, from);
        let mut see_if = |holds: bool, sign| {
            if holds {
                see(sign);
            }
        };
        see_if(self.doomed[to as usize], Sign::Doomed);
        let piece = self.cfg.pieces.iter().find(|piece| piece.contains(self.at(from)));
        see_if(piece.is_some_and(|piece| !piece.contains(block.start)), Sign::Apart);
        see_if(is_taken && !closes, Sign::Taken);
        see_if(is_taken && block.start.0.saturating_sub(self.at(from).0) > FAR, Sign::Far);
        if is_taken && seen.out_of_line {
            let behind = self.shape.graph().successors(last);
            let returns_to = |&to: &u32| (to as usize) < self.cfg.blocks.len() && self.at(to) < block.start;
            let jumps = self.cfg.block(BlockId(last)).end == End::Jump;
            see_if(jumps && behind.first().is_some_and(returns_to), Sign::Detour);
        }
        see_if(seen.aligned, Sign::Aligned);
        see_if(closes, Sign::Back);
        see_if(inner.is_some_and(|inner| !loops.contains(inner, to)), Sign::Exit);
        see_if(block.insns <= SHORT, Sign::Short);
        see_if(block.insns == 1 && block.end == End::Jump, Sign::Empty);
        see_if(joins, Sign::Joins);
        if joins {
            // What comes anyway says nothing.
            return;
        }
        if doing.calls {
            see_if(true, if doing.calls_unsteady { Sign::Call } else { Sign::SteadyCall });
        }
        if doing.returns {
            see_if(true, Sign::Return);
            see_if(doing.result.is_some_and(|result| result < 0), Sign::ReturnNegative);
            see_if(doing.result == Some(0), Sign::ReturnZero);
        }
        let compared = self.seen[from as usize].asks.and_then(|(_, _, asked)| asked.register);
        see_if(compared.is_some_and(|register| seen.needs.intersects(RegSet::gpr(register))), Sign::Guard);
    }
}

/// Signs of the answer yes.
fn of_answer(question: Question, asked: Asked, mut see: impl FnMut(Sign)) {
    if question == Question::Equal
        && asked.loaded
        && matches!(asked.against, Against::Zero(_) | Against::Mask)
    {
        see(Sign::ZeroLoaded);
    }
    match (question, asked.against) {
        (Question::Equal, Against::Zero(8)) => see(Sign::ZeroPointer),
        (Question::Equal, Against::Mask) => see(Sign::ZeroBits),
        (Question::Equal, Against::Constant) => see(Sign::EqualConstant),
        (Question::Equal, Against::Value) => see(Sign::EqualValue),
        (Question::Less, Against::Zero(_)) | (Question::Negative, _) => see(Sign::Negative),
        (Question::Less, Against::Constant) => see(Sign::LessConstant),
        (Question::Below, Against::Constant) => see(Sign::BelowConstant),
        (Question::Odd, _) => see(Sign::Odd),
        _ => {}
    }
}

impl Seen {
    /// Reads the block, before which `asked` was compared last; says what was, at its end.
    fn read<S: CodeSource + ?Sized>(
        &mut self,
        block: &Block,
        source: &S,
        mut asked: Option<Asked>,
        reader: &mut EffectsReader,
    ) -> Option<Asked> {
        let mut written = RegSet::EMPTY;
        let mut loaded = None;
        for insn in block.insns(source) {
            if insn.addr() == block.last_insn() && block.end == End::Branch {
                self.asks = insn.question().zip(asked).map(|((question, yes), asked)| (question, yes, asked));
                break;
            }
            let effects = reader.effects(&insn);
            self.needs |= effects.reads - written;
            written |= effects.writes;
            self.doing.result = insn.result_constant().or(self.doing.result);
            let register = insn.first_register();
            if let Some(against) = insn.compares() {
                let loaded = insn.touches_memory() || (register.is_some() && register == loaded);
                asked = Some(Asked { against, register, loaded });
            }
            if insn.loads() {
                loaded = register;
            }
        }
        self.doing.calls = block.end.is_call();
        self.doing.returns = block.end == End::Return;
        asked
    }
}

impl Doing {
    /// Does something more.
    fn add(&mut self, next: Self) {
        // A call overwrites the register of the result.
        self.result = next.result.or(self.result.filter(|_| !self.calls));
        self.calls |= next.calls;
        self.calls_unsteady |= next.calls_unsteady;
        self.returns |= next.returns;
    }
}
