//! The independent sources: one file per tool or format, each parsed from text.

pub(crate) mod assembler;
pub(crate) mod block_map;
pub(crate) mod breakpoints;
pub(crate) mod callgrind;
pub(crate) mod line_table;
pub(crate) mod listing;
pub(crate) mod symbols;
