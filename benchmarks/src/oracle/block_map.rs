//! clang's block address map (`-fbasic-block-address-map`), as `llvm-readobj --bb-addr-map` prints it in JSON.

use crate::process::output_of;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// One machine basic block.
#[derive(Debug, PartialEq)]
pub(crate) struct MappedBlock {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_landing_pad: bool,
    pub(crate) can_fall_through: bool,
}

/// One function: its blocks, range by range.
#[derive(Debug, PartialEq)]
pub(crate) struct MappedFunction {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) ranges: Vec<Vec<MappedBlock>>,
}

/// Reads the map of a file.
pub(crate) fn read(file: &Path) -> Result<Vec<MappedFunction>> {
    let mut command = Command::new("llvm-readobj-19");
    parse(&output_of(command.args(["--bb-addr-map", "--elf-output-style=JSON"]).arg(file))?)
}

fn parse(text: &str) -> Result<Vec<MappedFunction>> {
    let json: Value = serde_json::from_str(text).context("llvm-readobj --bb-addr-map")?;
    let functions = json[0]["BBAddrMap"].as_array().context("no BBAddrMap")?;
    functions.iter().map(|entry| function(&entry["Function"])).collect()
}

fn function(json: &Value) -> Result<MappedFunction> {
    let ranges = json["BB Ranges"].as_array().context("no BB Ranges")?;
    Ok(MappedFunction {
        name: json["Name"].as_str().unwrap_or("?").to_owned(),
        address: number(&json["At"])?,
        ranges: ranges.iter().map(range).collect::<Result<_>>()?,
    })
}

fn range(json: &Value) -> Result<Vec<MappedBlock>> {
    let base = number(&json["Base Address"])?;
    let entries = json["BB Entries"].as_array().context("no BB Entries")?;
    let block = |entry: &Value| {
        Ok(MappedBlock {
            address: base + number(&entry["Offset"])?,
            size: number(&entry["Size"])?,
            is_landing_pad: entry["IsEHPad"].as_bool().context("IsEHPad")?,
            can_fall_through: entry["CanFallThrough"].as_bool().context("CanFallThrough")?,
        })
    };
    entries.iter().map(block).collect()
}

fn number(json: &Value) -> Result<u64> {
    json.as_u64().with_context(|| format!("not a number: {json}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_addresses() {
        let text = r#"[{"FileSummary":{},"BBAddrMap":[{"Function":{"At":4416,"Name":"f","BB Ranges":[{"Base Address":4416,
            "BB Entries":[{"ID":0,"Offset":0,"Size":8,"HasReturn":false,"HasTailCall":false,"IsEHPad":false,
            "CanFallThrough":true,"HasIndirectBranch":false},{"ID":9,"Offset":8,"Size":18,"HasReturn":false,
            "HasTailCall":false,"IsEHPad":true,"CanFallThrough":false,"HasIndirectBranch":true}]}]}}]}]"#;
        let functions = parse(text).unwrap();
        assert_eq!(functions.len(), 1);
        assert_eq!((functions[0].name.as_str(), functions[0].address), ("f", 4416));
        let blocks = &functions[0].ranges[0];
        assert_eq!((blocks[0].address, blocks[0].can_fall_through), (4416, true));
        assert_eq!((blocks[1].address, blocks[1].size, blocks[1].is_landing_pad), (4424, 18, true));
    }
}
