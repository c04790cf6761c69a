//! Who calls whom.

use super::{FunctionId, Program};
use relive_code::addr::LinkAddr;
use relive_code::cfg::{EdgeKind, End, Target};

/// Whom a call site calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Callee {
    /// A function of this program.
    Function(FunctionId),
    /// An address outside all functions: a stub of an import.
    Outside(LinkAddr),
    /// Through the pointer in that slot.
    Slot(LinkAddr),
    /// Only the run shows.
    Unknown,
}

/// One call site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Call {
    /// The calling function.
    pub caller: FunctionId,
    /// The call instruction, or the jump of a tail call.
    pub site: LinkAddr,
    /// Whom it calls.
    pub callee: Callee,
    /// Whether it is a jump that does not come back here.
    pub tail: bool,
}

/// All call sites, sorted by caller and address.
#[derive(Clone, Debug, Default)]
pub struct CallGraph {
    /// The calls.
    pub calls: Vec<Call>,
}

impl CallGraph {
    /// Collects the calls of `program`.
    #[must_use]
    pub fn new(program: &Program<'_>) -> Self {
        let mut calls = Vec::new();
        for (caller, function) in program.numbered() {
            let place = |at| program.function_holding(at).map_or(Callee::Outside(at), Callee::Function);
            for (id, block) in function.cfg.numbered_blocks() {
                let site = block.last_insn();
                let callee = match block.end {
                    End::Call(target) if target == block.end_addr() => None,
                    End::Call(target) => Some(place(target)),
                    End::IndirectCall(Some(slot)) => Some(Callee::Slot(slot)),
                    End::IndirectCall(None) => Some(Callee::Unknown),
                    _ => None,
                };
                calls.extend(callee.map(|callee| Call { caller, site, callee, tail: false }));
                for edge in function.cfg.edges_from(id).iter().filter(|e| e.kind == EdgeKind::TailCall) {
                    let callee = match edge.to {
                        Target::Outside(at) => place(at),
                        _ => Callee::Unknown,
                    };
                    calls.push(Call { caller, site, callee, tail: true });
                }
            }
        }
        calls.sort_unstable();
        Self { calls }
    }

    /// The calls in `caller`.
    #[must_use]
    pub fn from(&self, caller: FunctionId) -> &[Call] {
        let first = self.calls.partition_point(|c| c.caller < caller);
        let behind = self.calls.partition_point(|c| c.caller <= caller);
        &self.calls[first..behind]
    }

    /// The calls of `callee`.
    pub fn to(&self, callee: FunctionId) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |c| c.callee == Callee::Function(callee))
    }
}
