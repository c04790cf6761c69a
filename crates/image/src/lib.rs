//! What an ELF file says of its own code, each fact with who vouches for it, and the program that
//! follows from the facts.
//!
//! Only [`loader`] opens files; everything else takes bytes and returns values.

pub mod annotations;
pub mod bb_addr_map;
pub mod cursor;
pub mod data;
pub mod elf;
pub mod error;
pub mod gopclntab;
pub mod identity;
pub mod image;
pub mod jump_table_sizes;
pub mod lines;
pub mod loader;
pub mod lsda;
pub mod names;
pub mod plt;
pub mod prepared;
pub mod program;
pub mod provenance;
pub mod relocations;
pub mod sources;
pub mod symbols;
pub mod unwind;
pub mod unwind_rows;
pub mod watch;
