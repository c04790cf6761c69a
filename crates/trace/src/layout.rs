//! How a processor lays out its state in memory.

use relive_code::isa::Form;
use std::arch::x86_64::__cpuid_count;

/// What `xsave` and the like write, as the processor tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Layout {
    /// The parts that the system has enabled: a bit for each, by number.
    pub enabled: u64,
    /// These, but for the first two, which are always at the beginning; in the order of their numbers.
    pub parts: Vec<Part>,
}

/// A part of the processor's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    /// Its number.
    pub number: u8,
    /// Where it begins in the standard form.
    pub offset: u32,
    /// How long it is.
    pub len: u32,
    /// Whether it begins at a multiple of 64 in the compacted form.
    pub is_aligned: bool,
}

impl Layout {
    /// What is always there: two parts, and a head.
    const SHORTEST: u32 = 512 + 64;
    /// In the word that says which form it is.
    const IS_COMPACTED: u64 = 1 << 63;

    /// That of this processor, of which the system has enabled some parts.
    #[must_use]
    pub fn of_this_processor(enabled: u64) -> Self {
        const LEAF: u32 = 0xd;
        const IS_ALIGNED: u32 = 2;
        let part = |number: u8| {
            let told = __cpuid_count(LEAF, number.into());
            Part { number, offset: told.ebx, len: told.eax, is_aligned: told.ecx & IS_ALIGNED != 0 }
        };
        let numbers = (2..63).filter(|number| enabled >> number & 1 != 0);
        Self { enabled, parts: numbers.map(part).collect() }
    }

    /// How many bytes there are from the beginning to the end of the last part that is asked for; `said` is the word that says
    /// which form it is, if one does.
    #[must_use]
    pub(crate) fn len(&self, form: Form, asked: u64, said: u64) -> u32 {
        let asked = asked & self.enabled;
        let there = match form {
            Form::Standard => None,
            Form::Compacted => Some(asked),
            Form::Said => (said & Self::IS_COMPACTED != 0).then_some(said),
        };
        let is_in =
            |part: &Part, set: u64| set.checked_shr(part.number.into()).is_some_and(|bits| bits & 1 != 0);
        let mut behind = Self::SHORTEST;
        let mut end = Self::SHORTEST;
        for part in &self.parts {
            let at = match there {
                None => part.offset,
                Some(there) if !is_in(part, there) => continue,
                Some(_) if part.is_aligned => behind.next_multiple_of(64),
                Some(_) => behind,
            };
            behind = at.saturating_add(part.len);
            if is_in(part, asked) {
                end = end.max(behind);
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let part = |number, offset, len, is_aligned| Part { number, offset, len, is_aligned };
        let parts = vec![part(2, 576, 256, false), part(5, 1088, 64, false), part(9, 2688, 8, true)];
        let layout = Layout { enabled: 0x227, parts };
        assert_eq!(layout.len(Form::Standard, 3, 0), 576);
        assert_eq!(layout.len(Form::Standard, u64::MAX, 0), 2696);
        assert_eq!(layout.len(Form::Standard, 0x20, 0), 1152);
        assert_eq!(layout.len(Form::Compacted, 0x20, 0), 640);
        assert_eq!(layout.len(Form::Compacted, u64::MAX, 0), 576 + 256 + 64 + 8);
        assert_eq!(layout.len(Form::Said, 0x20, 0), 1152);
        assert_eq!(layout.len(Form::Said, 0x20, 1 << 63 | 0x24), 576 + 256 + 64);
        assert_eq!(layout.len(Form::Said, 0x200, 1 << 63 | 0x24), 576, "what is not there is not read");
        assert_eq!(Layout::default().len(Form::Standard, u64::MAX, 0), 576);
    }
}
