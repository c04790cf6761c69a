//! All figures for scripts. The schema is in `docs/evaluate-json.md`.

use super::{Args, Worst};
use crate::profiles::hex;
use anyhow::Result;
use relive_migrate::evaluate::{Evaluation, Loss};
use serde_json::{Value, json};
use std::io::Write;

/// Prints them as one JSON object.
pub(super) fn print(found: &Evaluation<'_>, args: &Args, out: &mut dyn Write) -> Result<()> {
    let Evaluation { branches, coverage, matched, targets, trips, strangers, .. } = found;
    let worst = Worst::of(found, args.worst);
    let rows = |losses: &[Loss<'_>], lost: &dyn Fn(&Loss<'_>) -> Value| -> Vec<Value> {
        losses
            .iter()
            .map(|loss| {
                json!({
                    "module": found.modules.iter().position(|module| std::ptr::eq(*module, loss.module)),
                    "function": loss.module.name(loss.function),
                    "address": format!("{:#x}", loss.function.address),
                    "lost": lost(loss),
                })
            })
            .collect()
    };
    let figures = json!({
        "schema": "relive-evaluate/1",
        "modules": found.modules.iter().map(|module| json!({
            "path": module.path,
            "build_id": hex(&module.build_id),
        })).collect::<Vec<_>>(),
        "bp": branches.metric(),
        "cc": coverage.metric(),
        "overlap": found.blocks.metric(),
        "edge_overlap": found.edges.metric(),
        "instruction_overlap": found.instructions.metric(),
        "matched_counts": matched.metric(),
        "matched_or_control_flow_counts": matched.with_control_flow(),
        "target_overlap": targets.overlap,
        "loop_trips": trips.metric(),
        "branches": {
            "judged": branches.branches,
            "not_judged": branches.not_judged,
            "uncovered": branches.uncovered,
            "executed": branches.executed,
            "right_carried": branches.right_carried,
            "right_fresh": branches.right_fresh,
            "rate_carried": branches.rate_carried(),
            "rate_fresh": branches.rate_fresh(),
        },
        "blocks": {
            "judged": coverage.blocks,
            "not_judged": coverage.not_judged,
            "agreed": coverage.agreed(),
            "only_carried": coverage.only_carried,
            "only_fresh": coverage.only_fresh,
        },
        "targets": { "sites": targets.sites, "calls": targets.calls },
        "loops": { "judged": trips.loops, "iterations": trips.iterations, "close": trips.close },
        "without_partner": { "carried": strangers.carried, "fresh": strangers.fresh },
        "worst": {
            "bp": rows(&worst.predictions, &|loss| loss.predictions.into()),
            "cc": rows(&worst.blocks, &|loss| loss.blocks.into()),
            "overlap": rows(&worst.overlap, &|loss| loss.overlap.into()),
        },
    });
    serde_json::to_writer_pretty(&mut *out, &figures)?;
    Ok(writeln!(out)?)
}
