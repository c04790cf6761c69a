//! The code of a module in columns, written function by function.
//!
//! A large program has millions of blocks and edges. So none are held but as the bytes they become: what the
//! messages of [`proto`] would be encoded to, which is what decoding goes by.

use super::{
    BLOCK_IS_ENTRY, BLOCK_IS_LANDING_PAD, CALL_DIRECT, CALL_IMPORT, CALL_INDIRECT, DATA_KINDS, Delta,
    EDGE_KINDS, MODES, SparseDelta, node_number, number_of,
};
use crate::model::{Call, CalledBy, Callee, Counter, Edge, Function, Loop, Module, TextId, Texts};
use crate::proto;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use relive_abi::hash;

/// A packed field.
#[derive(Default)]
struct Column {
    bytes: Vec<u8>,
    /// Whether there is anything but zeros in it.
    used: bool,
}

impl Column {
    /// `uint32` or `uint64`.
    fn push(&mut self, value: impl Into<u64>) {
        let value = value.into();
        self.used |= value != 0;
        encode_varint(value, &mut self.bytes);
    }

    /// `sint64`.
    fn push_signed(&mut self, value: i64) {
        self.push((value << 1 ^ value >> 63).cast_unsigned());
    }

    /// `fixed64`.
    fn push_fixed(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }
}

/// One of the messages in [`proto::Code`]: its columns, by number from one on.
type Columns<const N: usize> = [Column; N];

/// Code being written.
#[derive(Default)]
pub(crate) struct CodeWriter {
    functions: Columns<13>,
    /// The texts that [`proto::Functions`] speaks of: name, reason, why it is approximate.
    function_texts: Vec<(TextId, Option<TextId>, Option<TextId>)>,
    pieces: Columns<2>,
    blocks: Columns<8>,
    edges: Columns<5>,
    loops: Columns<7>,
    calls: Columns<5>,
    callees: Vec<Value>,
    text: Vec<u8>,
    before: Before,
}

/// What [`proto::Calls::value`] will hold.
enum Value {
    Text(TextId),
    Number(u32),
}

/// What differences are to, where they reach over functions.
#[derive(Default)]
struct Before {
    function: Delta,
    piece: Delta,
    block: Delta,
    file: Delta,
    line: Delta,
    block_counter: SparseDelta,
    edge_counter: SparseDelta,
    call: Delta,
}

/// A [`proto::Code`]: equal code gives equal bytes.
pub(crate) struct Code {
    /// Its bytes, one after the other.
    parts: Vec<Vec<u8>>,
}

impl Code {
    pub(crate) fn of(module: &Module) -> Self {
        let mut writer = CodeWriter::default();
        module.functions.iter().for_each(|function| writer.add(function));
        writer.finish(module)
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    pub(crate) fn checksum(&self) -> u64 {
        self.parts.iter().fold(hash::EMPTY, |hash, part| hash::fnv1a(hash, part))
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        self.parts.into_iter().for_each(|part| out.extend(part));
    }
}

impl CodeWriter {
    /// Adds a function, whose texts are those of the module that [`CodeWriter::finish`] gets.
    pub(crate) fn add(&mut self, function: &Function) {
        let before = &mut self.before;
        let (reason, approximate) = (function.state.reason(), function.approximate);
        self.function_texts.push((function.name, reason, approximate));
        // The name, the reason, and why it is approximate are written in the end.
        let [_, address, size, state, _, _, hubs, counts @ .., called] = &mut self.functions;
        address.push_signed(before.function.write(function.address));
        size.push(function.size);
        state.push(function.state.rank());
        hubs.push(function.hubs);
        let lens = [
            function.pieces.len(),
            function.blocks.len(),
            function.edges.len(),
            function.loops.len(),
            function.calls.len(),
        ];
        counts.iter_mut().zip(lens).for_each(|(column, len)| column.push(len_of(len)));
        called.push(function.called);
        let [start, len] = &mut self.pieces;
        for piece in &function.pieces {
            start.push_signed(before.piece.write(piece.start));
            len.push(piece.len);
        }
        self.text.extend(&function.code);
        self.blocks(function);
        self.edges(function);
        self.loops(function);
        self.calls(function);
    }

    fn blocks(&mut self, function: &Function) {
        let before = &mut self.before;
        // The fourth column is history.
        let [address, size, insns, _, flags, file, line, counter] = &mut self.blocks;
        for block in &function.blocks {
            address.push_signed(before.block.write(block.address));
            before.block.read(block.size.into());
            size.push(block.size);
            insns.push(block.insns);
            let is = |yes, flag| if yes { flag } else { 0 };
            flags.push(is(block.is_entry, BLOCK_IS_ENTRY) | is(block.is_landing_pad, BLOCK_IS_LANDING_PAD));
            file.push_signed(before.file.write(block.line.map_or(0, |line| 1 + u64::from(line.file()))));
            line.push_signed(before.line.write(block.line.map_or(0, |line| line.line.into())));
            counter.push_signed(before.block_counter.write(block.counter.map(Counter::index)));
        }
    }

    fn edges(&mut self, function: &Function) {
        let [from, to, kind, counter, case] = &mut self.edges;
        let mut before = Delta::default();
        let mut cases = function.cases.iter().peekable();
        for (edge, number) in function.edges.iter().zip(0..) {
            case.push(
                cases.next_if(|(edge, _)| *edge == number).map_or(0, |(_, entry)| 1 + u64::from(*entry)),
            );
            let Edge { from: start, to: end, kind: why, counter: own, .. } = *edge;
            let (start, end) = (node_number(start), node_number(end));
            from.push_signed(before.write(start));
            to.push_signed(end.wrapping_sub(start).cast_signed());
            kind.push(number_of(&EDGE_KINDS, &why));
            counter.push_signed(self.before.edge_counter.write(own.map(Counter::index)));
        }
    }

    fn loops(&mut self, function: &Function) {
        let [header, parent, depth, file, line, blocks, block] = &mut self.loops;
        for a_loop in &function.loops {
            let Loop { header: first, parent: around, depth: deep, line: at, blocks: inside } = a_loop;
            header.push(*first);
            parent.push(around.map_or(0, |parent| parent + 1));
            depth.push(*deep);
            file.push(at.map_or(0, |line| line.file() + 1));
            line.push(at.map_or(0, |line| line.line));
            blocks.push(len_of(inside.len()));
            let mut before = 0;
            for &one in inside {
                block.push(one.wrapping_sub(before));
                before = one;
            }
        }
    }

    fn calls(&mut self, function: &Function) {
        // What is called is written in the end.
        let [by, kind, _, address, site] = &mut self.calls;
        for call in &function.calls {
            let Call { by: caller, address: at, callee } = *call;
            by.push(match caller {
                CalledBy::Block(block) => block * 2,
                CalledBy::Edge(edge) => edge * 2 + 1,
            });
            let (what, value, to) = match callee {
                Callee::Direct { address, name } => (CALL_DIRECT, Value::Text(name), address),
                Callee::Import { name } => (CALL_IMPORT, Value::Text(name), 0),
                Callee::Indirect { site } => {
                    (CALL_INDIRECT, Value::Number(site.map_or(0, |site| site.index() + 1)), 0)
                }
            };
            kind.push(what);
            self.callees.push(value);
            address.push(to);
            site.push_signed(self.before.call.write(at));
        }
    }

    /// The code of `module`, whose functions are those that were added. Texts are numbered as they come up.
    pub(crate) fn finish(mut self, module: &Module) -> Code {
        let mut texts = Texts::default();
        let mut number = |id: TextId| texts.intern(module.text(id)).0;
        let [name, _, _, _, why, off, ..] = &mut self.functions;
        for (text, reason, approximate) in self.function_texts {
            name.push(number(text));
            why.push(reason.map_or(0, |reason| 1 + number(reason)));
            off.push(approximate.map_or(0, |reason| 1 + number(reason)));
        }
        let [_, _, value, ..] = &mut self.calls;
        for callee in self.callees {
            value.push(match callee {
                Value::Text(text) => number(text),
                Value::Number(number) => number,
            });
        }
        let data = data(module, &mut number);
        // What nothing has is left out.
        let [.., called] = &mut self.functions;
        let [.., block_counter] = &mut self.blocks;
        let [.., edge_counter, case] = &mut self.edges;
        for column in [called, block_counter, edge_counter, case] {
            if !column.used {
                column.bytes.clear();
            }
        }
        let mut sites = Columns::<3>::default();
        let [function, block, address] = &mut sites;
        let mut before = Delta::default();
        for site in &module.sites {
            function.push(site.function);
            block.push(site.block);
            address.push_signed(before.write(site.address));
        }
        let head = proto::Code {
            build_id: module.build_id.clone(),
            mode: number_of(&MODES, &module.mode),
            slot: Some(proto::SlotLayout {
                counters: module.layout.counters,
                sites: module.layout.sites,
                overflows: module.layout.overflows,
                modules: module.layout.modules,
            }),
            texts: texts.iter().map(str::to_string).collect(),
            files: module.files.clone(),
            ..proto::Code::default()
        };
        let mut code = Code { parts: vec![head.encode_to_vec()] };
        message(&mut code, 6, self.functions);
        message(&mut code, 7, self.pieces);
        message(&mut code, 8, self.blocks);
        message(&mut code, 9, self.edges);
        message(&mut code, 10, self.loops);
        message(&mut code, 11, self.calls);
        message(&mut code, 12, sites);
        if !self.text.is_empty() {
            code.parts.push(field_head(13, self.text.len()));
            code.parts.push(self.text);
        }
        message(&mut code, 14, data);
        message(&mut code, 15, pointers(module));
        let tail = proto::Code { only_executed: module.only_executed, ..proto::Code::default() };
        code.parts.push(tail.encode_to_vec());
        code
    }
}

fn data(module: &Module, number: &mut impl FnMut(TextId) -> u32) -> Columns<5> {
    let mut columns = Columns::<5>::default();
    let [address, size, name, kind, hash] = &mut columns;
    let mut before = Delta::default();
    for block in &module.data {
        address.push_signed(before.write(block.address));
        before.read(block.size.cast_signed());
        size.push(block.size);
        name.push(block.name.map_or(0, |name| 1 + number(name)));
        kind.push(number_of(&DATA_KINDS, &block.kind));
        hash.push_fixed(block.hash);
    }
    columns
}

fn pointers(module: &Module) -> Columns<2> {
    let mut columns = Columns::<2>::default();
    let [at, to] = &mut columns;
    let (mut before_at, mut before_to) = (Delta::default(), Delta::default());
    for pointer in &module.pointers {
        at.push_signed(before_at.write(pointer.at));
        to.push_signed(before_to.write(pointer.to));
    }
    columns
}

/// Adds a message that consists of `columns`.
fn message<const N: usize>(code: &mut Code, tag: u32, columns: Columns<N>) {
    let mut parts = Vec::new();
    for (column, tag) in columns.into_iter().zip(1..) {
        if !column.bytes.is_empty() {
            parts.push(field_head(tag, column.bytes.len()));
            parts.push(column.bytes);
        }
    }
    code.parts.push(field_head(tag, parts.iter().map(Vec::len).sum()));
    code.parts.extend(parts);
}

/// What stands before the `len` bytes of a field.
pub(crate) fn field_head(tag: u32, len: usize) -> Vec<u8> {
    let mut head = Vec::new();
    encode_key(tag, WireType::LengthDelimited, &mut head);
    encode_varint(len as u64, &mut head);
    head
}

/// No list is longer than the code has bytes, and no code is longer than 2³¹ bytes: instructions could
/// not reach each other.
fn len_of(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
