//! Everything in the summary, and more, for scripts. The schema is in `docs/inspect-json.md`.

use super::{Subject, annotations};
use anyhow::Result;
use relive_image::program::Statistics;
use relive_image::sources;
use relive_rewrite::prepared::Linked;
use serde_json::{Map, Value, json};
use std::io::Write;

/// Prints the report as one JSON object.
pub(crate) fn print(subject: &Subject<'_, '_>, s: &Statistics, out: &mut dyn Write) -> Result<()> {
    let image = subject.image;
    let program = &subject.program;
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let report = json!({
        "schema": "relive-inspect/1",
        "file": {
            "path": subject.loaded.path.display().to_string(),
            "size": subject.loaded.bytes.len(),
            "kind": image.elf.kind.name(),
            "language": image.language().name(),
            "entry": image.elf.entry.to_string(),
            "interpreter": image.elf.interpreter,
            "build_id": image.identity.build_id.as_deref().map(hex),
            "producers": image.identity.producers,
            "properties": image.identity.properties,
            "prepared": Linked::find(image, relive_runtime::IMAGE).map(|found| match found {
                Ok(_) => "ready".to_string(),
                Err(why) => why.to_string(),
            }),
            "has_symbols": !image.symbols.is_empty(),
            "debug_file": subject.loaded.debug.as_ref().map(|(path, _)| path.display().to_string()),
        },
        "sources": sources::present(image, &subject.lines).iter().map(|s| json!({
            "name": s.name, "count": s.count, "detail": s.detail,
        })).collect::<Vec<_>>(),
        "annotations": annotations::json(subject),
        "functions": {
            "total": s.functions.count,
            "understood": s.understood.count,
            "named": s.named,
            "in_no_table": s.hidden,
            "several_entries": s.several_entries,
            "several_pieces": s.several_pieces,
            "never_return": s.never_return,
            "by_source": counted(s.vouched.iter().map(|(who, count)| (who.name(), *count))),
        },
        "text_bytes": {
            "total": s.text.0,
            "understood": s.text.1,
            "in_functions": s.functions.bytes,
            "padding_in_functions": s.padding_inside,
            "data_in_functions": s.data_inside,
            "outside_functions": counted(s.outside.iter().map(|(kind, bytes)| (*kind, *bytes))),
        },
        "blocks": { "total": s.blocks, "unreached": s.unreached_blocks, "instructions": s.instructions },
        "edges": counted(s.edges.iter().map(|(kind, count)| (kind.name(), *count))),
        "calls": { "direct": s.direct_calls, "indirect": s.indirect_calls },
        "landing_pads": s.landing_pads,
        "loops": { "total": s.loops, "deepest": s.deepest_loop, "functions_with_irreducible": s.irreducible },
        "liveness": { "blocks_with_dead_flags": s.flags_free, "blocks_with_dead_register": s.register_free },
        "jump_tables": {
            "total": s.tables.values().sum::<u64>(),
            "entries": s.table_entries,
            "by_bound": counted(s.tables.iter().map(|(bound, count)| (bound.name(), *count))),
        },
        "reasons": s.reasons.iter().map(|(reason, amount)| json!({
            "reason": reason.name(),
            "explanation": reason.explanation(),
            "functions": amount.count,
            "bytes": amount.bytes,
        })).collect::<Vec<_>>(),
        "not_understood": program.functions.iter().filter(|f| !f.cfg.is_understood()).map(|f| json!({
            "name": subject.name(f),
            "address": f.entry.to_string(),
            "size": f.size(),
            "problems": f.cfg.problems.iter().map(|p| json!({
                "reason": p.reason.name(), "at": p.at.to_string(),
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "contradictions": program.contradictions.iter().map(|c| json!({
            "at": c.at.to_string(),
            "one": { "source": c.one.0.name(), "says": c.one.1 },
            "other": { "source": c.other.0.name(), "says": c.other.1 },
        })).collect::<Vec<_>>(),
        "complaints": image.complaints.iter().chain(&program.complaints).chain(&subject.lines.complaints()).map(ToString::to_string)
            .chain(subject.loaded.notes.iter().cloned()).collect::<Vec<_>>(),
        "timings_ms": subject.timings.iter().chain(&program.timings)
            .map(|(name, duration)| ((*name).to_string(), json!(duration.as_secs_f64() * 1e3)))
            .collect::<Map<_, _>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    Ok(writeln!(out)?)
}

fn counted<'a>(pairs: impl Iterator<Item = (&'a str, u64)>) -> Value {
    Value::Object(pairs.map(|(name, count)| (name.to_string(), json!(count))).collect())
}
