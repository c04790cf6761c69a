//! Callgrind's format: what `callgrind_annotate` and KCachegrind read.
//!
//! Specification: *Callgrind Format Specification*, a chapter of Valgrind's manual (`docs/html/cl-format.html`). Costs are
//! given instruction by instruction, each with its address and its line (`positions: instr line`). The cost of a call with
//! everything in it is estimated: see [`relive_profile::call_graph`].

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::places::{executed, first_line, plain, shown};
use crate::surroundings::Surroundings;
use relive_profile::call_graph::{CallGraph, Measure, Node};
use relive_profile::model::Profile;
use std::collections::HashMap;
use std::io::{self, Write};

/// The format.
pub(super) struct Callgrind;

/// What Callgrind writes where no file is known.
const UNKNOWN: &str = "???";

impl Exporter for Callgrind {
    fn name(&self) -> &'static str {
        "callgrind"
    }

    fn about(&self) -> &'static str {
        "for KCachegrind and callgrind_annotate; costs of calls are estimated"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let graph = CallGraph::new(profile);
        let total = graph.total();
        let event = match graph.measure {
            Measure::Instructions => "Ir : Instructions executed",
            Measure::Entries => "Entries : Functions entered",
        };
        let (name, _) = event.split_once(' ').unwrap_or((event, ""));
        let command: Vec<_> = profile.modules.iter().take(1).map(|module| plain(&module.path)).collect();
        writeln!(out, "# callgrind format\nversion: 1\ncreator: relive {}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "cmd: {}\npart: 1", command.join(" "))?;
        writeln!(out, "desc: Costs of functions and lines: counted")?;
        writeln!(
            out,
            "desc: Costs of calls: estimated, each call of a function the same; none within recursion"
        )?;
        writeln!(out, "positions: instr line\nevent: {event}\nevents: {name}\nsummary: {total}\n")?;
        let mut writing = Writing { graph: &graph, profile, around, names: HashMap::new() };
        let mut functions = 0;
        for (node, number) in graph.nodes.iter().zip(0..) {
            if node.function.is_some() {
                writing.function(node, number, out)?;
                functions += 1;
            }
        }
        writeln!(out, "totals: {total}")?;
        let calls = graph.arcs.len() as u64;
        Ok(Summary { written: vec![("functions", functions), ("calls", calls)], notes: Vec::new() })
    }
}

struct Writing<'a> {
    graph: &'a CallGraph,
    profile: &'a Profile,
    around: &'a dyn Surroundings,
    /// The numbers of texts that were written before: kinds have numbers of their own.
    names: HashMap<(Kind, String), usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Object,
    File,
    Function,
}

impl Writing<'_> {
    /// A text: with a number the first time, as that number later.
    fn name(&mut self, kind: Kind, text: &str) -> String {
        let next = self.names.len() + 1;
        match self.names.entry((kind, text.to_string())) {
            std::collections::hash_map::Entry::Occupied(known) => format!("({})", known.get()),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(next);
                format!("({next}) {text}")
            }
        }
    }

    /// Object, file, name, address and line of a function.
    fn identity(&self, node: &Node) -> (String, String, String, u64, u32) {
        let Some(id) = node.function else {
            let name = plain(&relive_image::names::demangle(&node.name));
            return (UNKNOWN.to_string(), UNKNOWN.to_string(), name, 0, 0);
        };
        let (module, function) = self.profile.function(id);
        let (file, line) = first_line(module, function, self.around).unwrap_or((UNKNOWN, 0));
        let name = shown(&node.name, function).into_owned();
        (plain(&module.path), plain(file), name, function.address, line)
    }

    fn function(&mut self, node: &Node, number: u32, out: &mut dyn Write) -> io::Result<()> {
        let Some(id) = node.function else { return Ok(()) };
        let (profile, around) = (self.profile, self.around);
        let (module, function) = profile.function(id);
        let (object, file, name, address, line) = self.identity(node);
        let object = self.name(Kind::Object, &object);
        let file_name = self.name(Kind::File, &file);
        let name = self.name(Kind::Function, &name);
        writeln!(out, "ob={object}\nfl={file_name}\nfn={name}")?;
        let costs = match self.graph.measure {
            Measure::Instructions if node.own > 0 => executed(module, function, around),
            Measure::Instructions => Vec::new(),
            Measure::Entries => {
                writeln!(out, "{address:#x} {line} {}", node.own)?;
                Vec::new()
            }
        };
        // Calls stand behind the instruction that makes them.
        let mut calls = self.graph.calls(number).to_vec();
        calls.sort_by_key(|call| call.site);
        let mut calls = calls.into_iter().peekable();
        let mut costs: Vec<_> = costs.into_iter().map(|cost| (cost.address, cost.line, cost.count)).collect();
        costs.sort_by_key(|&(address, ..)| address);
        let mut current = file.clone();
        let mut last_line = line;
        let mut costs = costs.into_iter().peekable();
        while costs.peek().is_some() || calls.peek().is_some() {
            let is_call = match (costs.peek(), calls.peek()) {
                (Some(&(address, ..)), Some(call)) => call.site < address,
                (cost, _) => cost.is_none(),
            };
            if is_call {
                let Some(call) = calls.next() else { break };
                let callee = &self.graph.nodes[call.callee as usize];
                let (object, file, name, address, line) = self.identity(callee);
                let object = self.name(Kind::Object, &object);
                let file = self.name(Kind::File, &file);
                let name = self.name(Kind::Function, &name);
                writeln!(out, "cob={object}\ncfi={file}\ncfn={name}")?;
                writeln!(out, "calls={} {address:#x} {line}", call.count)?;
                writeln!(out, "{:#x} {last_line} {}", call.site, call.inclusive)?;
            } else if let Some((address, place, count)) = costs.next() {
                let (in_file, line) = place.map_or((&*file, 0), |(file, line)| (file, line));
                let in_file = plain(in_file);
                if in_file != current {
                    let kind = if in_file == file { "fe" } else { "fi" };
                    writeln!(out, "{kind}={}", self.name(Kind::File, &in_file))?;
                    current = in_file;
                }
                writeln!(out, "{address:#x} {line} {count}")?;
                last_line = line;
            }
        }
        writeln!(out)
    }
}
