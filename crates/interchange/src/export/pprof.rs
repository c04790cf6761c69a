//! pprof's `profile.proto`, packed with gzip: what `go tool pprof` and much else reads.
//!
//! Specification: `proto/profile.proto` of google/pprof. Stacks are estimated: see [`relive_profile::call_tree`]. What a
//! function costs is divided among the lines it executed; functions that were inlined are lines of a location, the innermost
//! first.

use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::places::{executed, first_line, shown};
use crate::surroundings::Surroundings;
use flate2::{Compression, GzBuilder};
use prost::Message as _;
use relive_profile::call_graph::{CallGraph, Measure};
use relive_profile::call_tree::{CallTree, Limits};
use relive_profile::callees::FunctionId;
use relive_profile::model::Profile;
use std::collections::HashMap;
use std::io::Write;

/// The format.
pub(super) struct Pprof;

/// The messages of `profile.proto`, as far as they are written.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(super) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(super) time_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(super) comment: Vec<i64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) kind: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub(super) memory_limit: u64,
        #[prost(int64, tag = "5")]
        pub(super) filename: i64,
        #[prost(int64, tag = "6")]
        pub(super) build_id: i64,
        #[prost(bool, tag = "7")]
        pub(super) has_functions: bool,
        #[prost(bool, tag = "8")]
        pub(super) has_filenames: bool,
        #[prost(bool, tag = "9")]
        pub(super) has_line_numbers: bool,
        #[prost(bool, tag = "10")]
        pub(super) has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(super) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "3")]
        pub(super) system_name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
        #[prost(int64, tag = "5")]
        pub(super) start_line: i64,
    }
}

impl Exporter for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn about(&self) -> &'static str {
        "for `go tool pprof` and what else reads profile.proto; stacks are estimated"
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let graph = CallGraph::new(profile);
        let tree = CallTree::new(&graph, Limits::default());
        let mut writing = Writing::new(profile, around);
        writing.head(graph.measure);
        for at in 0..tree.contexts.len() {
            writing.samples(&graph, &tree, at);
        }
        let message = writing.message;
        let written =
            vec![("functions", message.function.len() as u64), ("samples", message.sample.len() as u64)];
        // No time in the header: the same profile gives the same file.
        let mut packed = GzBuilder::new().mtime(0).write(out, Compression::default());
        packed.write_all(&message.encode_to_vec())?;
        packed.finish()?;
        Ok(Summary { written, notes: Vec::new() })
    }
}

/// A path and a line.
type Place<'a> = (&'a str, u32);

/// A line of a function, and what it costs there.
type Costs = Vec<(u64, u64)>;

struct Writing<'a> {
    profile: &'a Profile,
    around: &'a dyn Surroundings,
    message: proto::Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<(FunctionId, u64), u64>,
    /// What functions cost, by line.
    costs: HashMap<FunctionId, Costs>,
    rest: Option<u64>,
}

impl<'a> Writing<'a> {
    fn new(profile: &'a Profile, around: &'a dyn Surroundings) -> Self {
        let mut writing = Self {
            profile,
            around,
            message: proto::Profile::default(),
            texts: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            costs: HashMap::new(),
            rest: None,
        };
        // The first text is empty.
        writing.text("");
        writing
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let number = self.message.string_table.len() as i64;
        self.message.string_table.push(text.to_string());
        self.texts.insert(text.to_string(), number);
        number
    }

    fn head(&mut self, measure: Measure) {
        let kind = proto::ValueType { kind: self.text(measure.name()), unit: self.text("count") };
        self.message.sample_type = vec![kind];
        self.message.period_type = Some(kind);
        self.message.period = 1;
        let comment = "relive: costs of functions and lines are counted, stacks are estimated from calls";
        self.message.comment = vec![self.text(comment)];
        let last = self.profile.modules.iter().map(|module| module.last_run).max().unwrap_or(0);
        self.message.time_nanos = i64::try_from(last).unwrap_or(0).saturating_mul(1_000_000_000);
        for (module, id) in self.profile.modules.iter().zip(1..) {
            let start = self.around.base(module).unwrap_or(0);
            let ends = module.functions.iter().flat_map(|function| &function.pieces);
            let limit = ends.map(|piece| piece.start.saturating_add(piece.len)).max().unwrap_or(start);
            let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            let mapping = proto::Mapping {
                id,
                memory_start: start,
                memory_limit: limit,
                filename: self.text(&module.path),
                build_id: self.text(&build_id),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            };
            self.message.mapping.push(mapping);
        }
    }

    /// What a function costs below others, line by line.
    fn samples(&mut self, graph: &CallGraph, tree: &CallTree, at: usize) {
        let context = tree.contexts[at];
        let Some(id) = context.node.and_then(|node| graph.nodes[node as usize].function) else { return };
        if context.own == 0 {
            return;
        }
        let mut callers = Vec::new();
        let mut inner = context;
        while let Some(outer) = inner.parent.map(|parent| tree.contexts[parent as usize]) {
            let function = outer.node.map(|node| graph.nodes[node as usize].function);
            callers.push(match function {
                Some(Some(caller)) => {
                    let (_, function) = self.profile.function(caller);
                    self.location(caller, inner.site.unwrap_or(function.address))
                }
                Some(None) => break,
                None => self.rest(),
            });
            inner = outer;
        }
        let costs = self.costs(graph.measure, id);
        let whole: u128 = costs.iter().map(|&(_, cost)| u128::from(cost)).sum();
        // Rounded so that the sum is right.
        let (mut before, mut given) = (0u128, 0u128);
        for (address, cost) in costs {
            before += u128::from(cost);
            let upto = u128::from(context.own) * before / whole.max(1);
            let value = i64::try_from(upto - given).unwrap_or(i64::MAX);
            given = upto;
            if value > 0 {
                let leaf = self.location(id, address);
                let location_id = std::iter::once(leaf).chain(callers.iter().copied()).collect();
                self.message.sample.push(proto::Sample { location_id, value: vec![value] });
            }
        }
    }

    /// The lines of a function, each by the first address that was executed.
    fn costs(&mut self, measure: Measure, id: FunctionId) -> Costs {
        if let Some(known) = self.costs.get(&id) {
            return known.clone();
        }
        let (module, function) = self.profile.function(id);
        let mut costs: Costs = Vec::new();
        if measure == Measure::Instructions {
            let mut lines: HashMap<(Vec<Place<'_>>, Option<Place<'_>>), usize> = HashMap::new();
            for piece in executed(module, function, self.around) {
                // Copies of a line that were inlined by other calls are apart.
                let frames = self.around.frames(module, piece.address);
                let calls = frames.iter().skip(1).filter_map(|frame| frame.line).collect();
                let at = *lines.entry((calls, piece.line)).or_insert_with(|| {
                    costs.push((piece.address, 0));
                    costs.len() - 1
                });
                costs[at].1 = costs[at].1.saturating_add(piece.count);
            }
        }
        if costs.is_empty() {
            costs.push((function.address, 1));
        }
        self.costs.insert(id, costs.clone());
        costs
    }

    fn location(&mut self, id: FunctionId, address: u64) -> u64 {
        if let Some(&known) = self.locations.get(&(id, address)) {
            return known;
        }
        let (module, function) = self.profile.function(id);
        let name = module.name(function);
        let begins = first_line(module, function, self.around);
        let own = shown(name, function);
        let frames = self.around.frames(module, address);
        let mut line = Vec::new();
        for (i, frame) in frames.iter().enumerate() {
            let (file, number) = frame.line.unwrap_or(("", 0));
            // The outermost is the function itself, whatever the debug information calls it.
            let function_id = if i + 1 == frames.len() {
                self.function(&own, name, begins)
            } else {
                self.function(&frame.function, &frame.function, Some((file, 0)))
            };
            line.push(proto::Line { function_id, line: number.into() });
        }
        if line.is_empty() {
            let block = function.blocks.iter().find(|block| {
                address.checked_sub(block.address).is_some_and(|offset| offset < block.size.into())
            });
            let number = block.and_then(|block| block.line).map_or(0, |line| line.line);
            line.push(proto::Line { function_id: self.function(&own, name, begins), line: number.into() });
        }
        let number = self.message.location.len() as u64 + 1;
        let mapping_id = u64::from(id.module) + 1;
        self.message.location.push(proto::Location { id: number, mapping_id, address, line });
        self.locations.insert((id, address), number);
        number
    }

    fn function(&mut self, name: &str, system_name: &str, begins: Option<(&str, u32)>) -> u64 {
        let (file, start_line) = begins.unwrap_or(("", 0));
        let (name, filename) = (self.text(name), self.text(file));
        if let Some(&known) = self.functions.get(&(name, filename)) {
            return known;
        }
        let id = self.message.function.len() as u64 + 1;
        let system_name = self.text(system_name);
        let start_line = start_line.into();
        self.message.function.push(proto::Function { id, name, system_name, filename, start_line });
        self.functions.insert((name, filename), id);
        id
    }

    /// What is left out of the tree.
    fn rest(&mut self) -> u64 {
        if let Some(known) = self.rest {
            return known;
        }
        let function_id = self.function(crate::stacks::REST, crate::stacks::REST, None);
        let id = self.message.location.len() as u64 + 1;
        let line = vec![proto::Line { function_id, line: 0 }];
        self.message.location.push(proto::Location { id, mapping_id: 0, address: 0, line });
        self.rest = Some(id);
        id
    }
}
