//! `relive analyze races`.

use super::calls::Named;
use super::places::{Files, Places};
use super::table::name;
use super::whose::Whose;
use super::{Asked, Of};
use crate::output::{Finding, grouped, several};
use crate::traced::Traced;
use anyhow::{Result, bail};
use relive_analysis::Analysis as _;
use relive_analysis::races::discipline::{self, Discipline, Guard};
use relive_analysis::races::{Access, FindVariables, Races, Report, Side, Stacks};
use relive_trace::{About, Trace};
use serde::Serialize;
use std::io::Write;
use std::sync::Arc;

const EXAMPLES: &str = "\
EXAMPLES:
  relive analyze races app.rtrace
      pairs of accesses of different threads, one of them a write, that nothing brings in order
  relive analyze races app.rtrace --guard accounts=accounts_lock
      every access to the variable accounts by somebody who does not hold accounts_lock
  relive analyze races app.rtrace --guard 0x404060,64=lock_a,lock_b
      the same for 64 bytes, with either of two locks

Exit status: 0 nothing was found, 1 something was, 2 the file cannot be read or is not such a trace.";

/// Arguments of `relive analyze races`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,

    /// Report accesses to this data without one of these locks instead: names of variables, or addresses (may be given
    /// several times)
    #[arg(long, value_name = "DATA=LOCK,…")]
    guard: Vec<String>,

    /// This variable serves to bring threads in order, though no locked instruction shows it (may be given several times)
    #[arg(long, value_name = "VARIABLE")]
    atomic: Vec<String>,
}

impl Args {
    pub(super) fn of(&self) -> &Of {
        &self.asked.of
    }

    /// Whether a trace has what is asked for.
    pub(super) fn check(&self, about: &About) -> Result<()> {
        self.of().check_memory(about)?;
        if !about.order {
            bail!("{}: the order between threads was not written down (trace again)", self.of().name());
        }
        Ok(())
    }
}

pub(super) fn run(args: &Args, trace: &Trace) -> Result<()> {
    let (asked, of) = (&args.asked, &args.asked.of);
    args.check(trace.about())?;
    let traced = Traced::of_file(trace);
    let files = Files::open(&traced, &asked.debug_root);
    let places = Places::new(&traced, &files, asked.mangled);
    let whose = Arc::new(Whose::new(&traced, &places));
    if !args.guard.is_empty() {
        let mut discipline = Discipline::new(guards(&args.guard, &traced, &places)?, whose);
        of.ask(trace, &mut discipline)?;
        let report = discipline.finish(&traced, &places);
        let guarded = Guarded { guards: &args.guard, report: &report };
        asked.print("discipline", &guarded, |guarded, out| {
            print_discipline(guarded.report, guarded.guards, asked.top, out)
        })?;
        let places = several(report.accesses.len() as u64, "place");
        return found(
            report.accesses.is_empty(),
            &format!("guarded data is accessed without a lock at {places}"),
        );
    }
    let processes: Vec<u32> = traced.processes().map(|process| process.number).collect();
    let mut atomic: Vec<(u32, u64, u32)> = whose.atomics().collect();
    for name in &args.atomic {
        let before = atomic.len();
        atomic.extend(processes.iter().filter_map(|&process| {
            let (start, end) = places.data(process, name)?;
            Some((process, start, (end - start) as u32))
        }));
        if atomic.len() == before {
            bail!("--atomic {name}: there is no such variable");
        }
    }
    let mut variables = FindVariables::new(&traced, &processes, &*whose, &atomic);
    of.ask(trace, &mut variables)?;
    let first = traced.processes().map(|process| (process.number, process.pid)).collect();
    let variables = variables.finish(&traced, &places);
    let mut races = Races::new(variables.clone(), first, Arc::clone(&whose) as _);
    let file = of.file(trace, &races)?.in_order(races.beginnings());
    of.ask_file(&file, &mut races)?;
    let mut report = races.finish(&traced, &places);
    if !report.races.is_empty() {
        let named = Named::new(&traced, &places);
        let mut stacks = Stacks::new(report, variables, whose, &traced, &named);
        of.ask(trace, &mut stacks)?;
        report = stacks.finish(&traced, &places);
    }
    asked.print("races", &report, |report, out| print(report, asked.top, out))?;
    found(report.races.is_empty(), &several(report.races.len() as u64, "race"))
}

/// What is accessed without its lock.
#[derive(Serialize)]
struct Guarded<'g> {
    /// What was asked for; accesses name them by number.
    guards: &'g [String],
    #[serde(flatten)]
    report: &'g discipline::Report,
}

/// If something was found, that is what the exit status says.
fn found(is_nothing: bool, what: &str) -> Result<()> {
    if is_nothing { Ok(()) } else { Err(Finding(what.to_string()).into()) }
}

/// What is guarded by what, in all processes that have it.
fn guards(all: &[String], traced: &Traced<'_>, places: &Places<'_>) -> Result<Vec<Guard>> {
    let mut guards = Vec::new();
    for text in all {
        let Some((data, locks)) = text.split_once('=') else {
            bail!("--guard {text}: must be DATA=LOCK, as in accounts=accounts_lock");
        };
        let before = guards.len();
        for process in traced.processes().map(|process| process.number) {
            let range = |name: &str| match number(name.split(',').next().unwrap_or(name)) {
                Some(start) => {
                    let len = name.split_once(',').and_then(|(_, len)| len.parse().ok()).unwrap_or(8);
                    Some((start, start + len))
                }
                None => places.data(process, name),
            };
            let locks: Option<Vec<u64>> =
                locks.split(',').map(|lock| range(lock).map(|range| range.0)).collect();
            if let (Some((start, end)), Some(locks)) = (range(data), locks) {
                guards.push(Guard { process, start, end, locks });
            }
        }
        if guards.len() == before {
            bail!(
                "--guard {text}: no process has data and locks of these names (give addresses, as in 0x404060,64)"
            );
        }
    }
    Ok(guards)
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

fn print(report: &Report, top: usize, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", several(report.races.len() as u64, "race"))?;
    for race in report.races.iter().take(top) {
        let variable =
            race.variable.as_deref().map_or_else(|| format!("{:#x}", race.address), str::to_string);
        writeln!(out, "\n{variable}, {}", several(race.times, "time"))?;
        for side in &race.sides {
            print_side(side, out)?;
        }
    }
    if report.races.len() > top {
        writeln!(out, "\n… and {} more (--top)", report.races.len() - top)?;
    }
    if report.is_hurried {
        writeln!(out, "\nThreads were so far apart that their order may be wrong.")?;
    }
    if report.forgotten_pages > 0 {
        let pages = several(report.forgotten_pages, "page");
        writeln!(
            out,
            "\nThere was so much memory that the past of {pages} had to be forgotten: races may be missing."
        )?;
    }
    Ok(())
}

fn print_side(side: &Side, out: &mut dyn Write) -> Result<()> {
    let what = match side.access {
        Access::Read => "read",
        Access::Write => "written",
    };
    let address = side.location.address.unwrap_or(side.place.pc);
    writeln!(out, "  {what} by thread {} at {address:#x} {}", side.thread, name(&side.location))?;
    // Of a thread whose calls are not known, at least how it came to the C library.
    let callers = if side.stack.is_empty() { side.caller.as_slice() } else { &side.stack };
    for caller in callers {
        writeln!(out, "    called from {}", name(caller))?;
    }
    Ok(())
}

fn print_discipline(
    report: &discipline::Report,
    guards: &[String],
    top: usize,
    out: &mut dyn Write,
) -> Result<()> {
    let without: u64 = report.accesses.iter().map(|access| access.times).sum();
    writeln!(
        out,
        "{} accesses to guarded data, {} of them without a lock",
        grouped(report.checked),
        grouped(without)
    )?;
    for access in report.accesses.iter().take(top) {
        let what = if access.is_write { "written" } else { "read" };
        let guard = guards.get(access.guard).map_or("", String::as_str);
        let threads: Vec<String> = access.threads.iter().map(u32::to_string).collect();
        let times = several(access.times, "time");
        writeln!(out, "\n{guard}: {:#x} {what} {times} by thread {}", access.address, threads.join(", "))?;
        writeln!(
            out,
            "  at {:#x} {}",
            access.location.address.unwrap_or(access.place.pc),
            name(&access.location)
        )?;
        if let Some(caller) = &access.caller {
            writeln!(out, "  called from {}", name(caller))?;
        }
    }
    Ok(())
}
