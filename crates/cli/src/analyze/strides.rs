//! `relive analyze strides`.

use super::except::ExceptArgs;
use super::table::{Table, name};
use super::{Asked, Of, Once};
use crate::output::{grouped, percent, several};
use crate::traced::Traced;
use anyhow::Result;
use relive_analysis::strides::{Report, Strides};
use std::io::Write;

const EXAMPLES: &str = "\
EXAMPLES:
  relive analyze strides app.rtrace --top 20
      how the loads and stores that happen most move through memory
  relive analyze strides app.rtrace --html strides.html";

/// Arguments of `relive analyze strides`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,

    #[command(flatten)]
    except: ExceptArgs,
}

impl Once for Args {
    type Analysis = Strides;

    fn of(&self) -> &Of {
        &self.asked.of
    }

    fn analysis(&self) -> Result<Strides> {
        self.except.check(self.asked.of.trace.is_some())?;
        Ok(Strides::default())
    }

    fn analysis_of(&self, traced: &Traced<'_>) -> Result<Strides> {
        Ok(Strides::except(self.except.code(traced)?))
    }

    fn answer(&self, analysis: Strides, traced: &Traced<'_>) -> Result<()> {
        self.asked.answer("strides", analysis, traced, |report, out| print(report, self.asked.top, out))
    }
}

/// So many strides of an access are shown.
const SHOWN: usize = 3;

fn print(report: &Report, top: usize, out: &mut dyn Write) -> Result<()> {
    let total: u64 = report.patterns.values().map(|sum| sum.times).sum();
    let accesses = report.accesses.len() as u64;
    writeln!(
        out,
        "{} by {} in the code",
        several(total, "access").replace("accesss", "accesses"),
        grouped(accesses)
    )?;
    let mut table = Table::new("By pattern", &["times", "share", "in the code", "pattern"]);
    for (pattern, sum) in &report.patterns {
        let cells = [grouped(sum.times), percent(sum.times, total), grouped(sum.instructions)];
        table.row(cells, *pattern);
    }
    table.print(usize::MAX, out)?;
    let mut table = Table::new("Accesses", &["times", "what", "pattern", "strides", "where"]);
    for access in &report.accesses {
        let times = access.loads + access.stores;
        let what = if access.stores == 0 { "load" } else { "store" };
        let seen: u64 = access.strides.iter().map(|stride| stride.times).sum::<u64>() + access.others;
        let mut strides: Vec<String> = access.strides[..access.strides.len().min(SHOWN)]
            .iter()
            .map(|stride| format!("{:+} ({})", stride.bytes, percent(stride.times, seen)))
            .collect();
        if access.strides.len() > SHOWN || access.others > 0 {
            strides.push("…".to_string());
        }
        let cells = [grouped(times), what.to_string(), access.pattern.name().to_string(), strides.join(", ")];
        let address = access.location.address.unwrap_or(access.place.pc);
        table.row(cells, format!("{address:#x} {}", name(&access.location)));
    }
    table.print(top, out)
}
