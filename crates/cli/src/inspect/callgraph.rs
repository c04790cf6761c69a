//! Who calls whom, as a table or a picture.

use super::Subject;
use crate::args::Inspect;
use crate::output::field;
use crate::picture::{Arrow, ArrowKind, Node, Picture, Tone};
use anyhow::Result;
use relive_image::program::{Call, CallGraph, Callee, FunctionId};
use std::collections::BTreeMap;
use std::io::Write;

/// Prints all calls, or those from and to one function.
pub(crate) fn print(
    subject: &Subject<'_, '_>,
    around: Option<FunctionId>,
    args: &Inspect,
    out: &mut dyn Write,
) -> Result<()> {
    let graph = CallGraph::new(&subject.program);
    let calls: Vec<&Call> = match around {
        Some(id) => graph.from(id).iter().chain(graph.to(id).filter(|c| c.caller != id)).collect(),
        None => graph.calls.iter().collect(),
    };
    if args.dot || args.svg {
        let picture = draw(subject, around, &calls);
        let text = if args.dot { picture.to_dot() } else { picture.to_svg() };
        return Ok(out.write_all(text.as_bytes())?);
    }
    writeln!(out, "caller\tsite\tcallee\tkind")?;
    for call in calls {
        let caller = subject.program.function(call.caller);
        let kind = match (call.tail, call.callee) {
            (true, _) => "tail",
            (false, Callee::Slot(_) | Callee::Unknown) => "indirect",
            (false, _) => "direct",
        };
        writeln!(
            out,
            "{}\t{}\t{}\t{kind}",
            field(&subject.name(caller)),
            call.site,
            field(&callee_name(subject, call.callee))
        )?;
    }
    Ok(())
}

fn callee_name(subject: &Subject<'_, '_>, callee: Callee) -> String {
    match callee {
        Callee::Function(id) => subject.name(subject.program.function(id)).into_owned(),
        Callee::Outside(at) => {
            let stub = subject.image.stub_holding(at).and_then(|stub| subject.image.stub_name(stub));
            stub.unwrap_or_else(|| at.to_string())
        }
        Callee::Slot(slot) => match subject.image.import_at(slot) {
            Some(name) => name.to_string(),
            None => format!("*{slot}"),
        },
        Callee::Unknown => "?".to_string(),
    }
}

fn draw(subject: &Subject<'_, '_>, around: Option<FunctionId>, calls: &[&Call]) -> Picture {
    let mut nodes: Vec<Node> = Vec::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut node = |key: String, heading: String, tone: Tone| {
        *numbers.entry(key).or_insert_with(|| {
            nodes.push(Node { heading, lines: Vec::new(), tone });
            nodes.len() - 1
        })
    };
    let mut arrows: BTreeMap<(usize, usize, bool), usize> = BTreeMap::new();
    if let Some(id) = around {
        node(id.to_string(), subject.name(subject.program.function(id)).into_owned(), Tone::Entry);
    }
    for call in calls {
        let caller = subject.program.function(call.caller);
        let from = node(call.caller.to_string(), subject.name(caller).into_owned(), Tone::Plain);
        let name = callee_name(subject, call.callee);
        let to = match call.callee {
            Callee::Function(id) => node(id.to_string(), name, Tone::Plain),
            _ => node(name.clone(), name, Tone::Outside),
        };
        *arrows.entry((from, to, call.tail)).or_default() += 1;
    }
    let edges = arrows
        .into_iter()
        .map(|((from, to, tail), count)| Arrow {
            from,
            to,
            kind: if tail { ArrowKind::TailCall } else { ArrowKind::Jump },
            label: if count > 1 { format!("×{count}") } else { String::new() },
        })
        .collect();
    let title = match around {
        Some(id) => format!("calls around {}", subject.name(subject.program.function(id))),
        None => format!("calls in {}", subject.loaded.path.display()),
    };
    Picture { title, nodes, edges }
}
