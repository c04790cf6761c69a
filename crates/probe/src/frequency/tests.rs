//! Estimates of small functions, and the signs that are seen in them.

use super::evidence::{Branch, Sign, WEIGHTS, branches};
use super::shape::Shape;
use super::{Frequencies, ways};
use crate::graph::{Calls, Comeback, Flow};
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::cfg::{BlockId, Cfg, Outline, recover};
use relive_code::source::{CodeSource, Pointer, Returns, Surroundings};

const BASE: LinkAddr = LinkAddr(0x1000);
/// A function that never comes back.
const NEVER: u64 = 0x8000;
/// A function that does.
const CALLEE: u64 = 0x9000;

struct Code(Vec<u8>);

impl CodeSource for Code {
    fn bytes(&self, at: LinkAddr) -> &[u8] {
        at.0.checked_sub(BASE.0).and_then(|offset| self.0.get(offset as usize..)).unwrap_or(&[])
    }
}

impl Surroundings for Code {
    fn returns(&self, callee: LinkAddr) -> Returns {
        if callee.0 == NEVER { Returns::Never } else { Returns::Yes }
    }
    fn returns_through(&self, _: LinkAddr) -> Returns {
        Returns::Yes
    }
    fn is_function_start(&self, at: LinkAddr) -> bool {
        at == BASE || at.0 == NEVER || at.0 == CALLEE
    }
    fn is_code(&self, _: LinkAddr) -> bool {
        true
    }
    fn pointer(&self, _: LinkAddr) -> Pointer {
        Pointer::None
    }
    fn is_constant(&self, _: LinkAddr) -> bool {
        false
    }
    fn next_reference(&self, _: LinkAddr) -> Option<LinkAddr> {
        None
    }
    fn stated_table_len(&self, _: LinkAddr) -> Option<u64> {
        None
    }
    fn labels(&self, _: AddrRange, _: &mut dyn FnMut(LinkAddr)) {}
}

/// Every call comes back, or none is sure to.
struct All(Comeback);

impl Calls for All {
    fn comeback(&self, _: BlockId) -> Comeback {
        self.0
    }
    fn enters_kernel(&self, _: BlockId) -> bool {
        false
    }
}

struct Subject {
    code: Code,
    cfg: Cfg,
    flow: Flow,
}

fn subject(parts: &[&[u8]], comeback: Comeback) -> Subject {
    let code = Code(parts.concat());
    let outline = Outline {
        pieces: vec![AddrRange::sized(BASE, code.0.len() as u64)],
        entries: vec![BASE],
        ..Outline::default()
    };
    let cfg = recover(&code, &outline);
    assert!(cfg.is_understood(), "{}", cfg.dump());
    let flow = Flow::new(&cfg, &All(comeback), &|_| true);
    Subject { code, cfg, flow }
}

impl Subject {
    fn branches(&self) -> Vec<Branch> {
        branches(&self.cfg, &self.code, &self.flow, &Shape::new(&self.flow))
    }

    fn estimate(&self) -> Frequencies {
        Frequencies::estimate(&self.cfg, &self.code, &self.flow)
    }
}

/// What is seen of the only branch: signs on the way that is taken, and on the other.
fn signs(parts: &[&[u8]]) -> (Vec<Sign>, Vec<Sign>) {
    let branches = subject(parts, Comeback::Perhaps).branches();
    let [branch] = &branches[..] else { panic!("{} branches", branches.len()) };
    let on = |way| WEIGHTS.iter().map(|(sign, _)| *sign).filter(move |&s| branch.signs[s as usize] == way);
    (on(1).collect(), on(-1).collect())
}

fn call(at: u64, to: u64) -> [u8; 5] {
    let mut bytes = [0xe8; 5];
    bytes[1..].copy_from_slice(&((to - (BASE.0 + at + 5)) as u32).to_le_bytes());
    bytes
}

const RET: &[u8] = &[0xc3];
const NOPS: &[u8] = &[0x89, 0xc9, 0x89, 0xd2, 0x89, 0xf6]; // Three moves: not short.

#[test]
fn weights_are_in_the_order_of_the_signs() {
    assert!(WEIGHTS.iter().enumerate().all(|(i, (sign, _))| *sign as usize == i));
}

#[test]
fn the_way_to_an_error_is_doomed() {
    // test rax, rax; je +7; mov x3; ret; call NEVER
    let (taken, other) = signs(&[&[0x48, 0x85, 0xc0, 0x74, 7], NOPS, RET, &call(12, NEVER)]);
    assert!(taken.contains(&Sign::Doomed) && taken.contains(&Sign::ZeroPointer), "{taken:?}");
    assert_eq!(other, [Sign::Return]);
}

#[test]
fn early_errors_are_returned() {
    // test edi, edi; js +4; mov eax, edi; ret; (nop) or eax, -1; ret
    let (taken, other) = signs(&[&[0x85, 0xff, 0x78, 4, 0x89, 0xf8], RET, &[0x90], &[0x83, 0xc8, 0xff], RET]);
    assert!(taken.contains(&Sign::Negative) && taken.contains(&Sign::ReturnNegative), "{taken:?}");
    assert_eq!(other, [Sign::Guard], "it goes on with edi, and both return");
}

#[test]
fn a_call_on_one_way_only() {
    // test byte ptr [rdi], 4; je +5; call CALLEE; ret
    let parts: &[&[u8]] = &[&[0xf6, 0x07, 4, 0x74, 5], &call(5, CALLEE), RET];
    let (taken, other) = signs(parts);
    assert!(taken.contains(&Sign::ZeroLoaded) && taken.contains(&Sign::ZeroBits), "{taken:?}");
    assert!(taken.contains(&Sign::Joins) && !taken.contains(&Sign::Return), "what comes anyway says nothing");
    assert_eq!(other, [Sign::Call, Sign::Return], "the return is shared");
    let steady = subject(parts, Comeback::Once).branches();
    assert_eq!(steady[0].signs[Sign::SteadyCall as usize], -1);
}

#[test]
fn flags_outlive_a_branch() {
    // cmp edi, 5; je +3; jl +1; ret; ret
    let branches = subject(&[&[0x83, 0xff, 5, 0x74, 3, 0x7c, 1], RET, RET], Comeback::Once).branches();
    assert_eq!(branches[0].signs[Sign::EqualConstant as usize], 1);
    assert_eq!(branches[1].signs[Sign::LessConstant as usize], 1);
}

#[test]
fn a_loop_runs_round() {
    // mov x3; dec edi; jne -10; ret
    let subject = subject(&[&[0x31, 0xc0], NOPS, &[0xff, 0xcf, 0x75, 0xf6], RET], Comeback::Once);
    let [branch] = &subject.branches()[..] else { panic!() };
    assert_eq!((branch.signs[Sign::Back as usize], branch.signs[Sign::Exit as usize]), (1, -1));
    assert_eq!(branch.signs[Sign::Taken as usize], 0, "a way back is no detour");
    let often = subject.estimate();
    assert!(often.blocks[1] > 2.0 && (often.blocks[2] - 1.0).abs() < 1e-9, "{often:?}");
}

#[test]
fn what_goes_in_comes_out() {
    // A loop of two branches, one of which leaves it, in a function of two returns.
    let code: &[&[u8]] = &[&[0x39, 0xf7, 0x74, 8], &[0x85, 0xf6, 0x74, 5, 0xff, 0xcf, 0xeb, 0xf4], RET, RET];
    let subject = subject(code, Comeback::Once);
    let often = subject.estimate();
    for (id, block) in subject.cfg.numbered_blocks().filter(|(_, b)| b.reached) {
        let sum = |inward: bool| -> f64 {
            let ours =
                subject.flow.arcs.iter().zip(&often.arcs).filter(|(arc, _)| {
                    (if inward { arc.to } else { arc.from }) == crate::graph::Node::Block(id)
                });
            ours.map(|(_, often)| often).sum()
        };
        let here = often.blocks[id.index()];
        assert!((sum(true) - here).abs() < 1e-9 && (sum(false) - here).abs() < 1e-9, "{block:?}");
    }
}

#[test]
fn cycles_of_several_entries_are_cycles_too() {
    // test edi, edi; je +2 (into the middle); 1: dec esi; 2: dec edx; jne 1; ret
    let code: &[&[u8]] = &[&[0x85, 0xff, 0x74, 2], &[0xff, 0xce], &[0xff, 0xca, 0x75, 0xfa], RET];
    let subject = subject(code, Comeback::Once);
    let shape = Shape::new(&subject.flow);
    assert!(!shape.loops.irreducible().is_empty());
    let mut weights = ways(&subject.flow, &shape);
    let [_, latch] = &subject.branches()[..] else { panic!() };
    weights[latch.taken as usize] = 9.0;
    let often = Frequencies::weighted(&subject.flow, &shape, weights);
    assert!(often.blocks[2] > 3.0, "{often:?}");
}
