//! `relive analyze mix`.

use super::table::{Table, name};
use super::{Asked, Of, Once};
use crate::output::{grouped, percent};
use crate::traced::Traced;
use anyhow::Result;
use relive_analysis::mix::{Mix, Part, Report, Sort};
use std::io::Write;

const EXAMPLES: &str = "\
EXAMPLES:
  relive analyze mix app.rtrace
      which instructions it executed, by sort, by name and by function
  relive analyze mix app.rtrace --json | jq .total";

/// Arguments of `relive analyze mix`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
}

impl Once for Args {
    type Analysis = Mix;

    fn of(&self) -> &Of {
        &self.asked.of
    }

    fn analysis(&self) -> Result<Mix> {
        Ok(Mix::default())
    }

    fn answer(&self, analysis: Mix, traced: &Traced<'_>) -> Result<()> {
        self.asked.answer("mix", analysis, traced, |report, out| print(report, self.asked.top, out))
    }
}

fn print(report: &Report, top: usize, out: &mut dyn Write) -> Result<()> {
    let total = report.total;
    writeln!(
        out,
        "{} instructions: {} loads, {} stores, {} branches, {} calls",
        grouped(total.instructions),
        grouped(total.loads),
        grouped(total.stores),
        grouped(total.branches),
        grouped(total.calls)
    )?;
    let sorts = |title: &str, sorts: &[Sort], top: usize, out: &mut dyn Write| {
        let mut table = Table::new(title, &["times", "share", "instruction"]);
        for sort in sorts {
            let share = percent(sort.instructions, total.instructions);
            table.row([grouped(sort.instructions), share], sort.name.as_str());
        }
        table.print(top, out)
    };
    sorts("By sort", &report.categories, usize::MAX, out)?;
    sorts("By name", &report.mnemonics, top, out)?;
    let parts = |title: &str, parts: &[Part], out: &mut dyn Write| {
        let mut table =
            Table::new(title, &["instructions", "share", "loads", "stores", "branches", "calls", "where"]);
        for Part { location, counts } in parts {
            let numbers = [counts.loads, counts.stores, counts.branches, counts.calls].map(grouped);
            let share = percent(counts.instructions, total.instructions);
            let cells = [grouped(counts.instructions), share].into_iter().chain(numbers);
            let name = match (&location.function, &location.module) {
                (None, Some(module)) => module.to_string(),
                _ => name(location),
            };
            table.row(cells, name);
        }
        table.print(top, out)
    };
    parts("By module", &report.modules, out)?;
    parts("By function", &report.functions, out)
}
