//! DynamoRIO's drcov, version 2: what Lighthouse and others show in IDA, Binary Ninja and Ghidra.
//!
//! Specification: `drcov` of DynamoRIO's documentation, and `clients/drcov/drcov.h`: text up to the table of blocks, then for each
//! block eight bytes: where it begins after its module's base (u32), how long it is (u16), its module (u16). Only blocks that ran
//! are there.

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::places::plain;
use crate::surroundings::Surroundings;
use relive_profile::model::{Count, Module, Profile};
use std::io::Write;

/// The format.
pub(super) struct Drcov;

/// Where linkers put programs that cannot be moved, if nothing else is said.
const FIXED_BASE: u64 = 0x40_0000;

impl Exporter for Drcov {
    fn name(&self) -> &'static str {
        "drcov"
    }

    fn about(&self) -> &'static str {
        "blocks that ran, for Lighthouse in IDA, Binary Ninja and others"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let mut notes = Vec::new();
        let mut table = String::new();
        let (mut blocks, mut count) = (Vec::new(), 0u64);
        // A number of a module has sixteen bits, so there cannot be more.
        for (module, number) in profile.modules.iter().zip(0..u16::MAX) {
            let base = around.base(module).unwrap_or_else(|| {
                notes.push(format!(
                    "{} is not there: its base is taken to be {:#x}",
                    module.path,
                    guessed(module)
                ));
                guessed(module)
            });
            let end = module.functions.iter().map(|function| function.address.saturating_add(function.size));
            let end = end.max().unwrap_or(base).max(base);
            table.push_str(&format!(
                "{number:>3}, {base:#018x}, {end:#018x}, {:#018x}, {}\n",
                0,
                plain(&module.path)
            ));
            let ran = module.functions.iter().flat_map(|function| &function.blocks);
            let mut beyond = 0u64;
            for block in ran.filter(|block| block.count.map_or(0, Count::value) > 0) {
                let Some(start) = block.address.checked_sub(base).and_then(|start| u32::try_from(start).ok())
                else {
                    beyond += 1;
                    continue;
                };
                // Sizes have sixteen bits: a larger block is several.
                let mut done = 0;
                while done < block.size {
                    let size = u16::try_from(block.size - done).unwrap_or(u16::MAX);
                    blocks.extend(start.saturating_add(done).to_le_bytes());
                    blocks.extend(size.to_le_bytes());
                    blocks.extend(number.to_le_bytes());
                    done += u32::from(size);
                    count += 1;
                }
            }
            if beyond > 0 {
                notes.push(format!("{}: blocks more than 4 GiB from its base: {beyond}", module.path));
            }
        }
        let modules = profile.modules.len().min(u16::MAX.into());
        writeln!(out, "DRCOV VERSION: 2\nDRCOV FLAVOR: relive")?;
        writeln!(out, "Module Table: version 2, count {modules}\nColumns: id, base, end, entry, path")?;
        writeln!(out, "{table}BB Table: {count} bbs")?;
        out.write_all(&blocks)?;
        Ok(Summary { written: vec![("modules", modules as u64), ("blocks", count)], notes })
    }
}

/// The base of a file that is not there.
fn guessed(module: &Module) -> u64 {
    let is_fixed = module.functions.first().is_some_and(|function| function.address >= FIXED_BASE);
    if is_fixed { FIXED_BASE } else { 0 }
}
