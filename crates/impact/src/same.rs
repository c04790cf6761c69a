//! Whether two blocks do the same: instruction by instruction, registers and numbers and all, with what they refer to and where
//! they lead replaced by partners.
//!
//! Stricter than any level of matching but 0. A block that names another register may well mean the same, but whether it does
//! is decided outside of it; who asks here wants to know what is certain.

use crate::builds::{Builds, place};
use hashbrown::HashMap;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Insn, MemoryOperand, Operand};
use relive_profile::model::{Callee, EdgeKind, Function, Node};

/// Two functions side by side.
pub(crate) struct Functions<'a> {
    builds: &'a Builds<'a>,
    old: Side<'a>,
    new: Side<'a>,
    /// New blocks and their partners.
    partner: HashMap<u32, u32>,
}

impl<'a> Functions<'a> {
    pub(crate) fn new(builds: &'a Builds<'a>, old: u32, new: u32) -> Self {
        Self {
            builds,
            old: Side::new(&builds.old.functions[old as usize]),
            new: Side::new(&builds.new.functions[new as usize]),
            partner: builds.blocks(new).iter().map(|pair| (pair.new, pair.old)).collect(),
        }
    }

    /// Whether two blocks do the same and lead to the same.
    pub(crate) fn same(&self, old: u32, new: u32) -> bool {
        let (Some(a), Some(b)) = (self.old.code(old), self.new.code(new)) else { return false };
        let (mut ours, mut theirs) = (a.instructions(), b.instructions());
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return self.same_ways(old, new),
                (Some(x), Some(y)) if self.same_insn((&x, a), (&y, b)) => {}
                _ => return false,
            }
        }
    }

    fn same_insn(&self, (old, a): (&Insn, Code<'_>), (new, b): (&Insn, Code<'_>)) -> bool {
        if old.opcode() != new.opcode() {
            return false;
        }
        let (mut ours, mut theirs) = (old.operands(), new.operands());
        // What operands do not tell (prefixes, operands that are understood) is in the bytes, which addresses make differ.
        let mut is_address = false;
        loop {
            let same = match (ours.next(), theirs.next()) {
                (None, None) => return is_address || a.of(old) == b.of(new),
                (Some(Operand::Register(x)), Some(Operand::Register(y))) => x == y,
                (Some(Operand::Immediate(x)), Some(Operand::Immediate(y))) => {
                    is_address |= x != y;
                    self.same_number(x.cast_unsigned(), y.cast_unsigned())
                }
                (Some(Operand::Memory(x)), Some(Operand::Memory(y))) => {
                    // The same place is written down in other bytes if the code that speaks of it has moved.
                    is_address |= x.displacement != y.displacement || x.fixed;
                    self.same_memory(x, y)
                }
                (Some(Operand::Target(x)), Some(Operand::Target(y))) => {
                    is_address = true;
                    self.same_target((old, x.0), (new, y.0))
                }
                _ => false,
            };
            if !same {
                return false;
            }
        }
    }

    /// A number that may be an address must lead to partners, any other must be itself.
    fn same_number(&self, old: u64, new: u64) -> bool {
        if self.builds.are_fixed && self.builds.is_place(old, new) {
            self.builds.same_place(old, new)
        } else {
            old == new
        }
    }

    fn same_memory(&self, old: MemoryOperand, new: MemoryOperand) -> bool {
        let (x, y) = (old.displacement.cast_unsigned(), new.displacement.cast_unsigned());
        let same_place = match old.fixed && !old.thread_local && self.builds.is_place(x, y) {
            true => self.builds.same_place(x, y),
            false if old.thread_local => x == y,
            false => self.same_number(x, y),
        };
        same_place && MemoryOperand { displacement: new.displacement, ..old } == new
    }

    fn same_target(&self, (old, to_old): (&Insn, u64), (new, to_new): (&Insn, u64)) -> bool {
        match (self.old.blocks.get(&to_old), self.new.blocks.get(&to_new)) {
            (Some(a), Some(b)) => self.partner.get(b) == Some(a),
            (None, None) => match (self.old.calls.get(&old.addr().0), self.new.calls.get(&new.addr().0)) {
                (Some(&a), Some(&b)) => self.same_callee(a, b),
                // Of code that was not moved, the start-up code of every program, nobody wrote down which import it calls.
                (None, None)
                    if self.old.is_bare() && self.new.is_bare() && self.is_nowhere(to_old, to_new) =>
                {
                    true
                }
                _ => self.builds.same_place(to_old, to_new),
            },
            _ => false,
        }
    }

    /// Whether two addresses are in no code or data that is described: stubs of the linker.
    fn is_nowhere(&self, old: u64, new: u64) -> bool {
        place(self.builds.old, old).is_none() && place(self.builds.new, new).is_none()
    }

    fn same_callee(&self, old: Callee, new: Callee) -> bool {
        match (old, new) {
            (Callee::Direct { address: x, .. }, Callee::Direct { address: y, .. }) => {
                self.builds.same_place(x, y)
            }
            (Callee::Import { name: x }, Callee::Import { name: y }) => {
                self.builds.old.text(x) == self.builds.new.text(y)
            }
            (Callee::Indirect { .. }, Callee::Indirect { .. }) => true,
            _ => false,
        }
    }

    /// Whether the ways out lead to partners.
    fn same_ways(&self, old: u32, new: u32) -> bool {
        let translated = self.new.ways(new).map(|(kind, to, case)| match to.as_block() {
            Some(block) => Some((kind, Node::block(*self.partner.get(&block)?), case)),
            None => Some((kind, to, case)),
        });
        let Some(mut theirs) = translated.collect::<Option<Vec<_>>>() else { return false };
        let mut ours: Vec<_> = self.old.ways(old).collect();
        ours.sort_unstable();
        theirs.sort_unstable();
        ours == theirs
    }
}

/// What is asked of a function again and again.
struct Side<'a> {
    function: &'a Function,
    /// Blocks by address.
    blocks: HashMap<u64, u32>,
    /// Callees by the address of the instruction.
    calls: HashMap<u64, Callee>,
    /// Edges by where they lead from.
    out: HashMap<Node, Vec<u32>>,
    /// The entry of the table, for edges that are cases.
    cases: HashMap<u32, u32>,
}

impl<'a> Side<'a> {
    fn new(function: &'a Function) -> Self {
        let mut out: HashMap<Node, Vec<u32>> = HashMap::new();
        for (edge, i) in function.edges.iter().zip(0..) {
            out.entry(edge.from).or_default().push(i);
        }
        Self {
            function,
            blocks: function.blocks.iter().map(|block| block.address).zip(0..).collect(),
            calls: function.calls.iter().map(|call| (call.address, call.callee)).collect(),
            out,
            cases: function.cases.iter().copied().collect(),
        }
    }

    /// Whether nothing but blocks is described.
    fn is_bare(&self) -> bool {
        self.function.edges.is_empty() && self.calls.is_empty()
    }

    fn code(&self, block: u32) -> Option<Code<'a>> {
        let block = self.function.blocks.get(block as usize)?;
        let bytes = self.function.bytes_at(block.address, block.size.into())?;
        Some(Code { bytes, at: block.address })
    }

    /// The ways out of a block; those out of a hub it leads to belong to it.
    fn ways(&self, block: u32) -> impl Iterator<Item = (EdgeKind, Node, Option<u32>)> + '_ {
        let of = move |node: Node| self.out.get(&node).map_or(&[][..], Vec::as_slice).iter();
        of(Node::block(block)).flat_map(move |&edge| {
            let to = self.function.edges[edge as usize].to;
            let own = to.as_hub().is_none().then_some(edge);
            own.into_iter()
                .chain(to.as_hub().into_iter().flat_map(move |hub| of(Node::hub(hub)).copied()))
                .map(move |edge| {
                    let way = &self.function.edges[edge as usize];
                    (way.kind, way.to, self.cases.get(&edge).copied())
                })
        })
    }
}

/// The code of a block.
#[derive(Clone, Copy)]
struct Code<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Code<'a> {
    /// Its instructions, without fill.
    fn instructions(self) -> impl Iterator<Item = Insn> + 'a {
        Decode::new(self.bytes, LinkAddr(self.at))
            .filter(|insn| !insn.is_padding() && !insn.is_landing_mark())
    }

    /// The bytes of one of them.
    fn of(self, insn: &Insn) -> &'a [u8] {
        let start = (insn.addr().0 - self.at) as usize;
        self.bytes.get(start..start + insn.len() as usize).unwrap_or(&[])
    }
}
