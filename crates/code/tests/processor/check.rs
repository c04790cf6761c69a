//! What is said of an instruction, against what the processor did.

use relive_code::addr::LinkAddr;
use relive_code::isa::{EffectsReader, Flag, Gpr, How, Insn, RegSet, Replayed, Syntax};
use relive_testkit::states::State;

/// The instruction that comes next.
pub(crate) fn decode(state: &State) -> Option<Insn> {
    Insn::decode(&state.code, LinkAddr(state.rip()))
}

/// Whether the processor may stop in the middle of it and go on later: each turn is a step of its own.
pub(crate) fn takes_turns(reader: &mut EffectsReader, insn: &Insn) -> bool {
    reader.accesses(insn).iter().any(|access| matches!(access.how, How::Repeated { .. } | How::Lanes { .. }))
}

/// What is wrong with what is said of an instruction, if anything is.
pub(crate) fn disagreement(
    reader: &mut EffectsReader,
    insn: &Insn,
    before: &State,
    after: &State,
) -> Option<String> {
    let Replayed { sets, loses, backwards } = reader.replayed(insn);
    let (old, new) = (before.general(), after.general());
    let mut wrong = Vec::new();
    for register in Gpr::all() {
        let is = new[register.number()];
        let mut several = sets.iter().filter(|set| set.to == register);
        let set = several.next();
        let said = set.map_or(old[register.number()], |set| set.evaluate(&old, before.backwards()));
        let lost = loses.contains(RegSet::gpr(register));
        if several.next().is_some() || (set.is_some() && lost) {
            wrong.push(format!("{register} is said to be more than one thing"));
        }
        if !lost && is != said {
            wrong
                .push(format!("{register} is {is:#x}, not {said:#x}, and was {:#x}", old[register.number()]));
        }
    }
    if !loses.contains(RegSet::flag(Flag::Df)) && after.backwards() != backwards.unwrap_or(before.backwards())
    {
        wrong.push("the direction flag".into());
    }
    let text = insn.text(Syntax::Intel);
    (!wrong.is_empty()).then(|| format!("{text} at {:#x}: {}", before.rip(), wrong.join(", ")))
}
