//! Programs, one instruction after the other.

use crate::check::{decode, disagreement, takes_turns};
use relive_code::isa::{EffectsReader, Insn};
use relive_testkit::states::{State, Stop, Watched};

/// What was seen of a program.
#[derive(Default)]
pub(crate) struct Followed {
    /// How many instructions were compared.
    pub(crate) compared: u64,
    /// Those that did something else than was said.
    pub(crate) wrong: Vec<String>,
}

/// System calls that come back with other registers than they were made with: `rt_sigreturn`, `execve`.
const COME_BACK_ELSEWHERE: [u64; 2] = [15, 59];

/// Follows a program for so many steps, and shows `each` its instructions with the state before them.
pub(crate) fn follow(
    program: &mut Watched,
    steps: u64,
    mut each: impl FnMut(&mut EffectsReader, &Insn, &State),
) -> Followed {
    const AT_ONCE: u64 = 4096;
    let mut reader = EffectsReader::new();
    let mut followed = Followed::default();
    let mut before = program.state();
    let mut left = steps;
    while left > 0 {
        let states = program.steps(left.min(AT_ONCE));
        left -= states.len() as u64;
        for after in states {
            match (before.stop, after.stop) {
                (_, Stop::Ended(_)) => return followed,
                // It is delivered, or has come instead of the instruction.
                (Stop::Signal(_), _) | (_, Stop::Signal(_)) => before = after,
                _ => {
                    let insn = decode(&before).expect("what was executed is valid");
                    if after.rip() == before.rip() && takes_turns(&mut reader, &insn) {
                        continue;
                    }
                    each(&mut reader, &insn, &before);
                    if !(insn.is_syscall() && COME_BACK_ELSEWHERE.contains(&before.general()[0])) {
                        followed.compared += 1;
                        followed.wrong.extend(disagreement(&mut reader, &insn, &before, &after));
                    }
                    before = after;
                }
            }
        }
    }
    followed
}
