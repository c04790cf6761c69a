//! The steps a function's instructions say themselves: direct jumps, falling through, calls that come back.

use super::{Edge, Step};
use crate::oracle::listing::{Flow, Instruction, Listing};
use std::collections::BTreeSet;
use std::ops::Range;

/// What the compiler knows and the instructions do not show.
pub(crate) struct Knowledge<'a> {
    pub(crate) starts: &'a BTreeSet<u64>,
    /// Does control reach the next instruction? Asked for calls and for plain instructions.
    pub(crate) goes_on: &'a dyn Fn(&Instruction) -> bool,
}

/// Walks the pieces of one function. Padding behind a jump, a return or a call that does not come back leads nowhere.
pub(crate) fn edges(listing: &Listing, pieces: &[Range<u64>], known: &Knowledge) -> Vec<Edge> {
    let inside = |address: u64| pieces.iter().any(|piece| piece.contains(&address));
    let taken = |to: u64| if inside(to) { Step::Taken } else { Step::Tail };
    let mut edges = Vec::new();
    for piece in pieces {
        let mut live = false;
        for instruction in listing.range(piece.clone()) {
            let (from, next) = (instruction.address, instruction.end());
            let padding = matches!(instruction.flow, Flow::Nop | Flow::Trap);
            // gcc leaves labels nobody uses in front of padding: they do not make it code.
            live |= !padding;
            if !live {
                continue;
            }
            let mut step = |to, step| edges.push(Edge { from, to, step });
            live = match instruction.flow {
                Flow::Branch(to) => {
                    step(to, taken(to));
                    if inside(next) {
                        step(next, Step::NotTaken);
                    }
                    true
                }
                Flow::Jump(to) => {
                    step(to, taken(to));
                    false
                }
                Flow::IndirectJump | Flow::Return | Flow::Trap | Flow::Invalid => false,
                Flow::Call => {
                    let returns = inside(next) && (known.goes_on)(instruction);
                    if returns {
                        step(next, Step::Return);
                    }
                    returns
                }
                Flow::Next | Flow::Nop => {
                    let goes_on = inside(next) && (known.goes_on)(instruction);
                    if goes_on && known.starts.contains(&next) {
                        step(next, Step::Into);
                    }
                    goes_on
                }
            };
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
    10: 74 04                        \tje\t0x16 <f>
    12: e8 00 00 00 00               \tcallq\t0x40 <g>
    17: 90                           \tnop
    18: eb 26                        \tjmp\t0x40 <g>
    1a: 66 90                        \tnop
    1c: c3                           \tretq
";

    fn walk(starts: &[u64], goes_on: &dyn Fn(&Instruction) -> bool) -> Vec<(u64, u64, Step)> {
        let starts = starts.iter().copied().collect();
        let known = Knowledge { starts: &starts, goes_on };
        let edges = edges(&Listing::parse(TEXT), &[0x10..0x1d], &known);
        edges.iter().map(|e| (e.from, e.to, e.step)).collect()
    }

    #[test]
    fn steps() {
        assert_eq!(
            walk(&[0x10, 0x18, 0x1c], &|_| true),
            [
                (0x10, 0x16, Step::Taken),
                (0x10, 0x12, Step::NotTaken),
                (0x12, 0x17, Step::Return),
                (0x17, 0x18, Step::Into),
                (0x18, 0x40, Step::Tail),
            ]
        );
    }

    #[test]
    fn nothing_follows_a_call_that_does_not_return() {
        let edges = walk(&[0x10, 0x18], &|i| i.flow != Flow::Call);
        assert!(edges.iter().all(|(_, _, step)| !matches!(step, Step::Return | Step::Into)));
    }
}
