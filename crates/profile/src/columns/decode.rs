//! Columns to model. Nothing here trusts what it reads: lengths, indices and order are checked, so that
//! whoever uses the model need not.

use super::{
    BLOCK_IS_ENTRY, BLOCK_IS_LANDING_PAD, CALL_DIRECT, CALL_IMPORT, CALL_INDIRECT, DATA_KINDS, Delta,
    EDGE_KINDS, MODES, SparseDelta, TARGET_FOREIGN, TARGET_GENERATED, TARGET_OWN, origin_of,
};
use crate::error::Damage;
use crate::model::{
    Block, Call, CallSite, CalledBy, Callee, Confidence, Count, Counter, DataBlock, Edge, Foreign, Function,
    Line, Loop, Lost, Module, Node, Piece, Pointer, SiteId, Source, State, Target, TargetCount, TextId,
};
use crate::proto;
use prost::Message as _;
use relive_abi::rprof::SlotLayout;

type Result<T> = std::result::Result<T, Damage>;

fn wrong<T>(what: impl Into<Damage>) -> Result<T> {
    Err(what.into())
}

/// The module a message describes, without what follows from its counters.
pub(crate) fn module(message: proto::Module) -> Result<Module> {
    let mut module = code(&message.code)?;
    module.path = message.path;
    (module.runs, module.first_run, module.last_run) = (message.runs, message.first_run, message.last_run);
    module.lost = Lost(message.lost);
    if message.counters.len() > module.layout.counters as usize {
        return wrong("more counts than counters");
    }
    module.counters = message.counters;
    if module.layout.counters > 0 && (message.block_counts.is_some() || message.edge_counts.is_some()) {
        return wrong("both counters and counts");
    }
    if let Some(columns) = message.block_counts {
        let counts = module.functions.iter_mut().flat_map(|f| f.blocks.iter_mut().map(|b| &mut b.count));
        set_counts(counts, &columns)?;
    }
    if let Some(columns) = message.edge_counts {
        let counts = module.functions.iter_mut().flat_map(|f| f.edges.iter_mut().map(|e| &mut e.count));
        set_counts(counts, &columns)?;
    }
    if let Some(columns) = message.foreign {
        same_len("foreign modules", columns.build_id.len(), &[columns.path.len()])?;
        let both = columns.build_id.into_iter().zip(columns.path);
        module.foreign = both.map(|(build_id, path)| Foreign { build_id, path }).collect();
    }
    if let Some(columns) = message.targets {
        set_targets(&mut module, &columns)?;
    }
    if let Some(columns) = message.carried {
        module.carried = sources(columns)?;
        if module.layout.counters > 0 && !module.carried.is_empty() {
            return wrong("carried over from another build, but with counters");
        }
    }
    Ok(module)
}

fn set_counts<'c>(
    counts: impl Iterator<Item = &'c mut Option<Count>>,
    columns: &proto::Counts,
) -> Result<()> {
    let items = columns.origin.len();
    same_len("counts", items, &[columns.count.len()])?;
    optional_len("confidence of counts", items, columns.confidence.len())?;
    let full = Confidence::FULL.percent().into();
    let mut given = 0..items;
    for count in counts {
        let Some(i) = given.next() else { return wrong("fewer counts than blocks or edges") };
        let percent = columns.confidence.get(i).copied().unwrap_or(full);
        let Some(confidence) = u8::try_from(percent).ok().filter(|_| percent <= full).map(Confidence::new)
        else {
            return wrong(format!("a count with a confidence of {percent} %"));
        };
        *count = match columns.origin[i] {
            0 => None,
            origin => match origin_of(origin) {
                Some(origin) => Some(Count { raw: columns.count[i].cast_unsigned(), origin, confidence }),
                None => return wrong(format!("a count of unknown origin {origin}")),
            },
        };
    }
    if given.next().is_some() { wrong("more counts than blocks or edges") } else { Ok(()) }
}

fn sources(columns: proto::Sources) -> Result<Vec<Source>> {
    let items = columns.build_id.len();
    same_len("sources", items, &[columns.path.len(), columns.runs.len(), columns.steps.len()])?;
    let texts = columns.build_id.into_iter().zip(columns.path);
    let numbers = columns.runs.into_iter().zip(columns.steps);
    let both = texts.zip(numbers);
    Ok(both.map(|((build_id, path), (runs, steps))| Source { steps, build_id, path, runs }).collect())
}

fn set_targets(module: &mut Module, columns: &proto::Targets) -> Result<()> {
    let items = columns.site.len();
    same_len("targets", items, &[columns.module.len(), columns.address.len(), columns.count.len()])?;
    let mut before = Delta::default();
    for i in 0..items {
        let site = before.read(columns.site[i]);
        let target = match columns.module[i] {
            TARGET_OWN => Target::Own(columns.address[i]),
            TARGET_GENERATED => Target::Generated,
            foreign => Target::Foreign { module: foreign - TARGET_FOREIGN, address: columns.address[i] },
        };
        if let Target::Foreign { module: foreign, .. } = target
            && foreign as usize >= module.foreign.len()
        {
            return wrong(format!("a call leads to module {foreign}, which is not there"));
        }
        let Some(site) = usize::try_from(site).ok().and_then(|site| module.sites.get_mut(site)) else {
            return wrong(format!("targets of call site {site}, which is not there"));
        };
        site.targets.push(TargetCount { target, count: columns.count[i] });
    }
    Ok(())
}

fn same_len(what: &str, len: usize, others: &[usize]) -> Result<()> {
    match others.iter().find(|&&other| other != len) {
        Some(other) => wrong(format!("{what}: columns of {len} and {other} items")),
        None => Ok(()),
    }
}

fn code(bytes: &[u8]) -> Result<Module> {
    let code = proto::Code::decode(bytes)?;
    let slot = code.slot.unwrap_or_default();
    let Some(&mode) = MODES.get(code.mode as usize) else {
        return wrong(format!("unknown mode {}", code.mode));
    };
    let mut module = Module {
        build_id: code.build_id,
        mode,
        texts: code.texts.iter().collect(),
        files: code.files,
        only_executed: code.only_executed,
        layout: SlotLayout {
            counters: slot.counters,
            sites: slot.sites,
            overflows: slot.overflows,
            modules: slot.modules,
        },
        ..Module::default()
    };
    drop(code.texts);
    let limits = Limits {
        texts: module.texts.len(),
        files: module.files.len(),
        counters: slot.counters,
        sites: slot.sites,
    };
    let functions = code.functions.unwrap_or_default();
    module.functions = limits.functions(&functions)?;
    fill(&mut module, &functions.pieces, pieces(&code.pieces.unwrap_or_default())?, "pieces", |f| {
        &mut f.pieces
    })?;
    fill(&mut module, &functions.blocks, limits.blocks(&code.blocks.unwrap_or_default())?, "blocks", |f| {
        &mut f.blocks
    })?;
    limits.edges(&mut module, &functions.edges, &code.edges.unwrap_or_default())?;
    limits.loops(&mut module, &functions.loops, &code.loops.unwrap_or_default())?;
    fill(&mut module, &functions.calls, limits.calls(&code.calls.unwrap_or_default())?, "calls", |f| {
        &mut f.calls
    })?;
    check_calls(&module)?;
    module.sites = sites(&module, &code.sites.unwrap_or_default())?;
    text(&mut module, &code.text)?;
    module.data = limits.data(&code.data.unwrap_or_default())?;
    module.pointers = pointers(&code.pointers.unwrap_or_default())?;
    Ok(module)
}

/// Deals items out to functions.
fn fill<T>(
    module: &mut Module,
    lens: &[u32],
    mut items: impl Iterator<Item = Result<T>>,
    what: &str,
    list: impl Fn(&mut Function) -> &mut Vec<T>,
) -> Result<()> {
    for (function, &len) in module.functions.iter_mut().zip(lens) {
        let list = list(function);
        // Not yet reserved: the length is only a claim.
        for _ in 0..len {
            match items.next() {
                Some(item) => list.push(item?),
                None => return wrong(format!("fewer {what} than functions have")),
            }
        }
        list.shrink_to_fit();
    }
    if items.next().is_some() { wrong(format!("more {what} than functions have")) } else { Ok(()) }
}

fn pieces(columns: &proto::Pieces) -> Result<impl Iterator<Item = Result<Piece>>> {
    same_len("pieces", columns.start.len(), &[columns.len.len()])?;
    let mut before = Delta::default();
    let both = columns.start.iter().zip(&columns.len);
    Ok(both.map(move |(&start, &len)| Ok(Piece { start: before.read(start), len })))
}

/// Deals the bytes of the code out to functions.
fn text(module: &mut Module, mut text: &[u8]) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    for function in &mut module.functions {
        for piece in &function.pieces {
            let len = usize::try_from(piece.len).ok();
            let Some((own, rest)) = len.and_then(|len| text.split_at_checked(len)) else {
                return wrong("less code than functions have");
            };
            function.code.extend(own);
            text = rest;
        }
    }
    if text.is_empty() { Ok(()) } else { wrong("more code than functions have") }
}

fn pointers(columns: &proto::Pointers) -> Result<Vec<Pointer>> {
    same_len("pointers", columns.at.len(), &[columns.to.len()])?;
    let (mut at, mut to) = (Delta::default(), Delta::default());
    let both = columns.at.iter().zip(&columns.to);
    let pointers: Vec<_> = both.map(|(&a, &t)| Pointer { at: at.read(a), to: to.read(t) }).collect();
    if pointers.is_sorted_by_key(|pointer| pointer.at) {
        Ok(pointers)
    } else {
        wrong("pointers out of order")
    }
}

/// What indices must stay below.
#[derive(Clone, Copy)]
struct Limits {
    texts: usize,
    files: usize,
    counters: u32,
    sites: u32,
}

impl Limits {
    fn text(self, id: u32) -> Result<TextId> {
        if (id as usize) < self.texts { Ok(TextId(id)) } else { wrong(format!("text {id} is not there")) }
    }

    fn line(self, file: u64, line: u64) -> Result<Option<Line>> {
        let Some(file) = file.checked_sub(1) else { return Ok(None) };
        match (u32::try_from(file), u32::try_from(line)) {
            (Ok(index), Ok(line)) if (index as usize) < self.files => Ok(Some(Line::new(index, line))),
            _ => wrong(format!("line {line} of source file {file} is not there")),
        }
    }

    fn counter(self, before: &mut SparseDelta, delta: i64) -> Result<Option<Counter>> {
        match before.read(delta) {
            Some(None) => Ok(None),
            Some(Some(counter)) if counter < self.counters => Ok(Some(Counter::new(counter))),
            _ => wrong("a counter that is not there"),
        }
    }

    fn functions(self, columns: &proto::Functions) -> Result<Vec<Function>> {
        let items = columns.name.len();
        let others = [
            columns.address.len(),
            columns.size.len(),
            columns.state.len(),
            columns.reason.len(),
            columns.approximate.len(),
            columns.hubs.len(),
            columns.pieces.len(),
            columns.blocks.len(),
            columns.edges.len(),
            columns.loops.len(),
            columns.calls.len(),
        ];
        same_len("functions", items, &others)?;
        optional_len("functions that are called", items, columns.called.len())?;
        let mut before = Delta::default();
        let mut last = None;
        (0..items)
            .map(|i| {
                let address = before.read(columns.address[i]);
                if last.replace(address).is_some_and(|last| last > address) {
                    return wrong(format!("the function at {address:#x} is out of order"));
                }
                let text_or_none = |id: u32| id.checked_sub(1).map(|id| self.text(id)).transpose();
                let state = match (columns.state[i], text_or_none(columns.reason[i])?) {
                    (0, Some(reason)) => State::NotMeasured { reason },
                    (1, Some(reason)) => State::EntryOnly { reason },
                    (2, None) => State::Measured,
                    (state, _) => {
                        return wrong(format!("the function at {address:#x} is in unknown state {state}"));
                    }
                };
                if columns.hubs[i] > columns.edges[i] {
                    return wrong(format!("the function at {address:#x} has more hubs than edges"));
                }
                let mut function =
                    Function::new(self.text(columns.name[i])?, address, columns.size[i], state);
                function.approximate = text_or_none(columns.approximate[i])?;
                function.hubs = columns.hubs[i];
                function.called = columns.called.get(i).copied().unwrap_or(false);
                Ok(function)
            })
            .collect()
    }

    fn blocks(self, columns: &proto::Blocks) -> Result<impl Iterator<Item = Result<Block>>> {
        let items = columns.address.len();
        let others = [
            columns.size.len(),
            columns.insns.len(),
            columns.flags.len(),
            columns.file.len(),
            columns.line.len(),
        ];
        same_len("blocks", items, &others)?;
        optional_len("counters of blocks", items, columns.counter.len())?;
        let (mut address, mut file, mut line) = (Delta::default(), Delta::default(), Delta::default());
        let mut counter = SparseDelta::default();
        Ok((0..items).map(move |i| {
            let start = address.read(columns.address[i]);
            address.read(columns.size[i].into());
            Ok(Block {
                address: start,
                size: columns.size[i],
                insns: columns.insns[i],
                line: self.line(file.read(columns.file[i]), line.read(columns.line[i]))?,
                is_entry: columns.flags[i] & BLOCK_IS_ENTRY != 0,
                is_landing_pad: columns.flags[i] & BLOCK_IS_LANDING_PAD != 0,
                counter: self.counter(&mut counter, columns.counter.get(i).copied().unwrap_or(0))?,
                count: None,
            })
        }))
    }

    fn edges(self, module: &mut Module, lens: &[u32], columns: &proto::Edges) -> Result<()> {
        let items = columns.from.len();
        same_len("edges", items, &[columns.to.len(), columns.kind.len()])?;
        optional_len("counters of edges", items, columns.counter.len())?;
        optional_len("cases", items, columns.case.len())?;
        let mut counter = SparseDelta::default();
        let mut next = 0;
        for (function, &len) in module.functions.iter_mut().zip(lens) {
            let end = next + len as usize;
            if end > items {
                return wrong("fewer edges than functions have");
            }
            let mut before = Delta::default();
            let (blocks, hubs) = (function.blocks.len() as u64, function.hubs.into());
            function.edges = (next..end)
                .map(|i| {
                    let from = before.read(columns.from[i]);
                    let to = from.wrapping_add(columns.to[i].cast_unsigned());
                    let Some(&kind) = EDGE_KINDS.get(columns.kind[i] as usize) else {
                        return wrong(format!("an edge of unknown kind {}", columns.kind[i]));
                    };
                    Ok(Edge {
                        from: node(from, blocks, hubs)?,
                        to: node(to, blocks, hubs)?,
                        counter: self.counter(&mut counter, columns.counter.get(i).copied().unwrap_or(0))?,
                        kind,
                        count: None,
                    })
                })
                .collect::<Result<_>>()?;
            let cases = columns.case.get(next..end).unwrap_or_default().iter().zip(0..);
            function.cases = cases.filter_map(|(case, edge)| Some((edge, case.checked_sub(1)?))).collect();
            next = end;
        }
        if next < items { wrong("more edges than functions have") } else { Ok(()) }
    }

    fn loops(self, module: &mut Module, lens: &[u32], columns: &proto::Loops) -> Result<()> {
        let items = columns.header.len();
        let others = [
            columns.parent.len(),
            columns.depth.len(),
            columns.file.len(),
            columns.line.len(),
            columns.blocks.len(),
        ];
        same_len("loops", items, &others)?;
        let (mut next, mut members) = (0, columns.block.iter());
        for (function, &len) in module.functions.iter_mut().zip(lens) {
            let blocks = function.blocks.len();
            for own in 0..len {
                let Some(&header) = columns.header.get(next) else {
                    return wrong("fewer loops than functions have");
                };
                let mut looped = Loop {
                    header,
                    parent: columns.parent[next].checked_sub(1),
                    depth: columns.depth[next],
                    line: self.line(columns.file[next].into(), columns.line[next].into())?,
                    blocks: Vec::new(),
                };
                let mut before = 0u32;
                for i in 0..columns.blocks[next] {
                    let Some(&delta) = members.next() else { return wrong("fewer blocks than loops have") };
                    match before.checked_add(delta) {
                        Some(block) if (block as usize) < blocks && (i == 0 || delta > 0) => before = block,
                        _ => return wrong("a block of a loop is not there or out of order"),
                    }
                    looped.blocks.push(before);
                }
                if header as usize >= blocks || looped.parent.is_some_and(|parent| parent >= own) {
                    return wrong("a loop whose header or parent is not there");
                }
                function.loops.push(looped);
                next += 1;
            }
        }
        if next < items || members.next().is_some() {
            return wrong("more loops than functions have");
        }
        Ok(())
    }

    fn data(self, columns: &proto::Data) -> Result<Vec<DataBlock>> {
        let items = columns.address.len();
        let others = [columns.size.len(), columns.name.len(), columns.kind.len(), columns.hash.len()];
        same_len("data", items, &others)?;
        let mut before = Delta::default();
        let mut last = 0;
        (0..items)
            .map(|i| {
                let address = before.read(columns.address[i]);
                before.read(columns.size[i].cast_signed());
                if std::mem::replace(&mut last, address) > address {
                    return wrong(format!("the data at {address:#x} is out of order"));
                }
                let Some(&kind) = DATA_KINDS.get(columns.kind[i] as usize) else {
                    return wrong(format!("data of unknown kind {}", columns.kind[i]));
                };
                Ok(DataBlock {
                    address,
                    size: columns.size[i],
                    name: columns.name[i].checked_sub(1).map(|id| self.text(id)).transpose()?,
                    kind,
                    hash: columns.hash[i],
                })
            })
            .collect()
    }

    fn calls(self, columns: &proto::Calls) -> Result<impl Iterator<Item = Result<Call>>> {
        let items = columns.by.len();
        let others = [columns.kind.len(), columns.value.len(), columns.address.len(), columns.site.len()];
        same_len("calls", items, &others)?;
        let mut before = Delta::default();
        Ok((0..items).map(move |i| {
            let site = before.read(columns.site[i]);
            let (by, value, address) = (columns.by[i], columns.value[i], columns.address[i]);
            let by = if by % 2 == 0 { CalledBy::Block(by / 2) } else { CalledBy::Edge(by / 2) };
            let callee = match columns.kind[i] {
                CALL_DIRECT => Callee::Direct { address, name: self.text(value)? },
                CALL_IMPORT => Callee::Import { name: self.text(value)? },
                CALL_INDIRECT if value <= self.sites => {
                    Callee::Indirect { site: value.checked_sub(1).map(SiteId::new) }
                }
                kind => return wrong(format!("a call of unknown kind {kind}")),
            };
            Ok(Call { by, address: site, callee })
        }))
    }
}

fn optional_len(what: &str, items: usize, len: usize) -> Result<()> {
    if len == 0 { Ok(()) } else { same_len(what, items, &[len]) }
}

fn node(number: u64, blocks: u64, hubs: u64) -> Result<Node> {
    let Some(number) = number.checked_sub(1) else { return Ok(Node::OUTSIDE) };
    let (index, is_hub) = (number / 2, number % 2 == 1);
    match u32::try_from(index) {
        Ok(hub) if is_hub && index < hubs => Ok(Node::hub(hub)),
        Ok(block) if !is_hub && index < blocks => Ok(Node::block(block)),
        _ => wrong("an edge of a block that is not there"),
    }
}

fn check_calls(module: &Module) -> Result<()> {
    for function in &module.functions {
        let is_there = |call: &Call| match call.by {
            CalledBy::Block(block) => (block as usize) < function.blocks.len(),
            CalledBy::Edge(edge) => (edge as usize) < function.edges.len(),
        };
        if !function.calls.iter().all(is_there) {
            return wrong("a call from a block or edge that is not there");
        }
    }
    Ok(())
}

fn sites(module: &Module, columns: &proto::Sites) -> Result<Vec<CallSite>> {
    let items = columns.function.len();
    same_len("call sites", items, &[columns.block.len(), columns.address.len()])?;
    if items != module.layout.sites as usize {
        return wrong(format!("{items} call sites, but slots have {}", module.layout.sites));
    }
    let mut before = Delta::default();
    (0..items)
        .map(|i| {
            let (function, block) = (columns.function[i], columns.block[i]);
            let address = before.read(columns.address[i]);
            match module.functions.get(function as usize) {
                Some(f) if (block as usize) < f.blocks.len() => {
                    Ok(CallSite { function, block, address, targets: Vec::new() })
                }
                _ => wrong(format!("the call site at {address:#x} is in no block")),
            }
        })
        .collect()
}
