//! Loads that wait until somebody else has written something.
//!
//! A loop that does nothing but load the same place again, and perhaps let time pass, waits for another thread. What it loads serves to bring
//! threads in order, even if nobody ever uses a locked instruction on it.

use super::runtime::Runtime;
use crate::map::Map;
use relive_code::addr::LinkAddr;
use relive_code::isa::{AccessKind, EffectsReader, Flow, Insn, RegSet};
use relive_trace::units::Unit;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Loops that wait are short.
const LONGEST: u64 = 64;

/// The addresses of the loads of all loops that wait.
pub(super) fn loads(units: &[Arc<Unit>], process: u32, runtime: &dyn Runtime) -> BTreeSet<u64> {
    let mut code: Map<u64, (u32, u32)> = Map::default();
    for unit in units {
        let places = unit.steps.iter().zip(0..).map(|(step, number)| (step.pc, (unit.number, number)));
        code.extend(places);
    }
    let at = |pc: u64| match code.get(&pc) {
        Some(&(unit, step)) => units.get(unit as usize)?.decode(step as usize),
        // Who never had to wait has not executed all of the loop.
        None => Insn::decode(runtime.code(process, pc)?, LinkAddr(pc)),
    };
    let mut found = BTreeSet::new();
    let mut effects = EffectsReader::new();
    for unit in units {
        for (number, step) in unit.steps.iter().enumerate() {
            // Only the last instruction of a piece can lead back.
            let is_last = unit.steps.get(number + 1).is_none_or(|next| next.piece != step.piece);
            let Some(insn) = is_last.then(|| unit.decode(number)).flatten() else { continue };
            let (Flow::Branch(LinkAddr(target)) | Flow::Jump(LinkAddr(target))) = insn.flow() else {
                continue;
            };
            if target <= step.pc && step.pc - target <= LONGEST {
                let is_pause = |target| runtime.is_pause(process, target);
                found.extend(waiting(&at, target, step.pc, &mut effects, &is_pause).into_iter().flatten());
            }
        }
    }
    found
}

/// The loads of a loop, if it waits.
fn waiting(
    at: &dyn Fn(u64) -> Option<Insn>,
    start: u64,
    end: u64,
    effects: &mut EffectsReader,
    is_pause: &dyn Fn(u64) -> bool,
) -> Option<Vec<u64>> {
    let (mut loads, mut used, mut changed) = (Vec::new(), RegSet::EMPTY, RegSet::EMPTY);
    let mut pc = start;
    while pc <= end {
        let insn = at(pc)?;
        match insn.flow() {
            Flow::Call(LinkAddr(target)) if is_pause(target) => {}
            // Into the loop from its middle, or out of it.
            Flow::Next | Flow::Branch(_) | Flow::Jump(_) => {
                for access in effects.accesses(&insn) {
                    if access.kind != AccessKind::Read {
                        return None;
                    }
                    loads.push(pc);
                    used |= access.place.registers();
                }
                changed |= effects.effects(&insn).writes & RegSet::GPRS;
            }
            _ => return None,
        }
        pc += insn.len();
    }
    let same = (used & changed) == RegSet::EMPTY;
    (same && !loads.is_empty()).then_some(loads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code as _;
    use crate::races::runtime::NoRuntime;
    use crate::testing::Program;

    const NONE: [u64; 0] = [];

    fn found(code: &[u8]) -> Vec<u64> {
        let program = Program::new(&[(0x1000, code)]);
        loads(program.units(0), 0, &NoRuntime).into_iter().collect()
    }

    #[test]
    fn loops_that_wait() {
        // mov eax, [rdi]; test eax, eax; je back
        assert_eq!(found(&[0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa]), [0x1000]);
        // pause; cmp dword [rdi], 0; je back
        assert_eq!(found(&[0xf3, 0x90, 0x83, 0x3f, 0, 0x74, 0xf9]), [0x1002]);
    }

    #[test]
    fn loops_that_work() {
        // mov eax, [rdi]; add rdi, 4; test eax, eax; jne back: it goes through memory
        assert_eq!(found(&[0x8b, 0x07, 0x48, 0x83, 0xc7, 4, 0x85, 0xc0, 0x75, 0xf6]), NONE);
        // mov eax, [rdi]; mov [rsi], eax; test eax, eax; je back: it writes
        assert_eq!(found(&[0x8b, 0x07, 0x89, 0x06, 0x85, 0xc0, 0x74, 0xf8]), NONE);
        // mov eax, [rdi]; test eax, eax; je on
        assert_eq!(found(&[0x8b, 0x07, 0x85, 0xc0, 0x74, 0x02]), NONE);
    }
}
