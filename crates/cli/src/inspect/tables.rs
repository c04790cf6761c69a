//! Tables for scripts: tab-separated, with a header line.

use super::Subject;
use crate::output::field;
use anyhow::Result;
use relive_code::cfg::Target;
use std::io::Write;

/// One line a function.
pub(crate) fn functions(subject: &Subject<'_, '_>, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "name\taddress\tsize\tstatus")?;
    for function in &subject.program.functions {
        let status = function.reason().map_or("understood", |reason| reason.name());
        writeln!(
            out,
            "{}\t{}\t{}\t{status}",
            field(&subject.name(function)),
            function.entry,
            function.size()
        )?;
    }
    Ok(())
}

/// One line a basic block.
pub(crate) fn blocks(subject: &Subject<'_, '_>, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "function\taddress\tsize\tsuccessors")?;
    for function in &subject.program.functions {
        let name = subject.name(function);
        let name = field(&name);
        for (id, block) in function.cfg.numbered_blocks() {
            write!(out, "{name}\t{}\t{}\t", block.start, block.len)?;
            let mut first = true;
            for edge in function.cfg.edges_from(id) {
                let to = match edge.to {
                    Target::Block(to) => function.cfg.block(to).start,
                    Target::Outside(to) => to,
                    Target::Elsewhere => continue,
                };
                if !std::mem::take(&mut first) {
                    out.write_all(b",")?;
                }
                write!(out, "{to}")?;
            }
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}
