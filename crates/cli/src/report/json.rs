//! The whole report for scripts. The schema is in `docs/report-json.md`.

use super::facts::{Coverage, Facts, ModuleFacts, Reasons};
use crate::profiles::hex;
use anyhow::Result;
use relive_profile::model::{Module, Origin};
use serde_json::{Value, json};
use std::io::Write;

/// Prints the report as one JSON object.
pub(crate) fn print(facts: &Facts<'_>, out: &mut dyn Write) -> Result<()> {
    let number = |module: &Module| facts.number(module);
    let report = json!({
        "schema": "relive-report/1",
        "instructions": facts.instructions,
        "modules": facts.modules.iter().map(module).collect::<Vec<_>>(),
        "functions": facts.functions.iter().map(|row| json!({
            "module": number(row.module),
            "name": row.module.name(row.function),
            "address": address(row.function.address),
            "size": row.function.size,
            "state": match row.function.state.reason() {
                None => "measured",
                Some(_) if row.function.state.is_not_measured() => "not-measured",
                Some(_) => "entry-only",
            },
            "reason": row.function.state.reason().map(|reason| row.module.text(reason)),
            "approximate": row.function.approximate.map(|reason| row.module.text(reason)),
            "entries": row.entries,
            "instructions": row.instructions,
            "blocks": coverage(row.blocks),
            "origins": origins(row.origins.iter().copied()),
            "confidence": row.confidence,
        })).collect::<Vec<_>>(),
        "loops": facts.loops.iter().map(|row| json!({
            "module": number(row.module),
            "function": row.module.name(row.function),
            "header": address(row.address()),
            "file": row.looped.line.map(|line| row.module.file(line)),
            "line": row.looped.line.map(|line| line.line),
            "depth": row.looped.depth,
            "entries": row.counts.entries.value(),
            "iterations": row.counts.iterations.value(),
            "trips": row.trips(),
            "instructions": row.instructions,
        })).collect::<Vec<_>>(),
        "calls": facts.calls.iter().map(|row| json!({
            "module": number(row.module),
            "caller": row.module.name(row.caller),
            "callee": (row.callee != "?").then_some(&row.callee),
            "callee_address": row.function.map(|function| address(function.address)),
            "count": row.count,
        })).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    Ok(writeln!(out)?)
}

/// A module without what it consists of.
pub(crate) fn module(facts: &ModuleFacts<'_>) -> Value {
    let module = facts.module;
    let time = |seconds: u64| (seconds > 0).then_some(seconds);
    json!({
        "path": module.path,
        "build_id": hex(&module.build_id),
        "checksum": address(module.checksum),
        "mode": module.mode.name(),
        "runs": module.runs,
        "first_run": time(module.first_run),
        "last_run": time(module.last_run),
        "carried": module.carried.iter().map(|source| json!({
            "path": source.path,
            "build_id": hex(&source.build_id),
            "runs": source.runs,
            "steps": source.steps,
        })).collect::<Vec<_>>(),
        "only_executed": module.only_executed,
        "lost": { "shared": module.lost.shared(), "targets": module.lost.targets() },
        "functions": coverage(facts.functions),
        "blocks": coverage(facts.blocks),
        "block_executions": facts.block_executions,
        "origins": origins(facts.origins.iter().map(|(&origin, &executions)| (origin, executions))),
        "instructions": facts.instructions,
        "not_measured": reasons(&facts.not_measured),
        "entry_only": reasons(&facts.entry_only),
        "approximate": reasons(&facts.approximate),
        "inconsistent": facts.inconsistent.iter().map(|f| module.name(f)).collect::<Vec<_>>(),
    })
}

fn origins(origins: impl Iterator<Item = (Origin, u64)>) -> Value {
    Value::Object(origins.map(|(origin, executions)| (origin.to_string(), executions.into())).collect())
}

fn address(address: u64) -> String {
    format!("{address:#x}")
}

fn coverage(coverage: Coverage) -> Value {
    json!({ "total": coverage.total, "measured": coverage.measured, "executed": coverage.executed })
}

fn reasons(reasons: &Reasons<'_>) -> Value {
    let row = |(reason, amount): &(&str, super::facts::Amount)| json!({ "reason": reason, "functions": amount.functions, "bytes": amount.bytes });
    reasons.iter().map(row).collect()
}
