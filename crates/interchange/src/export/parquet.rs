//! Parquet: tables that DuckDB, pandas, Spark and DataFusion query.
//!
//! Specification: apache/parquet-format. Each of the five formats is one table in one file; several profiles may be in it, and
//! columns tell which profile, module and build a row is of. Numbers without a sign are 64 bits; what is not known is null.
//! The columns are listed in `docs/exchange.md`, and in [`tables`](super::tables).

use super::tables::{Column, TABLES, Table};
use super::{Exporter, Summary};
use crate::error::ExportError;
use crate::surroundings::Surroundings;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use relive_profile::model::Profile;
use std::io::{self, Write};
use std::sync::Arc;

/// The format, with one table.
pub(super) struct Parquet(pub(super) usize);

impl Exporter for Parquet {
    fn name(&self) -> &'static str {
        TABLES[self.0].format
    }

    fn about(&self) -> &'static str {
        TABLES[self.0].about
    }

    fn write(
        &self,
        profile: &Profile,
        around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        self.write_several(&[(String::new(), profile.clone())], around, out)
    }

    fn write_several(
        &self,
        profiles: &[(String, Profile)],
        _around: &dyn Surroundings,
        out: &mut dyn Write,
    ) -> Result<Summary, ExportError> {
        let mut table = Table::new(&TABLES[self.0]);
        for (name, profile) in profiles {
            (TABLES[self.0].fill)(&mut table, name, profile);
        }
        out.write_all(&file(&table).map_err(|error| io::Error::other(error.to_string()))?)?;
        Ok(Summary { written: vec![("rows", table.rows() as u64)], notes: Vec::new() })
    }
}

/// The bytes of a file with one group of rows. It is put together in memory: the largest table of the largest compiler takes some
/// dozens of megabytes.
fn file(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let mut fields = Vec::new();
    for (name, column) in table.columns() {
        let (physical, logical) = match column {
            Column::Text { .. } => (Physical::BYTE_ARRAY, LogicalType::String),
            Column::Number { .. } => (Physical::INT64, LogicalType::integer(64, false)),
        };
        let repetition = if column.levels().is_some() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(name, physical)
            .with_logical_type(Some(logical))
            .with_repetition(repetition);
        fields.push(Arc::new(field.build()?));
    }
    let schema = Type::group_type_builder("relive").with_fields(fields).build()?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(concat!("relive version ", env!("CARGO_PKG_VERSION")).to_string());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for (_, column) in table.columns() {
        let Some(mut writer) = group.next_column()? else { break };
        match column {
            Column::Text { values, .. } => {
                writer.typed::<ByteArrayType>().write_batch(values, column.levels(), None)?;
            }
            Column::Number { values, .. } => {
                writer.typed::<Int64Type>().write_batch(values, column.levels(), None)?;
            }
        }
        writer.close()?;
    }
    group.close()?;
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Nothing;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use relive_profile::model::{Count, Edge, EdgeKind, Function, Module, Node, State};

    fn profile(entries: u64) -> Profile {
        let mut module = Module { path: "/opt/a".into(), build_id: vec![0xab], ..Module::default() };
        let name = module.texts.intern("_ZN3foo3barEi");
        let reason = module.texts.intern("data among the code");
        let mut function = Function::new(name, 0x1000, 16, State::Measured);
        function.edges.push(Edge {
            from: Node::OUTSIDE,
            to: Node::hub(3),
            counter: None,
            kind: EdgeKind::Enter,
            count: Some(Count::measured(entries)),
        });
        function.blocks.push(relive_profile::model::Block {
            address: 0x1000,
            size: 16,
            insns: 4,
            line: None,
            is_entry: true,
            is_landing_pad: false,
            counter: None,
            count: None,
        });
        module.functions = vec![function, Function::new(name, 0x2000, 16, State::NotMeasured { reason })];
        Profile { modules: vec![module] }
    }

    fn rows(format: &str, profiles: &[(String, Profile)]) -> Vec<String> {
        let at = TABLES.iter().position(|table| table.format == format).expect("a table");
        let mut bytes = Vec::new();
        Parquet(at).write_several(profiles, &Nothing, &mut bytes).expect("written");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("readable");
        reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect()
    }

    #[test]
    fn the_crates_reader_finds_what_was_written() {
        let profiles = [("one".to_string(), profile(7)), ("two".to_string(), profile(u64::MAX / 2))];
        let found = rows("parquet-functions", &profiles);
        assert_eq!(found.len(), 4);
        assert!(found[0].starts_with(
            "{profile: \"one\", module: \"/opt/a\", build_id: \"ab\", function: \"_ZN3foo3barEi\", \
             demangled: \"foo::bar(int)\", function_address: 4096, size: 16, state: \"measured\""
        ));
        assert!(found[0].contains("entries: 7") && found[1].contains("entries: null"), "{found:?}");
        assert!(found[2].contains("entries: 9223372036854775807"), "{found:?}");
        let edges = rows("parquet-edges", &profiles);
        assert!(edges[0].contains("from_address: null") && edges[0].contains("to_hub: 3"), "{edges:?}");
        assert!(rows("parquet-blocks", &profiles)[0].contains("count: null"));
        for table in TABLES {
            assert_eq!(rows(table.format, &[]).len(), 0, "{}", table.format);
            assert_eq!(rows(table.format, &[(String::new(), Profile::default())]).len(), 0);
        }
    }
}
