//! The disassembly of `llvm-objdump -d`: instruction boundaries and where control goes.

use crate::process::output_of;
use anyhow::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// What an instruction does to control flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Goes on to the next one.
    Next,
    /// Does nothing: padding, maybe.
    Nop,
    /// Conditional jump to an address.
    Branch(u64),
    /// Unconditional jump to an address.
    Jump(u64),
    /// Jump through a register or memory.
    IndirectJump,
    /// Call, direct or not.
    Call,
    /// Return.
    Return,
    /// `ud2`, `hlt`, `int3`: control does not get past it.
    Trap,
    /// Bytes that are no instruction.
    Invalid,
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) flow: Flow,
    /// Has a `rep` prefix: callgrind counts each iteration.
    pub(crate) repeats: bool,
}

impl Instruction {
    pub(crate) fn end(&self) -> u64 {
        self.address + self.size
    }
}

/// All instructions of a file, by address.
pub(crate) struct Listing {
    by_address: BTreeMap<u64, Instruction>,
}

impl Listing {
    pub(crate) fn of(file: &Path) -> Result<Self> {
        let text = output_of(Command::new("llvm-objdump-19").args(["-d", "-z"]).arg(file))?;
        Ok(Self::parse(&text))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let by_address = text.lines().filter_map(parse_line).map(|i| (i.address, i)).collect();
        Self { by_address }
    }

    pub(crate) fn at(&self, address: u64) -> Option<&Instruction> {
        self.by_address.get(&address)
    }

    /// The instruction that ends where this address begins.
    pub(crate) fn before(&self, address: u64) -> Option<&Instruction> {
        self.by_address.range(..address).next_back().map(|(_, i)| i).filter(|i| i.end() == address)
    }

    pub(crate) fn range(&self, range: Range<u64>) -> impl Iterator<Item = &Instruction> {
        self.by_address.range(range).map(|(_, instruction)| instruction)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Instruction> {
        self.by_address.values()
    }
}

/// Address, colon, bytes, tab, instruction; anything else (headers, symbols) gives nothing.
fn parse_line(line: &str) -> Option<Instruction> {
    let (address, rest) = line.split_once(':')?;
    let address = u64::from_str_radix(address.trim_start(), 16).ok()?;
    let (bytes, text) = rest.split_once('\t')?;
    let size = bytes.split_whitespace().count() as u64;
    let repeats = text.trim_start().starts_with("rep");
    (size > 0).then(|| Instruction { address, size, flow: flow_of(text), repeats })
}

const PREFIXES: [&str; 14] = [
    "notrack", "bnd", "rep", "repz", "repe", "repne", "repnz", "lock", "data16", "addr32", "cs", "ds", "es",
    "ss",
];

fn flow_of(text: &str) -> Flow {
    let mut words = text.split_whitespace();
    let mnemonic = loop {
        match words.next() {
            None => return Flow::Next, // a prefix on its own
            Some(word) if PREFIXES.contains(&word) || word.starts_with("rex64") => {}
            Some(word) => break word,
        }
    };
    let operand = words.next().unwrap_or_default();
    let target = || operand.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match mnemonic {
        "<unknown>" => Flow::Invalid,
        "ud2" | "ud1" | "ud1l" | "ud1q" | "ud1w" | "hlt" | "int3" => Flow::Trap,
        _ if mnemonic.starts_with("nop") => Flow::Nop,
        "xchgw" if text.contains("%ax, %ax") => Flow::Nop,
        _ if mnemonic.starts_with("ret") || mnemonic.starts_with("iret") => Flow::Return,
        _ if mnemonic.starts_with("call") => Flow::Call,
        _ if mnemonic.starts_with("jmp") => target().map_or(Flow::IndirectJump, Flow::Jump),
        _ if mnemonic.starts_with('j') || mnemonic.starts_with("loop") || mnemonic == "xbegin" => {
            target().map_or(Flow::Invalid, Flow::Branch)
        }
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\na.out:\tfile format elf64-x86-64\n\nDisassembly of section .text:\n\n\
0000000000001139 <f>:
    1139: 83 ff 09                     \tcmpl\t$0x9, %edi
    113c: 0f 87 8e 00 00 00            \tja\t0x11d0 <f+0x97>
    1142: e8 cb 00 00 00               \tcallq\t0x122c <g>
    1147: 3e ff e0                     \tnotrack\t\tjmpq\t*%rax
    114a: f3 c3                        \trepz\t\tretq
    114c: 66 90                        \tnop
    114e: 66 2e 0f 1f 84 00 00 00 00 00\tnopw\t%cs:(%rax,%rax)
    1158: eb b8                        \tjmp\t0x1112 <f>
    115a: 0f 0b                        \tud2
    115c: e3 02                        \tjrcxz\t0x1160 <f>
";

    #[test]
    fn flow_of_each_kind() {
        let listing = Listing::parse(TEXT);
        let flows: Vec<Flow> = listing.all().map(|i| i.flow).collect();
        assert_eq!(
            flows,
            [
                Flow::Next,
                Flow::Branch(0x11d0),
                Flow::Call,
                Flow::IndirectJump,
                Flow::Return,
                Flow::Nop,
                Flow::Nop,
                Flow::Jump(0x1112),
                Flow::Trap,
                Flow::Branch(0x1160),
            ]
        );
    }

    #[test]
    fn neighbours() {
        let listing = Listing::parse(TEXT);
        assert_eq!(listing.before(0x1142).unwrap().address, 0x113c);
        assert!(listing.before(0x1141).is_none());
        assert!(listing.at(0x1140).is_none());
        assert_eq!(listing.range(0x1139..0x1147).count(), 3);
        assert_eq!(listing.all().filter(|i| i.repeats).map(|i| i.address).collect::<Vec<_>>(), [0x114a]);
    }
}
