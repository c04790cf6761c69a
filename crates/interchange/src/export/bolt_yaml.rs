//! BOLT's YAML profiles: what `llvm-bolt -w` writes and `llvm-bolt -data=FILE -profile-ignore-hash` reads.
//!
//! Blocks are BOLT's own, by their numbers (see [`crate::bolt::blocks`]). The hash of a function is over LLVM's names of its instructions,
//! which nobody else has, so it is left zero and BOLT has to be told not to ask for it: it then believes a function that has as many blocks as
//! it finds itself. Of the hash of a block only its lower 16 bits are written, which are where it begins: whoever reads the file without
//! BOLT's rules needs them. The layout is that of `bolt/include/bolt/Profile/ProfileYAMLMapping.h`.

use super::{Exporter, Summary};
use crate::bolt::blocks::{Blocks, Labels};
use crate::bolt::branches::{End, How};
use crate::bolt::names::Names;
use crate::error::ExportError;
use crate::surroundings::Surroundings;
use relive_code::addr::LinkAddr;
use relive_code::isa::{Decode, Flow};
use relive_profile::model::{Count, Function, Module, Profile};
use std::collections::BTreeMap;
use std::io::Write;

/// The format.
pub(super) struct BoltYaml;

impl Exporter for BoltYaml {
    fn name(&self) -> &'static str {
        "bolt-yaml"
    }

    fn about(&self) -> &'static str {
        "blocks for `llvm-bolt -data=FILE -profile-ignore-hash`; needs the binary"
    }

    fn write_hot(
        &self,
        least: f64,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let (told, names) = super::branches(self.name(), least, profile, around)?;
        let module = super::only_module(profile, self.name())?;
        let code = Code::read(module, around, &names);
        let mut summary = told.summary();
        let mut all: BTreeMap<u64, Told> = BTreeMap::new();
        for function in &module.functions {
            let Some(bytes) = code.of.get(&function.address) else { continue };
            let blocks = Blocks::new(bytes, function.address, &code.labels);
            all.insert(function.address, Told::new(function, blocks, told.least));
        }
        for (&(from, to, how), &count) in &told.branches {
            let End::At(from) = from else { continue };
            let Some(start) = code.function(from) else { continue };
            if let Some(own) = all.get_mut(&start) {
                own.add(from, to, how, count, &names, start);
            }
        }
        all.retain(|_, told| told.ran());
        write_all(&all, &names, module, out)?;
        summary.written = vec![("functions", all.len() as u64)];
        Ok(summary)
    }
}

/// The code of the functions that BOLT knows, and where all of it leads to.
struct Code {
    of: BTreeMap<u64, Vec<u8>>,
    labels: Labels,
}

impl Code {
    fn read(module: &Module, around: &dyn Surroundings, names: &Names) -> Self {
        let mut code = Self { of: BTreeMap::new(), labels: Labels::default() };
        for (start, end) in names.functions() {
            let Some(bytes) = around.code(module, start, end) else { continue };
            code.labels.add_jumps(&bytes, start);
            for insn in Decode::new(&bytes, LinkAddr(start)).filter(|insn| insn.flow() == Flow::IndirectJump)
            {
                let cases = around.cases(module, insn.addr().0).unwrap_or_default();
                cases.to.into_iter().for_each(|to| code.labels.add(to));
            }
            code.of.insert(start, bytes);
        }
        names.inner_entries().for_each(|entry| code.labels.add(entry));
        for block in module.functions.iter().flat_map(|function| &function.blocks) {
            if block.is_landing_pad {
                code.labels.add(block.address);
            }
        }
        code
    }

    /// The function that an address is in.
    fn function(&self, address: u64) -> Option<u64> {
        let (start, bytes) = self.of.range(..=address).next_back()?;
        (address < start + bytes.len() as u64).then_some(*start)
    }
}

/// What there is to tell of a function.
struct Told {
    blocks: Blocks,
    entries: u64,
    /// By block, how often it ran.
    counts: Vec<u64>,
    /// By block, where it led and how often.
    successors: BTreeMap<usize, BTreeMap<usize, u64>>,
    /// By block, where in it calls are, and which function they call; none if nobody knows.
    calls: BTreeMap<usize, BTreeMap<(u64, Option<u64>), u64>>,
}

impl Told {
    fn new(function: &Function, blocks: Blocks, least: u64) -> Self {
        let often =
            |count: Option<Count>| count.map(Count::value).filter(|count| *count >= least).unwrap_or(0);
        let mut counts = vec![0; blocks.numbered.len()];
        for block in &function.blocks {
            if let Some(number) = blocks.at(block.address) {
                counts[number] = often(block.count);
            }
        }
        let entries = often(function.entries());
        Self { blocks, entries, counts, successors: BTreeMap::new(), calls: BTreeMap::new() }
    }

    fn ran(&self) -> bool {
        self.entries > 0 || !self.successors.is_empty() || !self.calls.is_empty()
    }

    /// Adds a branch of the function that begins at `start`.
    fn add(&mut self, from: u64, to: End, how: How, count: u64, names: &Names, start: u64) {
        let Some(block) = self.blocks.around(from) else { return };
        let inside = match to {
            End::At(to) if names.start(to) == Some(start) => self.blocks.at(to),
            _ => None,
        };
        if let Some(to) = inside.filter(|_| how == How::Continued || !self.blocks.calls(from)) {
            self.lead(block, to, count);
        } else if how == How::Branched {
            let callee = match to {
                End::At(to) => names.start(to).filter(|start| *start == to),
                End::Unknown => None,
            };
            let offset = from - self.blocks.numbered[block].start;
            let sum = self.calls.entry(block).or_default().entry((offset, callee)).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    fn lead(&mut self, from: usize, to: usize, count: u64) {
        let sum = self.successors.entry(from).or_default().entry(to).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// BOLT reads signed numbers in places.
fn signed(count: u64) -> u64 {
    count.min(i64::MAX as u64)
}

fn write_all(
    all: &BTreeMap<u64, Told>,
    names: &Names,
    module: &Module,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    // Number 0 stands for functions that are not known.
    let ids: BTreeMap<u64, usize> = all.keys().copied().zip(1..).collect();
    let quoted = |name: &str| format!("'{}'", name.replace('\'', "''"));
    writeln!(out, "---\nheader:\n  profile-version: 1\n  binary-name:     {}", quoted(&module.path))?;
    writeln!(out, "  profile-flags:   [ lbr ]\n  profile-origin:  relive\n  profile-events:  ''")?;
    writeln!(out, "  dfs-order:       false\nfunctions:")?;
    for (start, told) in all {
        let Some(name) = names.raw(*start) else { continue };
        writeln!(out, "  - name:            {}\n    fid:             {}", quoted(&name), ids[start])?;
        writeln!(out, "    hash:            0x0\n    exec:            {}", signed(told.entries))?;
        writeln!(out, "    nblocks:         {}\n    blocks:", told.blocks.numbered.len())?;
        for (number, &count) in told.counts.iter().enumerate() {
            let (ways, calls) = (told.successors.get(&number), told.calls.get(&number));
            if count == 0 && ways.is_none() && calls.is_none() {
                continue;
            }
            let own = told.blocks.numbered.get(number);
            writeln!(out, "      - bid:             {number}")?;
            writeln!(out, "        insns:           {}", own.map_or(1, |block| block.instructions))?;
            if let Some(block) = own {
                writeln!(out, "        hash:            0x{:X}", (block.start - start) & 0xffff)?;
            }
            writeln!(out, "        exec:            {}", signed(count))?;
            if let Some(calls) = calls {
                let items = calls.iter().map(|((offset, callee), &count)| {
                    let id = callee.and_then(|callee| ids.get(&callee)).unwrap_or(&0);
                    format!("{{ off: 0x{offset:X}, fid: {id}, cnt: {} }}", signed(count))
                });
                writeln!(out, "        calls:           [ {} ]", items.collect::<Vec<_>>().join(", "))?;
            }
            if let Some(ways) = ways {
                let items =
                    ways.iter().map(|(to, &count)| format!("{{ bid: {to}, cnt: {} }}", signed(count)));
                writeln!(out, "        succ:            [ {} ]", items.collect::<Vec<_>>().join(", "))?;
            }
        }
    }
    writeln!(out, "...")?;
    Ok(())
}
