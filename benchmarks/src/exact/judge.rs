//! Sets the counts of a profile against callgrind's.

use super::profile::Profile;
use crate::oracle::callgrind::Counts;
use crate::oracle::listing::Listing;
use std::collections::BTreeSet;
use std::fmt;

/// A block whose two counts are not the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) function: String,
    pub(crate) block: u64,
    /// The instruction of the block that was compared.
    pub(crate) address: u64,
    pub(crate) counted: u64,
    pub(crate) callgrind: u64,
}

impl Difference {
    pub(crate) fn hottest(&self) -> u64 {
        self.counted.max(self.callgrind)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, block, counted, callgrind, .. } = self;
        write!(f, "{function} block {block:#x}: counted {counted}, callgrind {callgrind}")
    }
}

/// Whose fault a difference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The profile is wrong, or nothing proves it right.
    Wrong,
    /// The program itself does something else under valgrind; counted there, or by breakpoints here, it is right.
    Valgrind,
    /// The program as built does not do the same in every run.
    Varies,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Valgrind => "valgrind differs",
            Self::Varies => "varies",
        }
    }
}

/// How much was compared.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) blocks: u64,
    /// Those of them that ran.
    pub(crate) executed: u64,
    /// Blocks of nothing but `rep` instructions, of which callgrind counts iterations: left out.
    pub(crate) only_rep: u64,
    /// Blocks of functions that are not measured.
    pub(crate) unmeasured: u64,
    /// Instructions executed in the code compared, and in its measured blocks.
    pub(crate) instructions: u64,
    pub(crate) instructions_measured: u64,
}

/// `judged`: only blocks that begin at one of these addresses.
pub(crate) fn compare(
    profile: &Profile,
    truth: &Counts,
    listing: &Listing,
    judged: Option<&BTreeSet<u64>>,
) -> (Compared, Vec<Difference>) {
    let is_judged = |address: u64| judged.is_none_or(|judged| judged.contains(&address));
    let mut compared = Compared {
        instructions: truth.iter().filter(|&(&at, _)| is_judged(at)).map(|(_, count)| count).sum(),
        ..Compared::default()
    };
    let mut differences = Vec::new();
    let mut seen = BTreeSet::new();
    for block in profile.blocks.iter().filter(|block| is_judged(block.address)) {
        let range = block.address..block.address + block.size;
        let Some(counted) = block.count else {
            compared.unmeasured += 1;
            continue;
        };
        if seen.insert(block.address) {
            compared.instructions_measured += truth.range(range.clone()).map(|(_, count)| count).sum::<u64>();
        }
        let address = match listing.range(range.clone()).find(|instruction| !instruction.repeats) {
            Some(instruction) => instruction.address,
            None if listing.range(range).next().is_some() => {
                compared.only_rep += 1;
                continue;
            }
            // no instruction here for the disassembler: then nothing may have run
            None => block.address,
        };
        compared.blocks += 1;
        let callgrind = truth.get(&address).copied().unwrap_or(0);
        compared.executed += u64::from(callgrind > 0);
        if counted != callgrind {
            let function = block.function.clone();
            differences.push(Difference { function, block: block.address, address, counted, callgrind });
        }
    }
    (compared, differences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::Block;

    #[test]
    fn each_block() {
        let listing = Listing::parse(
            "  10: f3 48 a5                     \trep\t\tmovsq\t(%rsi), %es:(%rdi)\n  13: 90 \tnop\n  14: f3 48 a5 \trep\t\tmovsq\n  17: c3 \tretq\n",
        );
        let block = |address, size, count| Block { function: "f".to_owned(), address, size, count };
        let profile = Profile {
            blocks: vec![
                block(0x10, 4, Some(2)),
                block(0x14, 3, Some(2)),
                block(0x17, 1, Some(3)),
                block(0x18, 1, None),
            ],
            unbalanced: Vec::new(),
        };
        let truth = Counts::from([(0x10, 80), (0x13, 2), (0x14, 9), (0x17, 2)]);
        let (compared, differences) = compare(&profile, &truth, &listing, None);
        assert_eq!((compared.blocks, compared.only_rep, compared.unmeasured), (2, 1, 1));
        assert_eq!(compared.instructions, compared.instructions_measured);
        assert_eq!(differences.len(), 1);
        assert_eq!(differences[0].to_string(), "f block 0x17: counted 3, callgrind 2");
        let (compared, _) = compare(&profile, &truth, &listing, Some(&BTreeSet::from([0x10])));
        assert_eq!(compared.blocks, 1);
    }
}
