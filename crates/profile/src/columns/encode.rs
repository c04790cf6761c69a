//! Model to columns.

use super::{
    BLOCK_IS_ENTRY, BLOCK_IS_LANDING_PAD, CALL_DIRECT, CALL_IMPORT, CALL_INDIRECT, Delta, EDGE_KINDS, MODES,
    ORIGINS, SparseDelta, TARGET_FOREIGN, TARGET_GENERATED, TARGET_OWN, node_number, number_of,
};
use crate::model::{
    Call, CalledBy, Callee, Count, Counter, Edge, Function, Loop, Module, Target, TextId, Texts,
};
use crate::proto;
use prost::Message as _;

/// A module with its counts; `code` is what [`code`] made of it.
pub(crate) fn module(module: &Module, code: Vec<u8>) -> proto::Module {
    let blocks = || module.functions.iter().flat_map(|f| f.blocks.iter().map(|block| block.count));
    let edges = || module.functions.iter().flat_map(|f| f.edges.iter().map(|edge| edge.count));
    let explicit = module.layout.counters == 0;
    proto::Module {
        code,
        path: module.path.clone(),
        runs: module.runs,
        first_run: module.first_run,
        last_run: module.last_run,
        lost: module.lost.0,
        counters: module.counters.clone(),
        block_counts: explicit.then(|| counts(blocks())).flatten(),
        edge_counts: explicit.then(|| counts(edges())).flatten(),
        foreign: (!module.foreign.is_empty()).then(|| proto::Foreign {
            build_id: module.foreign.iter().map(|foreign| foreign.build_id.clone()).collect(),
            path: module.foreign.iter().map(|foreign| foreign.path.clone()).collect(),
        }),
        targets: targets(module),
    }
}

/// Counts, unless none is known.
fn counts(counts: impl Iterator<Item = Option<Count>>) -> Option<proto::Counts> {
    let mut columns = proto::Counts::default();
    for count in counts {
        columns.origin.push(count.map_or(0, |count| 1 + number_of(&ORIGINS, &count.origin)));
        columns.count.push(count.map_or(0, |count| count.raw.cast_signed()));
    }
    columns.origin.iter().any(|&origin| origin != 0).then_some(columns)
}

fn targets(module: &Module) -> Option<proto::Targets> {
    let mut columns = proto::Targets::default();
    let mut before = Delta::default();
    for (site, i) in module.sites.iter().zip(0..) {
        for target in &site.targets {
            let (module, address) = match target.target {
                Target::Own(address) => (TARGET_OWN, address),
                Target::Generated => (TARGET_GENERATED, 0),
                Target::Foreign { module, address } => (TARGET_FOREIGN + module, address),
            };
            columns.site.push(before.write(i));
            columns.module.push(module);
            columns.address.push(address);
            columns.count.push(target.count);
        }
    }
    (!columns.site.is_empty()).then_some(columns)
}

/// The code of a module, without any counts. Equal code gives equal bytes: texts are numbered as they
/// come up.
pub(crate) fn code(module: &Module) -> Vec<u8> {
    let mut writer = Writer { module, texts: Texts::default() };
    let mut code = proto::Code {
        build_id: module.build_id.clone(),
        mode: number_of(&MODES, &module.mode),
        slot: Some(proto::SlotLayout {
            counters: module.layout.counters,
            sites: module.layout.sites,
            overflows: module.layout.overflows,
            modules: module.layout.modules,
        }),
        files: module.files.clone(),
        functions: Some(writer.functions()),
        pieces: Some(writer.pieces()),
        blocks: Some(writer.blocks()),
        edges: Some(writer.edges()),
        loops: Some(writer.loops()),
        calls: Some(writer.calls()),
        sites: Some(writer.sites()),
        texts: Vec::new(),
    };
    code.texts = writer.texts.iter().map(str::to_string).collect();
    code.encode_to_vec()
}

struct Writer<'m> {
    module: &'m Module,
    texts: Texts,
}

impl<'m> Writer<'m> {
    fn each(&self) -> impl Iterator<Item = &'m Function> + use<'m> {
        self.module.functions.iter()
    }

    fn text(&mut self, id: TextId) -> u32 {
        self.texts.intern(self.module.text(id)).0
    }

    fn functions(&mut self) -> proto::Functions {
        let mut columns = proto::Functions::default();
        let mut before = Delta::default();
        for function in self.each() {
            columns.name.push(self.text(function.name));
            columns.address.push(before.write(function.address));
            columns.size.push(function.size);
            columns.state.push(function.state.rank().into());
            columns.reason.push(function.state.reason().map_or(0, |reason| 1 + self.text(reason)));
            columns.approximate.push(function.approximate.map_or(0, |reason| 1 + self.text(reason)));
            columns.hubs.push(function.hubs);
            columns.pieces.push(len(&function.pieces));
            columns.blocks.push(len(&function.blocks));
            columns.edges.push(len(&function.edges));
            columns.loops.push(len(&function.loops));
            columns.calls.push(len(&function.calls));
            columns.called.push(function.called);
        }
        if !columns.called.contains(&true) {
            columns.called.clear();
        }
        columns
    }

    fn pieces(&self) -> proto::Pieces {
        let mut columns = proto::Pieces::default();
        let mut before = Delta::default();
        for piece in self.each().flat_map(|function| &function.pieces) {
            columns.start.push(before.write(piece.start));
            columns.len.push(piece.len);
        }
        columns
    }

    fn blocks(&self) -> proto::Blocks {
        let mut columns = proto::Blocks::default();
        let (mut address, mut file, mut line) = (Delta::default(), Delta::default(), Delta::default());
        let mut counter = SparseDelta::default();
        for block in self.each().flat_map(|function| &function.blocks) {
            columns.address.push(address.write(block.address));
            address.read(block.size.into());
            columns.size.push(block.size);
            columns.insns.push(block.insns);
            columns.hash.push(block.hash);
            let is = |yes, flag| if yes { flag } else { 0 };
            columns
                .flags
                .push(is(block.is_entry, BLOCK_IS_ENTRY) | is(block.is_landing_pad, BLOCK_IS_LANDING_PAD));
            columns.file.push(file.write(block.line.map_or(0, |line| 1 + u64::from(line.file()))));
            columns.line.push(line.write(block.line.map_or(0, |line| line.line.into())));
            columns.counter.push(counter.write(block.counter.map(Counter::index)));
        }
        clear_if_unused(&mut columns.counter);
        columns
    }

    fn edges(&self) -> proto::Edges {
        let mut columns = proto::Edges::default();
        let mut counter = SparseDelta::default();
        for function in self.each() {
            let mut before = Delta::default();
            for &Edge { from, to, kind, counter: own, .. } in &function.edges {
                let (from, to) = (node_number(from), node_number(to));
                columns.from.push(before.write(from));
                columns.to.push(to.wrapping_sub(from).cast_signed());
                columns.kind.push(number_of(&EDGE_KINDS, &kind));
                columns.counter.push(counter.write(own.map(Counter::index)));
            }
        }
        clear_if_unused(&mut columns.counter);
        columns
    }

    fn loops(&self) -> proto::Loops {
        let mut columns = proto::Loops::default();
        for Loop { header, parent, depth, line, blocks } in self.each().flat_map(|function| &function.loops) {
            columns.header.push(*header);
            columns.parent.push(parent.map_or(0, |parent| parent + 1));
            columns.depth.push(*depth);
            columns.file.push(line.map_or(0, |line| line.file() + 1));
            columns.line.push(line.map_or(0, |line| line.line));
            columns.blocks.push(len(blocks));
            let mut before = 0;
            for &block in blocks {
                columns.block.push(block.wrapping_sub(before));
                before = block;
            }
        }
        columns
    }

    fn calls(&mut self) -> proto::Calls {
        let mut columns = proto::Calls::default();
        let mut before = Delta::default();
        for &Call { by, address: site, callee } in self.each().flat_map(|function| &function.calls) {
            columns.by.push(match by {
                CalledBy::Block(block) => block * 2,
                CalledBy::Edge(edge) => edge * 2 + 1,
            });
            let (kind, value, address) = match callee {
                Callee::Direct { address, name } => (CALL_DIRECT, self.text(name), address),
                Callee::Import { name } => (CALL_IMPORT, self.text(name), 0),
                Callee::Indirect { site } => (CALL_INDIRECT, site.map_or(0, |site| site.index() + 1), 0),
            };
            columns.site.push(before.write(site));
            columns.kind.push(kind);
            columns.value.push(value);
            columns.address.push(address);
        }
        columns
    }

    fn sites(&self) -> proto::Sites {
        let mut columns = proto::Sites::default();
        let mut before = Delta::default();
        for site in &self.module.sites {
            columns.function.push(site.function);
            columns.block.push(site.block);
            columns.address.push(before.write(site.address));
        }
        columns
    }
}

fn clear_if_unused(column: &mut Vec<i64>) {
    if column.iter().all(|&counter| counter == 0) {
        column.clear();
    }
}

/// No list is longer than the code has bytes, and no code is longer than 2³¹ bytes: instructions could
/// not reach each other.
fn len<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
