//! The tables of a profile, column by column.

use parquet::data_type::ByteArray;
use relive_image::names::demangle;
use relive_profile::callees::Callees;
use relive_profile::model::{Count, Function, Mode, Module, Profile, State};

/// A table: its columns, behind those that all have ([`OF`]), and how it is filled.
pub(super) struct Filled {
    pub(super) format: &'static str,
    pub(super) about: &'static str,
    columns: &'static [(&'static str, Kind)],
    pub(super) fill: fn(&mut Table, &str, &Profile),
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Text,
    /// Or nothing.
    MaybeText,
    Number,
    /// Or nothing.
    MaybeNumber,
}

use Kind::{MaybeNumber, MaybeText, Number, Text};

/// What is in every row: where it is from.
const OF: &[(&str, Kind)] = &[
    ("profile", Text),
    ("module", Text),
    ("build_id", Text),
    ("function", Text),
    ("demangled", Text),
    ("function_address", Number),
];

/// All tables.
pub(super) const TABLES: &[Filled] = &[
    Filled {
        format: "parquet-functions",
        about: "a table of functions for DuckDB, pandas, Spark; takes several profiles",
        columns: &[
            ("size", Number),
            ("state", Text),
            ("reason", MaybeText),
            ("approximate", MaybeText),
            ("entries", MaybeNumber),
            ("instructions", MaybeNumber),
            ("file", MaybeText),
            ("line", MaybeNumber),
            ("mode", Text),
            ("runs", Number),
            ("first_run", Number),
            ("last_run", Number),
        ],
        fill: functions,
    },
    Filled {
        format: "parquet-blocks",
        about: "the same of basic blocks",
        columns: &[
            ("address", Number),
            ("size", Number),
            ("instructions", Number),
            ("count", MaybeNumber),
            ("origin", MaybeText),
            ("confidence", MaybeNumber),
            ("file", MaybeText),
            ("line", MaybeNumber),
        ],
        fill: blocks,
    },
    Filled {
        format: "parquet-edges",
        about: "the same of edges between blocks",
        columns: &[
            ("from_address", MaybeNumber),
            ("from_hub", MaybeNumber),
            ("to_address", MaybeNumber),
            ("to_hub", MaybeNumber),
            ("kind", Text),
            ("count", MaybeNumber),
            ("origin", MaybeText),
            ("confidence", MaybeNumber),
        ],
        fill: edges,
    },
    Filled {
        format: "parquet-calls",
        about: "the same of calls",
        columns: &[
            ("site", Number),
            ("callee", Text),
            ("callee_module", MaybeText),
            ("callee_address", MaybeNumber),
            ("count", MaybeNumber),
        ],
        fill: calls,
    },
    Filled {
        format: "parquet-loops",
        about: "the same of loops",
        columns: &[
            ("header", MaybeNumber),
            ("depth", Number),
            ("file", MaybeText),
            ("line", MaybeNumber),
            ("entries", MaybeNumber),
            ("iterations", MaybeNumber),
        ],
        fill: loops,
    },
];

/// The values of a column that are known, and of each row whether it is; without that list, all are.
pub(super) enum Column {
    Text {
        values: Vec<ByteArray>,
        levels: Option<Vec<i16>>,
    },
    /// 64 bits without a sign, in the place of those with one.
    Number {
        values: Vec<i64>,
        levels: Option<Vec<i16>>,
    },
}

impl Column {
    pub(super) fn levels(&self) -> Option<&[i16]> {
        match self {
            Self::Text { levels, .. } | Self::Number { levels, .. } => levels.as_deref(),
        }
    }
}

/// Columns with names. Rows are added value by value, each time in the same order.
pub(super) struct Table {
    columns: Vec<(&'static str, Column)>,
    rows: usize,
    next: usize,
}

/// What is in every row of a function.
struct Of {
    profile: ByteArray,
    module: ByteArray,
    build_id: ByteArray,
    function: ByteArray,
    demangled: ByteArray,
    address: u64,
}

fn bytes(text: &str) -> ByteArray {
    ByteArray::from(text.as_bytes().to_vec())
}

impl Table {
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, &Column)> {
        self.columns.iter().map(|(name, column)| (*name, column))
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn new(of: &Filled) -> Self {
        let column = |kind| match kind {
            Text => Column::Text { values: Vec::new(), levels: None },
            MaybeText => Column::Text { values: Vec::new(), levels: Some(Vec::new()) },
            Number => Column::Number { values: Vec::new(), levels: None },
            MaybeNumber => Column::Number { values: Vec::new(), levels: Some(Vec::new()) },
        };
        let columns = OF.iter().chain(of.columns).map(|&(name, kind)| (name, column(kind))).collect();
        Self { columns, rows: 0, next: 0 }
    }

    /// Puts a value into the next column.
    ///
    /// # Panics
    /// If that is not the column called `name`: rows are written by hand, and so are the columns.
    fn put(&mut self, name: &str, text: Option<ByteArray>, number: Option<u64>) {
        let (column, value) = &mut self.columns[self.next];
        assert_eq!(*column, name, "columns in their order");
        self.next += 1;
        match value {
            Column::Text { values, levels } => {
                levels.iter_mut().for_each(|levels| levels.push(text.is_some().into()));
                values.extend(text);
            }
            Column::Number { values, levels } => {
                levels.iter_mut().for_each(|levels| levels.push(number.is_some().into()));
                values.extend(number.map(u64::cast_signed));
            }
        }
    }

    fn text(&mut self, name: &str, value: &ByteArray) {
        self.put(name, Some(value.clone()), None);
    }

    fn maybe_text(&mut self, name: &str, value: Option<&str>) {
        self.put(name, value.map(bytes), None);
    }

    fn number(&mut self, name: &str, value: u64) {
        self.put(name, None, Some(value));
    }

    fn maybe_number(&mut self, name: &str, value: Option<u64>) {
        self.put(name, None, value);
    }

    fn end_row(&mut self) {
        self.rows += 1;
        self.next = 0;
    }

    fn of(&mut self, of: &Of) {
        self.text("profile", &of.profile);
        self.text("module", &of.module);
        self.text("build_id", &of.build_id);
        self.text("function", &of.function);
        self.text("demangled", &of.demangled);
        self.number("function_address", of.address);
    }

    fn count(&mut self, count: Option<Count>) {
        self.maybe_number("count", count.map(Count::value));
        self.maybe_text("origin", count.map(|count| count.origin.to_string()).as_deref());
        self.maybe_number("confidence", count.map(|count| count.confidence.percent().into()));
    }

    fn place(&mut self, module: &Module, line: Option<relive_profile::model::Line>) {
        self.maybe_text("file", line.map(|line| module.file(line)));
        self.maybe_number("line", line.map(|line| line.line.into()));
    }
}

/// Each function of a profile with what is in all its rows.
fn each<'p>(name: &str, profile: &'p Profile) -> impl Iterator<Item = (&'p Module, &'p Function, Of)> {
    let name = bytes(name);
    profile.modules.iter().flat_map(move |module| {
        let (profile, path) = (name.clone(), bytes(&module.path));
        let build_id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let build_id = bytes(&build_id);
        module.functions.iter().map(move |function| {
            let name = module.name(function);
            let of = Of {
                profile: profile.clone(),
                module: path.clone(),
                build_id: build_id.clone(),
                function: bytes(name),
                demangled: bytes(&demangle(name)),
                address: function.address,
            };
            (module, function, of)
        })
    })
}

fn functions(table: &mut Table, name: &str, profile: &Profile) {
    for (module, function, of) in each(name, profile) {
        let counted = function.state == State::Measured && module.mode != Mode::Functions;
        table.of(&of);
        table.number("size", function.size);
        table.text("state", &bytes(function.state.name()));
        table.maybe_text("reason", function.state.reason().map(|reason| module.text(reason)));
        table.maybe_text("approximate", function.approximate.map(|reason| module.text(reason)));
        table.maybe_number("entries", function.entries().map(Count::value));
        table.maybe_number("instructions", counted.then(|| function.executed_insns()));
        table.place(module, function.blocks.first().and_then(|block| block.line));
        table.text("mode", &bytes(module.mode.name()));
        table.number("runs", module.runs);
        table.number("first_run", module.first_run);
        table.number("last_run", module.last_run);
        table.end_row();
    }
}

fn blocks(table: &mut Table, name: &str, profile: &Profile) {
    for (module, function, of) in each(name, profile) {
        for block in &function.blocks {
            table.of(&of);
            table.number("address", block.address);
            table.number("size", block.size.into());
            table.number("instructions", block.insns.into());
            table.count(block.count);
            table.place(module, block.line);
            table.end_row();
        }
    }
}

fn edges(table: &mut Table, name: &str, profile: &Profile) {
    for (_, function, of) in each(name, profile) {
        let address = |block: u32| function.blocks.get(block as usize).map(|block| block.address);
        for edge in &function.edges {
            table.of(&of);
            table.maybe_number("from_address", edge.from.as_block().and_then(address));
            table.maybe_number("from_hub", edge.from.as_hub().map(u64::from));
            table.maybe_number("to_address", edge.to.as_block().and_then(address));
            table.maybe_number("to_hub", edge.to.as_hub().map(u64::from));
            table.text("kind", &bytes(edge.kind.name()));
            table.count(edge.count);
            table.end_row();
        }
    }
}

fn calls(table: &mut Table, name: &str, profile: &Profile) {
    let callees = Callees::new(profile);
    for (module, function, of) in each(name, profile) {
        for call in &function.calls {
            for called in callees.of(module, function, call) {
                let callee = called.function.map(|id| profile.function(id));
                table.of(&of);
                table.number("site", call.address);
                table.text("callee", &bytes(&called.name));
                table.maybe_text("callee_module", callee.map(|(module, _)| &*module.path));
                table.maybe_number("callee_address", callee.map(|(_, function)| function.address));
                table.maybe_number("count", called.count);
                table.end_row();
            }
        }
    }
}

fn loops(table: &mut Table, name: &str, profile: &Profile) {
    for (module, function, of) in each(name, profile) {
        for (looped, counts) in function.loops.iter().zip(function.loop_counts()) {
            table.of(&of);
            table.maybe_number(
                "header",
                function.blocks.get(looped.header as usize).map(|block| block.address),
            );
            table.number("depth", looped.depth.into());
            table.place(module, looped.line);
            table.maybe_number("entries", counts.map(|counts| counts.entries.value()));
            table.maybe_number("iterations", counts.map(|counts| counts.iterations.value()));
            table.end_row();
        }
    }
}
