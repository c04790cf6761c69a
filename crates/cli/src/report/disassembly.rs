//! Disassembly with counts in the margin, and, where the program is gone, blocks with counts.

use super::annotate::margin;
use super::binary::instructions;
use crate::args::Report;
use crate::output::field;
use anyhow::Result;
use relive_code::isa::Syntax;
use relive_image::image::Image;
use relive_image::lines::Lines;
use relive_profile::model::{Block, Edge, Function, Module};
use std::io::Write;

/// Prints all blocks with their instructions.
pub(crate) fn print(
    image: &Image<'_>,
    lines: &Lines<'_>,
    function: &Function,
    args: &Report,
    out: &mut dyn Write,
) -> Result<()> {
    let syntax = if args.att { Syntax::Att } else { Syntax::Intel };
    let mut shown = None;
    for (block, i) in function.blocks.iter().zip(0..) {
        let mut count = margin(block.count);
        for insn in instructions(image, block) {
            if let Some(line) = lines.at(insn.addr()).filter(|line| shown != Some((line.file, line.line))) {
                shown = Some((line.file, line.line));
                writeln!(out, "{:>16} |             ; {}:{}", "", field(line.file), line.line)?;
            }
            // Each count once, where its block begins.
            let count = std::mem::take(&mut count);
            writeln!(out, "{count:>16} | {:>10x}  {}", insn.addr().0, insn.text(syntax))?;
        }
        leaving(function, i, out)?;
    }
    Ok(())
}

/// Prints all blocks.
pub(crate) fn print_blocks(module: &Module, function: &Function, out: &mut dyn Write) -> Result<()> {
    for (block, i) in function.blocks.iter().zip(0..) {
        let Block { address, size, insns, count, line, .. } = block;
        let place = match line {
            Some(line) => format!("  {}:{}", field(module.file(*line)), line.line),
            None => String::new(),
        };
        let what = format!("{size} bytes, {insns} instructions{place}");
        writeln!(out, "{:>16} | {address:>10x}  {what}", margin(*count))?;
        leaving(function, i, out)?;
    }
    Ok(())
}

/// Where a block leads, if there is a choice.
fn leaving(function: &Function, block: u32, out: &mut dyn Write) -> Result<()> {
    let edges: Vec<&Edge> =
        function.edges.iter().filter(|edge| edge.from.as_block() == Some(block)).collect();
    if edges.len() < 2 {
        return Ok(());
    }
    for edge in edges {
        let to = match edge.to.as_block().and_then(|to| function.blocks.get(to as usize)) {
            Some(block) => format!("{:x} ", block.address),
            None if edge.to.as_hub().is_some() => "one of several ".to_string(),
            None => String::new(),
        };
        writeln!(out, "{:>16} |             -> {to}{}", margin(edge.count), edge.kind.name())?;
    }
    Ok(())
}
