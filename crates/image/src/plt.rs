//! Procedure-linkage stubs: `jmp *slot`, one per imported function.

use crate::elf::Elf;
use relive_code::addr::{AddrRange, LinkAddr};
use relive_code::isa::{Decode, Flow};

/// A stub that jumps through a slot the loader fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Its code.
    pub range: AddrRange,
    /// The slot it jumps through.
    pub slot: LinkAddr,
}

/// Whether a section of that name holds nothing but stubs.
#[must_use]
pub fn is_plt_section(name: &str) -> bool {
    matches!(name, ".plt" | ".plt.sec" | ".plt.got" | ".iplt" | ".plt.bnd")
}

/// Finds the stubs of all such sections, by address.
pub(crate) fn find_stubs(elf: &Elf<'_>) -> Vec<Stub> {
    let mut stubs = Vec::new();
    for section in elf.sections.iter().filter(|s| s.loaded && s.executable && is_plt_section(&s.name)) {
        // Entries are 16 bytes, but for the short ones that are never bound lazily.
        let entry_size = if section.name == ".plt.got" && section.range.len() % 16 != 0 { 8 } else { 16 };
        for (index, bytes) in section.data.chunks(entry_size).enumerate() {
            let start = section.range.start.offset((index * entry_size) as u64);
            let jump = Decode::new(bytes, start).find(|insn| insn.flow() != Flow::Next);
            let Some(jump) = jump.filter(|insn| insn.flow() == Flow::IndirectJump) else { continue };
            let Some(slot) = jump.fixed_memory_operand() else { continue };
            // The first entry of a lazy table pushes and jumps to the resolver: no import's stub.
            let pushes_first = Decode::new(bytes, start)
                .next()
                .is_some_and(|i| i.addr() != jump.addr() && !i.is_landing_mark());
            if !pushes_first {
                stubs.push(Stub { range: AddrRange::sized(start, bytes.len() as u64), slot });
            }
        }
    }
    stubs.sort_by_key(|s| s.range);
    stubs
}
