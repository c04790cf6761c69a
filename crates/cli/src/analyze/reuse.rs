//! `relive analyze reuse`.

use super::except::ExceptArgs;
use super::table::{Table, name};
use super::{Asked, Of, Once};
use crate::output::{grouped, percent};
use crate::traced::Traced;
use anyhow::{Result, bail};
use relive_analysis::cache::Sharing;
use relive_analysis::reuse::{Histogram, Report, Reuse, Row, Settings};
use std::io::Write;

const EXAMPLES: &str = "\
EXAMPLES:
  relive analyze reuse app.rtrace
      how much else is touched before the same line is touched again
  relive analyze reuse app.rtrace --block 4096 --shared
      in pages, by all threads together";

/// Arguments of `relive analyze reuse`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,

    #[command(flatten)]
    except: ExceptArgs,

    /// How many bytes count as one block: 64 for lines of a cache, 1 for bytes, 4096 for pages
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    block: u64,

    /// What other threads of the process touch counts too; otherwise each thread is looked at alone
    #[arg(long)]
    shared: bool,
}

impl Once for Args {
    type Analysis = Reuse;

    fn of(&self) -> &Of {
        &self.asked.of
    }

    fn analysis(&self) -> Result<Reuse> {
        if !self.block.is_power_of_two() || self.block > 1 << 30 {
            bail!("--block {}: must be a power of two, and not more than 1 GiB", self.block);
        }
        self.except.check(self.asked.of.trace.is_some())?;
        let sharing = if self.shared { Sharing::Process } else { Sharing::Thread };
        Ok(Reuse::new(Settings { block_bits: self.block.trailing_zeros(), sharing }))
    }

    fn analysis_of(&self, traced: &Traced<'_>) -> Result<Reuse> {
        Ok(self.analysis()?.except(self.except.code(traced)?))
    }

    fn answer(&self, analysis: Reuse, traced: &Traced<'_>) -> Result<()> {
        self.asked.answer("reuse", analysis, traced, |report, out| print(report, self.asked.top, out))
    }
}

fn print(report: &Report, top: usize, out: &mut dyn Write) -> Result<()> {
    let Report { block, total, functions, lines, .. } = report;
    writeln!(
        out,
        "{} touches of blocks of {block} bytes, {} of them of a block that was never touched before",
        grouped(total.touches),
        grouped(total.first)
    )?;
    let heads = ["touches", "share", "not found in so much", "bytes touched in between, below"];
    let mut table = Table::new("Distances", &heads);
    for distance in &total.distances {
        let missed = total.misses(distance.below);
        table.row(
            [
                grouped(distance.touches),
                percent(distance.touches, total.touches),
                percent(missed, total.touches),
            ],
            grouped(distance.below.saturating_mul(*block)),
        );
    }
    table.print(usize::MAX, out)?;
    let rows = |title: &str, rows: &[Row], out: &mut dyn Write| {
        let mut table = Table::new(title, &["touches", "first", "half below", "far", "where"]);
        for Row { location, histogram } in rows {
            let half = histogram.median().map_or_else(|| "-".to_string(), |half| grouped(half * block));
            let cells = [grouped(histogram.touches), grouped(histogram.first), half, far(histogram, *block)];
            table.row(cells, name(location));
        }
        table.print(top, out)
    };
    rows(
        "By function (half of the distances are below so many bytes; far: 32 KiB and more)",
        functions,
        out,
    )?;
    rows("By line", lines, out)
}

/// The share of what a cache of 32 KiB would not have.
fn far(histogram: &Histogram, block: u64) -> String {
    percent(histogram.misses((32 << 10) / block.min(32 << 10)), histogram.touches)
}
