//! Hashes of blocks at BMAT's levels of fuzziness, re-stated for x86-64. See `docs/matching.md`.
//!
//! A hash holds what a block says by itself. What it refers to (functions, data) is kept beside it as a list, because
//! whether two references are the same depends on what has been matched so far: [`crate::identity`] adds it.

use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Insn, MemoryOperand, Operand, RegisterClass, RegisterName};
use relive_profile::model::Level;

/// Levels that have a hash: all of BMAT's.
pub(crate) const HASHED: usize = 8;

/// The place of a level in a list of hashes.
pub(crate) const fn index(level: Level) -> usize {
    level as usize
}

/// One hash for each level.
pub(crate) type Hashes = [u64; HASHED];

/// Mixes a number into a hash.
pub(crate) const fn mix(hash: u64, number: u64) -> u64 {
    let mixed = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_add(hash.rotate_left(17))
}

/// What is known of the surroundings of a block.
pub(crate) trait Surroundings {
    /// The ordinal of the block of the same function that begins at `at`.
    fn own_block(&self, at: LinkAddr) -> Option<u32>;

    /// Whether `at`, mentioned in an instruction, is something the module has; if so, it is noted as a reference.
    fn note(&mut self, at: LinkAddr, how: Mention) -> bool;

    /// How many references were noted.
    fn noted(&self) -> usize;
}

/// How an address is mentioned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mention {
    /// It is called or jumped to.
    Transfer,
    /// It is in a memory operand.
    Operand,
    /// A number that may be an address or not.
    Number,
}

/// What the blocks of a build look like.
pub(crate) struct Read {
    pub(crate) hashes: Hashes,
    /// Instructions that do something.
    pub(crate) insns: u32,
    /// Whether the last of them refers to something.
    pub(crate) last_refers: bool,
    /// The condition of the last of them, if it is a branch.
    pub(crate) condition: Option<u8>,
}

/// Reads a block: `bytes` lie at `at`, and it is the `own`-th of its function.
pub(crate) fn read(
    bytes: &[u8],
    at: LinkAddr,
    start: LinkAddr,
    own: u32,
    around: &mut impl Surroundings,
) -> Read {
    let mut hashes = [0u64; HASHED];
    let mut seen = Seen::default();
    let mut insns = 0;
    let mut last: Option<Insn> = None;
    let mut last_refers = false;
    for insn in Decode::new(bytes, at) {
        if insn.is_padding() || insn.is_landing_mark() {
            continue;
        }
        insns += 1;
        let before = around.noted();
        let one = instruction(&insn, start, own, &mut seen, around);
        last_refers = around.noted() > before;
        for level in [Level::Exact, Level::One, Level::Two, Level::Three, Level::Four, Level::Five] {
            let hash = &mut hashes[index(level)];
            *hash = mix(*hash, one[index(level)]);
        }
        last = Some(insn);
    }
    let condition = last.as_ref().and_then(Insn::condition);
    if let Some(insn) = last {
        let one = instruction(&insn, start, own, &mut Seen::default(), &mut Silent(around));
        hashes[index(Level::LastOne)] = mix(1, one[index(Level::One)]);
        hashes[index(Level::LastThree)] = mix(3, one[index(Level::Three)]);
    }
    Read { hashes, insns, last_refers, condition }
}

/// The same surroundings, without taking notes.
struct Silent<'a, S>(&'a mut S);

impl<S: Surroundings> Surroundings for Silent<'_, S> {
    fn own_block(&self, at: LinkAddr) -> Option<u32> {
        self.0.own_block(at)
    }

    fn note(&mut self, _: LinkAddr, how: Mention) -> bool {
        how != Mention::Number
    }

    fn noted(&self) -> usize {
        self.0.noted()
    }
}

/// Registers in the order in which a block uses them first: all that is left of which register it is.
#[derive(Default)]
struct Seen {
    general: Ordinals,
    vector: Ordinals,
}

impl Seen {
    fn ordinal(&mut self, name: RegisterName) -> u64 {
        let ordinals = match name.class {
            RegisterClass::General => &mut self.general,
            _ => &mut self.vector,
        };
        ordinals.of(name.number)
    }
}

/// Numbers below 32, numbered anew in the order in which they are asked for.
#[derive(Default)]
struct Ordinals {
    /// One more than the ordinal; zero for those not yet seen.
    given: [u8; 32],
    seen: u8,
}

impl Ordinals {
    fn of(&mut self, number: u8) -> u64 {
        let given = &mut self.given[usize::from(number) % 32];
        if *given == 0 {
            self.seen += 1;
            *given = self.seen;
        }
        u64::from(*given - 1)
    }
}

const RSP: u8 = 4;
const RBP: u8 = 5;

/// Registers that a callee keeps: `rbx`, `rbp`, `r12` to `r15`. Values that live across calls are in them, all others
/// are for what is computed in between, so a small change moves values within the two classes much more often than
/// from one to the other.
const fn is_kept(number: u8) -> bool {
    matches!(number, 3 | 5 | 12..=15)
}

/// What an instruction adds at each level; of the last-instruction levels, nothing.
fn instruction(
    insn: &Insn,
    start: LinkAddr,
    own: u32,
    seen: &mut Seen,
    around: &mut impl Surroundings,
) -> Hashes {
    let opcode = u64::from(insn.opcode());
    let mut out = [opcode; HASHED];
    out[index(Level::Five)] = u64::from(insn.group());
    let mut add = |level: Level, number: u64| out[index(level)] = mix(out[index(level)], number);
    for operand in insn.operands() {
        match operand {
            Operand::Register(name) => register(name, seen, &mut add),
            Operand::Immediate(value) => {
                let is_reference = around.note(LinkAddr(value.cast_unsigned()), Mention::Number);
                let value = if is_reference { 0 } else { value.cast_unsigned() };
                for level in [Level::Exact, Level::One, Level::Two] {
                    add(level, mix(2, value));
                }
                add(Level::Three, 2);
                add(Level::Four, 2);
            }
            Operand::Memory(memory) => place(memory, seen, around, &mut add),
            Operand::Target(to) => match around.own_block(to) {
                Some(block) => {
                    let distance = u64::from(block).wrapping_sub(own.into());
                    add(Level::Exact, mix(to.since(start), distance));
                    add(Level::One, mix(block.into(), distance));
                    add(Level::Two, distance);
                    add(Level::Three, u64::from(block > own));
                }
                None => {
                    around.note(to, Mention::Transfer);
                }
            },
        }
    }
    out
}

fn register(name: RegisterName, seen: &mut Seen, add: &mut impl FnMut(Level, u64)) {
    let RegisterName { class, number, width } = name;
    let kind = mix(class as u64, width.into());
    add(Level::Exact, mix(kind, number.into()));
    let (same, like) = match class {
        RegisterClass::General if number == RSP => (100, 100),
        RegisterClass::General => {
            (mix(u64::from(is_kept(number)), seen.ordinal(name)), is_kept(number).into())
        }
        RegisterClass::Vector => (seen.ordinal(name), 0),
        RegisterClass::Other => (number.into(), number.into()),
    };
    add(Level::One, mix(kind, same));
    add(Level::Two, mix(kind, same));
    add(Level::Three, mix(kind, like));
    add(Level::Four, kind);
}

fn place(
    memory: MemoryOperand,
    seen: &mut Seen,
    around: &mut impl Surroundings,
    add: &mut impl FnMut(Level, u64),
) {
    let address = LinkAddr(memory.displacement.cast_unsigned());
    let kind = mix(50 + u64::from(memory.thread_local), memory.width.into());
    for level in [Level::Exact, Level::One, Level::Two, Level::Three, Level::Four] {
        add(level, kind);
    }
    // An absolute table that is indexed: its address is a displacement beside registers.
    let how = if memory.fixed { Mention::Operand } else { Mention::Number };
    let refers = !memory.thread_local && around.note(address, how);
    for name in [memory.base, memory.index].into_iter().flatten() {
        register(RegisterName { width: 8, ..name }, seen, add);
    }
    let shape = mix(memory.scale.into(), u64::from(memory.index.is_some()));
    for level in [Level::Exact, Level::One, Level::Two, Level::Three] {
        add(level, shape);
    }
    if refers {
        return;
    }
    let displacement = memory.displacement.cast_unsigned();
    add(Level::Exact, displacement);
    // Where a structure has its fields seldom changes; where the stack frame has its slots often does.
    let in_frame = memory.base.is_some_and(|base| {
        base.class == RegisterClass::General
            && (base.number == RSP || base.number == RBP && memory.displacement < 0)
    });
    if !in_frame {
        add(Level::One, displacement);
        add(Level::Two, displacement);
    }
}
