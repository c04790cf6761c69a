//! `relive analyze cache`.

use super::table::{Table, name};
use super::{Asked, Of, Once};
use crate::output::{grouped, percent};
use crate::traced::Traced;
use anyhow::Result;
use relive_analysis::cache::{Access, Cache, Counts, Geometry, Hierarchy, Report, Row, Sharing};
use std::io::Write;

const EXAMPLES: &str = "\
EXAMPLES:
  relive analyze cache app.rtrace
      32K,8,64 for code and for data, and 8M,16,64 behind them
  relive analyze cache app.rtrace --machine zen4
      the caches of a processor: plain, skylake, icelake-server, zen2, zen4
  relive analyze cache app.rtrace --l1d 32K,8,64 --l2 1M,16,64 --ll 32M,16,64
  relive analyze cache app.rtrace --shared
      all threads share all caches, as in cachegrind

A cache is SIZE,WAYS,LINE: so many bytes, so many lines in a set, so many bytes in a line.";

/// Arguments of `relive analyze cache`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,

    /// The caches of a processor; others are taken for those that are given
    #[arg(long, value_name = "NAME", default_value = "plain", help_heading = "Caches")]
    machine: Hierarchy,

    /// The first level for code
    #[arg(long, value_name = "CACHE", help_heading = "Caches")]
    l1i: Option<Geometry>,

    /// The first level for data
    #[arg(long, value_name = "CACHE", help_heading = "Caches")]
    l1d: Option<Geometry>,

    /// The second level
    #[arg(long, value_name = "CACHE", help_heading = "Caches")]
    l2: Option<Geometry>,

    /// The last level
    #[arg(long, value_name = "CACHE", help_heading = "Caches")]
    ll: Option<Geometry>,

    /// All threads of a process share all caches; otherwise each has its own but for the last level
    #[arg(long, help_heading = "Caches")]
    shared: bool,
}

impl Once for Args {
    type Analysis = Cache;

    fn of(&self) -> &Of {
        &self.asked.of
    }

    fn analysis(&self) -> Result<Cache> {
        let machine = self.machine;
        let caches = Hierarchy {
            l1i: self.l1i.unwrap_or(machine.l1i),
            l1d: self.l1d.unwrap_or(machine.l1d),
            l2: self.l2.or(machine.l2),
            ll: self.ll.unwrap_or(machine.ll),
            sharing: if self.shared { Sharing::Process } else { Sharing::Thread },
        };
        Ok(Cache::new(caches))
    }

    fn answer(&self, analysis: Cache, traced: &Traced<'_>) -> Result<()> {
        self.asked.answer("cache", analysis, traced, |report, out| print(report, self.asked.top, out))
    }
}

fn print(report: &Report, top: usize, out: &mut dyn Write) -> Result<()> {
    let caches = &report.caches;
    let l2 = caches.l2.map_or_else(String::new, |l2| format!(", second level {l2}"));
    writeln!(out, "code {}, data {}{l2}, last level {}", caches.l1i, caches.l1d, caches.ll)?;
    let has_l2 = caches.l2.is_some();
    let heads = |first: &[&'static str], last| {
        let l2: &[_] = if has_l2 { &["L2 misses"] } else { &[] };
        [first, &["L1 misses"], l2, &["LL misses", last]].concat()
    };
    let misses = |access: &Access| {
        let l2 = has_l2.then_some(access.l2_misses);
        let all = [access.l1_misses].into_iter().chain(l2).chain([access.ll_misses]);
        all.collect::<Vec<u64>>()
    };
    let mut table = Table::new("Altogether", &heads(&["accesses"], "what"));
    let Counts { code, reads, writes } = report.total;
    for (access, what) in [(code, "code"), (reads, "reads"), (writes, "writes")] {
        let shown =
            misses(&access).into_iter().map(|n| format!("{} ({})", grouped(n), percent(n, access.accesses)));
        table.row([grouped(access.accesses)].into_iter().chain(shown), what);
    }
    table.print(usize::MAX, out)?;
    let rows = |title: &str, rows: &[Row], out: &mut dyn Write| {
        let columns = ["L1i", "LLi", "L1d read", "LLd read", "L1d write", "LLd write"];
        let mut table = Table::new(title, &[&["instructions"][..], &columns, &["where"]].concat());
        for Row { location, counts: Counts { code, reads, writes } } in rows {
            let each = [code, reads, writes].into_iter().flat_map(|a| [a.l1_misses, a.ll_misses]);
            table.row([code.accesses].into_iter().chain(each).map(grouped), name(location));
        }
        table.print(top, out)
    };
    rows("Misses by function", &report.functions, out)?;
    rows("Misses by line", &report.lines, out)
}
