//! Plain loads and stores of which something else tells that they are meant for other threads.
//!
//! On this processor, loads with acquire and stores with release are moves like any other. What gives them away: the line of source, if
//! it is in the library that makes variables atomic (`std::atomic::load` is always there, inlined or not); and a fence right behind a store.

use super::runtime::Runtime;
use relive_code::isa::{AccessKind, EffectsReader, Gpr, RegSet};
use relive_trace::units::{Step, Unit};
use std::collections::BTreeSet;
use std::sync::Arc;

/// `mfence`, and what compilers take for one, as it is faster: `lock or [rsp], 0`, of eight bytes and of four, perhaps below the stack.
const FENCES: [&[u8]; 4] = [
    &[0x0f, 0xae, 0xf0],
    &[0xf0, 0x48, 0x83, 0x0c, 0x24],
    &[0xf0, 0x83, 0x0c, 0x24],
    &[0xf0, 0x83, 0x4c, 0x24],
];

/// Where code was not optimised, what functions are given goes through the stack.
const STACK: RegSet = RegSet::gpr(Gpr::RSP).with(RegSet::gpr(Gpr::RBP));

/// The addresses of all of them.
pub(super) fn accesses(units: &[Arc<Unit>], process: u32, runtime: &dyn Runtime) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut effects = EffectsReader::new();
    for unit in units {
        for (number, step) in unit.steps.iter().enumerate() {
            let is_atomic = runtime.is_atomic(process, step.pc);
            if !is_atomic && !unit.steps.get(number + 1).is_some_and(|next| is_fence(unit, next)) {
                continue;
            }
            let Some(insn) = unit.decode(number) else { continue };
            let is_meant = effects.accesses(&insn).iter().any(|access| {
                !access.place.registers().intersects(STACK) && (is_atomic || access.kind != AccessKind::Read)
            });
            if is_meant {
                found.insert(step.pc);
            }
        }
    }
    found
}

fn is_fence(unit: &Unit, step: &Step) -> bool {
    let code = unit.code.get(usize::from(step.offset)..).unwrap_or_default();
    FENCES.iter().any(|fence| code.starts_with(fence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code as _;
    use crate::races::runtime::{Kind, NoRuntime};
    use crate::testing::Program;

    /// All of the source is in the library of atomic variables.
    struct AllAtomic;

    impl Runtime for AllAtomic {
        fn kind(&self, process: u32, pc: u64) -> Kind {
            NoRuntime.kind(process, pc)
        }

        fn is_pause(&self, _: u32, _: u64) -> bool {
            false
        }

        fn code(&self, _: u32, _: u64) -> Option<&[u8]> {
            None
        }

        fn is_atomic(&self, _: u32, _: u64) -> bool {
            true
        }
    }

    fn found(code: &[u8], runtime: &dyn Runtime) -> Vec<u64> {
        let program = Program::new(&[(0x1000, code)]);
        accesses(program.units(0), 0, runtime).into_iter().collect()
    }

    #[test]
    fn stores_with_a_fence() {
        // mov [rdi], eax; mfence; mov [rsi], eax; ret
        assert_eq!(found(&[0x89, 0x07, 0x0f, 0xae, 0xf0, 0x89, 0x06, 0xc3], &NoRuntime), [0x1000]);
        // mov eax, [rdi]; lock or qword [rsp], 0; ret: only loads before it
        assert_eq!(found(&[0x8b, 0x07, 0xf0, 0x48, 0x83, 0x0c, 0x24, 0, 0xc3], &NoRuntime), [0u64; 0]);
        // mov [rdi], eax; lock or qword [rsp], 0; ret
        assert_eq!(found(&[0x89, 0x07, 0xf0, 0x48, 0x83, 0x0c, 0x24, 0, 0xc3], &NoRuntime), [0x1000]);
    }

    #[test]
    fn lines_of_the_library() {
        // mov [rbp - 8], rdi; mov rax, [rbp - 8]; mov eax, [rax]; ret
        let code = [0x48, 0x89, 0x7d, 0xf8, 0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x00, 0xc3];
        assert_eq!(found(&code, &AllAtomic), [0x1008]);
        assert_eq!(found(&code, &NoRuntime), [0u64; 0]);
    }
}
