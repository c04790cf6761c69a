//! BOLT's YAML profiles: what `llvm-bolt -w`, `perf2bolt --profile-format=yaml` and `merge-fdata` write.
//!
//! A block is known by its number among BOLT's own blocks. Where it begins is the lower 16 bits of its hash
//! (`BlendedBlockHash` in LLVM's `bolt/include/bolt/Profile/..`): blocks come in the order of addresses, unless the header says
//! `dfs-order: true`, so that functions of more than 64 KiB can be told as well. The layout is that of LLVM's own writer
//! (`bolt/include/bolt/Profile/ProfileYAMLMapping.h`), one field in a line; this is no reader for YAML at large.

use super::sampled::Sampled;
use super::{Evidence, Importer};
use crate::error::ImportError;
use crate::surroundings::Surroundings;
use relive_profile::model::Module;
use std::collections::{HashMap, HashSet};

/// The format.
pub(super) struct BoltYaml;

impl Importer for BoltYaml {
    fn name(&self) -> &'static str {
        "bolt-yaml"
    }

    fn about(&self) -> &'static str {
        "profiles as `llvm-bolt -w` writes them"
    }

    fn recognises(&self, start: &str) -> bool {
        start.starts_with("---") && start.contains("profile-version:")
    }

    fn read(&self, text: &str, module: &Module, around: &dyn Surroundings) -> Result<Evidence, ImportError> {
        let names = super::names(module, around)?;
        let file = File::parse(text)?;
        let addresses: HashMap<u64, u64> = file
            .functions
            .iter()
            .filter_map(|function| Some((function.id, names.address(&function.name)?)))
            .collect();
        let handlers: HashSet<u64> = module
            .functions
            .iter()
            .flat_map(|function| &function.blocks)
            .filter(|block| block.is_landing_pad)
            .map(|block| block.address)
            .collect();
        let mut sampled = Sampled::default();
        let (mut strangers, mut without_places) = (0u64, 0u64);
        let mut called: HashMap<u64, u64> = HashMap::new();
        for function in &file.functions {
            let Some(&start) = addresses.get(&function.id) else {
                strangers += 1;
                continue;
            };
            let Some(offsets) = function.offsets(file.is_dfs) else {
                without_places += 1;
                continue;
            };
            let mut entered: HashMap<u64, u64> = HashMap::new();
            for &(to, count) in function.blocks.iter().flat_map(|block| &block.successors) {
                let sum = entered.entry(to).or_default();
                *sum = sum.saturating_add(count);
            }
            for block in &function.blocks {
                let at = start + offsets[&block.id];
                // What nothing in the function led to was caught: the unwinder came there.
                let caught = block.executed.saturating_sub(entered.get(&block.id).copied().unwrap_or(0));
                if caught > 0 && handlers.contains(&at) {
                    sampled.branch(None, at, caught);
                }
                for &(to, count) in &block.successors {
                    if let Some(offset) = offsets.get(&to).filter(|_| count > 0) {
                        sampled.block(at, start + offset, count);
                    }
                }
                for call in block.calls.iter().filter(|call| call.count > 0) {
                    if let Some(&to) = addresses.get(&call.callee).filter(|_| call.entry == 0) {
                        *called.entry(call.callee).or_default() += call.count;
                        sampled.branch(at.checked_add(call.offset), to, call.count);
                    }
                }
            }
        }
        for function in &file.functions {
            let rest = function.entries.saturating_sub(called.get(&function.id).copied().unwrap_or(0));
            if let Some(&to) = addresses.get(&function.id).filter(|_| rest > 0) {
                sampled.branch(None, to, rest);
            }
        }
        let mut notes = Vec::new();
        if strangers > 0 {
            notes.push(format!("{strangers} functions are not in the binary"));
        }
        if without_places > 0 && without_places + strangers == file.functions.len() as u64 {
            return Err(ImportError::Nothing {
                what: "it is not told where blocks begin: they have no hashes".to_string(),
            });
        }
        if without_places > 0 {
            notes.push(format!("of {without_places} functions it is not told where blocks begin"));
        }
        super::not_nothing(sampled, notes, module)
    }
}

#[derive(Default)]
struct File {
    is_dfs: bool,
    functions: Vec<Function>,
}

#[derive(Default)]
struct Function {
    name: String,
    id: u64,
    entries: u64,
    blocks: Vec<Block>,
}

#[derive(Default)]
struct Block {
    id: u64,
    hash: Option<u64>,
    executed: u64,
    calls: Vec<Call>,
    /// Which block, and how often.
    successors: Vec<(u64, u64)>,
}

struct Call {
    offset: u64,
    callee: u64,
    entry: u64,
    count: u64,
}

impl Function {
    /// Where each block begins; nothing if that cannot be told.
    fn offsets(&self, is_dfs: bool) -> Option<HashMap<u64, u64>> {
        let (mut offsets, mut high, mut last) = (HashMap::new(), 0u64, 0u64);
        for block in &self.blocks {
            let low = block.hash? & 0xffff;
            if low < last && !is_dfs {
                high += 0x1_0000;
            }
            last = low;
            offsets.insert(block.id, high + low);
        }
        Some(offsets)
    }
}

impl File {
    fn parse(text: &str) -> Result<Self, ImportError> {
        let mut file = Self::default();
        let mut in_functions = false;
        for (line, number) in text.lines().zip(1..) {
            let wrong = |what: &str| ImportError::line(number, what);
            let field = line.trim_start().trim_start_matches("- ").trim_start();
            let Some((key, value)) = field.split_once(':').map(|(key, value)| (key, value.trim())) else {
                continue;
            };
            let as_number = || parse_number(value).ok_or_else(|| wrong("a number is expected"));
            match (key, in_functions) {
                ("functions", _) => in_functions = true,
                ("profile-version", _) if value != "1" => return Err(wrong("a version that is not known")),
                ("dfs-order", _) => file.is_dfs = value == "true",
                ("profile-flags", _) if !value.contains("lbr") => {
                    return Err(wrong("samples without branch stacks do not tell which way control took"));
                }
                ("name", true) => {
                    let name = value.trim_matches(['\'', '"']).to_string();
                    file.functions.push(Function { name, ..Function::default() });
                }
                (_, false) => {}
                (key, true) => {
                    let function =
                        file.functions.last_mut().ok_or_else(|| wrong("a function begins with its name"))?;
                    match (key, function.blocks.last_mut()) {
                        ("fid", None) => function.id = as_number()?,
                        ("exec", None) => function.entries = as_number()?,
                        ("bid", _) => function.blocks.push(Block { id: as_number()?, ..Block::default() }),
                        ("exec", Some(block)) => block.executed = as_number()?,
                        ("hash", Some(block)) => block.hash = Some(as_number()?),
                        ("succ", Some(block)) => {
                            block.successors = items(value)
                                .map(|item| Some((item_field(item, "bid")?, item_field(item, "cnt")?)))
                                .collect::<Option<_>>()
                                .ok_or_else(|| wrong("a successor has a bid and a cnt"))?;
                        }
                        ("calls", Some(block)) => {
                            block.calls = items(value)
                                .map(|item| {
                                    Some(Call {
                                        offset: item_field(item, "off")?,
                                        callee: item_field(item, "fid")?,
                                        entry: item_field(item, "disc").unwrap_or(0),
                                        count: item_field(item, "cnt")?,
                                    })
                                })
                                .collect::<Option<_>>()
                                .ok_or_else(|| wrong("a call has an off, a fid and a cnt"))?;
                        }
                        _ => {}
                    }
                }
            }
        }
        if !in_functions {
            return Err(ImportError::Nothing {
                what: "no profile of BOLT in YAML: it has no functions".to_string(),
            });
        }
        Ok(file)
    }
}

/// The items of `[ { a: 1 }, { a: 2 } ]`.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split('{').skip(1).map(|item| item.split('}').next().unwrap_or_default())
}

fn item_field(item: &str, name: &str) -> Option<u64> {
    item.split(',').find_map(|field| {
        let (key, value) = field.split_once(':')?;
        (key.trim() == name).then(|| parse_number(value.trim())).flatten()
    })
}

fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "---\nheader:\n  profile-version: 1\n  profile-flags:   [ lbr ]\n  dfs-order:       false\nfunctions:\n  \
- name:            'f/1'\n    fid:             2\n    hash:            0xE7\n    exec:            5\n    nblocks:         10\n    blocks:\n      \
- bid:             0\n        insns:           10\n        hash:            0xABCD0000\n        exec:            5\n        \
calls:           [ { off: 0x1A, fid: 3, disc: 1, cnt: 4 } ]\n        succ:            [ { bid: 9, cnt: 0 }, { bid: 1, cnt: 3, mis: 1 } ]\n      \
- bid:             1\n        insns:           2\n        hash:            0x12FFF0\n      - bid:             2\n        insns:           2\n        hash:            0x120010\n...\n";

    #[test]
    fn as_bolt_writes_it() {
        let file = File::parse(YAML).expect("a profile");
        let function = &file.functions[0];
        assert_eq!((function.name.as_str(), function.id, function.entries), ("f/1", 2, 5));
        assert_eq!(function.blocks[0].successors, [(9, 0), (1, 3)]);
        let call = &function.blocks[0].calls[0];
        assert_eq!((call.offset, call.callee, call.entry, call.count), (0x1a, 3, 1, 4));
        assert_eq!(
            function.offsets(false).expect("told"),
            HashMap::from([(0, 0), (1, 0xfff0), (2, 0x1_0010)])
        );
        assert!(BoltYaml.recognises(YAML));
    }

    #[test]
    fn what_it_is_not() {
        let bad = YAML.replace("cnt: 3", "cnt: three");
        let error = File::parse(&bad).err().expect("an error").to_string();
        assert!(error.starts_with("line 18: a successor"), "{error}");
        assert!(File::parse(&YAML.replace("lbr", "sample")).is_err());
        assert!(File::parse("1 main 0 1 main 10 0 5\n").is_err());
    }
}
