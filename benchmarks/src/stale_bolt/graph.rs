//! What BOLT makes of a binary: its functions, under the names it gives them, and where their blocks begin.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A function as BOLT sees it.
#[derive(Debug, Default)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) address: u64,
    size: u64,
    /// BOLT understands all of its control flow; others it leaves as they are.
    pub(crate) simple: bool,
    offsets: BTreeSet<u64>,
}

impl Function {
    pub(crate) fn starts_block(&self, address: u64) -> bool {
        self.offsets.contains(&(address - self.address))
    }
}

/// The functions of one binary.
pub(crate) struct Graph {
    functions: BTreeMap<u64, Function>,
}

impl Graph {
    /// Reads what `--print-cfg` prints; `--enable-bat` adds the offsets of blocks.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut functions: Vec<Function> = Vec::new();
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("Binary Function \"")
                && let Some((name, _)) = title.split_once("\" after building cfg")
            {
                // f(*2): f has two names
                let name = name.rsplit_once("(*").map_or(name, |(name, _)| name);
                functions.push(Function { name: name.to_owned(), ..Function::default() });
                continue;
            }
            let Some(function) = functions.last_mut() else { continue };
            let Some((key, value)) = line.split_once(':') else { continue };
            match (key.trim(), value.trim()) {
                ("Address", value) => function.address = number(value)?,
                ("Size", value) => function.size = number(value)?,
                ("IsSimple", value) => function.simple = value == "1",
                ("Input offset", value) => {
                    function.offsets.insert(number(value)?);
                }
                _ => {}
            }
        }
        Ok(Self { functions: functions.into_iter().map(|function| (function.address, function)).collect() })
    }

    /// The function that covers this address.
    pub(crate) fn around(&self, address: u64) -> Option<&Function> {
        let (_, function) = self.functions.range(..=address).next_back()?;
        (address < function.address + function.size).then_some(function)
    }

    /// The function that begins here.
    pub(crate) fn at(&self, address: u64) -> Option<&Function> {
        self.functions.get(&address)
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.values()
    }
}

fn number(text: &str) -> Result<u64> {
    crate::relive::hex(text).context("llvm-bolt --print-cfg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions() {
        let text = "BOLT-INFO: x\n\
Binary Function \"_init/1(*2)\" after building cfg {\n  All names   : _init/1\n                .init/1\n\
  Address     : 0x7000\n  Size        : 0x17\n  MaxSize     : 0x17\n  IsSimple    : 1\n}\n\
.LBB00 (4 instructions, align : 1)\n  Input offset: 0x0\n    0000000e: \tje\t.Ltmp0 # Offset: 14\n\
.LFT0 (1 instructions, align : 1)\n  Input offset: 0x10\n\
Binary Function \"g\" after building cfg {\n  Address     : 0x7020\n  Size        : 0x4\n  IsSimple    : 0\n}\n";
        let graph = Graph::parse(text).unwrap();
        let init = graph.around(0x7016).unwrap();
        assert_eq!((init.name.as_str(), init.simple), ("_init/1", true));
        assert!(init.starts_block(0x7010) && !init.starts_block(0x700e));
        assert!(graph.around(0x7017).is_none());
        assert!(!graph.at(0x7020).unwrap().simple);
    }
}
