//! The figures for people.

use super::{Args, Worst};
use crate::output::{field, grouped, percent_of, several};
use crate::profiles::hex;
use anyhow::Result;
use relive_image::names::demangle;
use relive_migrate::evaluate::{CLOSE, Evaluation, Loss};
use std::io::Write;

/// Prints one screen.
pub(super) fn print(found: &Evaluation<'_>, args: &Args, out: &mut dyn Write) -> Result<()> {
    for module in &found.modules {
        writeln!(out, "{}, build-id {}", field(&module.path), hex(&module.build_id))?;
    }
    writeln!(out)?;
    figures(found, out)?;
    left_out(found, args, out)?;
    let worst = Worst::of(found, args.worst);
    table(
        "predictions",
        "cost B.P. the most",
        &worst.predictions,
        args,
        |loss| grouped(loss.predictions),
        out,
    )?;
    table("blocks", "cost C.C. the most", &worst.blocks, args, |loss| grouped(loss.blocks), out)?;
    table("share", "cost overlap the most", &worst.overlap, args, |loss| percent_of(Some(loss.overlap)), out)
}

fn figures(found: &Evaluation<'_>, out: &mut dyn Write) -> Result<()> {
    let Evaluation { branches, coverage, matched, targets, trips, .. } = found;
    let mut row = |name: &str, share: Option<f64>, what: String| {
        writeln!(out, "{name:<13}{:>8}   {what}", percent_of(share))
    };
    row("B.P.", branches.metric(), {
        format!(
            "predicted right {} of the time, of {} at best; {}, executed {}",
            percent_of(branches.rate_carried()),
            percent_of(branches.rate_fresh()),
            several(branches.branches, "conditional jump"),
            several(branches.executed, "time")
        )
    })?;
    row("C.C.", coverage.metric(), {
        format!(
            "{} of {} agree; {} should have run and did not, {} should not have and did",
            grouped(coverage.agreed()),
            several(coverage.blocks, "block"),
            grouped(coverage.only_carried),
            grouped(coverage.only_fresh)
        )
    })?;
    row("overlap", found.blocks.metric(), "of block counts".to_string())?;
    row("", found.edges.metric(), "of edge counts".to_string())?;
    row("", found.instructions.metric(), "of instructions".to_string())?;
    row("matched", matched.metric(), {
        format!("of block counts; {} with control flow", percent_of(matched.with_control_flow()))
    })?;
    if targets.overlap.is_some() {
        let what = format!(
            "of {} from {}",
            several(targets.calls, "indirect call"),
            several(targets.sites, "place")
        );
        row("call targets", targets.overlap, what)?;
    }
    if trips.metric().is_some() {
        let what = format!(
            "of {} of {}: mean trip count within {:.0} %",
            several(trips.iterations, "iteration"),
            several(trips.loops, "loop"),
            CLOSE * 100.0
        );
        row("loop trips", trips.metric(), what)?;
    }
    Ok(())
}

/// What the figures do not tell about.
fn left_out(found: &Evaluation<'_>, args: &Args, out: &mut dyn Write) -> Result<()> {
    let (carried, fresh) = (args.carried.display(), args.fresh.display());
    let rows = [
        (found.coverage.not_judged, format!("left out: {fresh} has no count there")),
        (found.strangers.fresh, format!("taken as not covered: {carried} does not know them")),
        (found.strangers.carried, format!("of {carried} left out: {fresh} does not know them")),
    ];
    if rows.iter().any(|&(blocks, _)| blocks > 0) {
        writeln!(out)?;
    }
    for (blocks, what) in rows.iter().filter(|&&(blocks, _)| blocks > 0) {
        writeln!(out, "{} {what}", several(*blocks, "block"))?;
    }
    Ok(())
}

fn table(
    unit: &str,
    title: &str,
    losses: &[Loss<'_>],
    args: &Args,
    lost: impl Fn(&Loss<'_>) -> String,
    out: &mut dyn Write,
) -> Result<()> {
    if losses.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{unit:>19}   {title}")?;
    for loss in losses {
        let name = loss.module.name(loss.function);
        let name = if args.mangled { field(name).into_owned() } else { field(&demangle(name)).into_owned() };
        writeln!(out, "{:>19}   {name} at {:#x}", lost(loss), loss.function.address)?;
    }
    Ok(())
}
